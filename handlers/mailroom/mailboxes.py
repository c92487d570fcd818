"""Read new messages over IMAP: each is stored and committed before the position moves on and it is flagged."""

import imaplib
import re
from typing import Any

from sqlalchemy import Row, select

from handlers.mailroom.imap import checked, imap_server, logged_in, select_folder
from handlers.mailroom.intake import Envelope, max_bytes, take_in
from handlers.mailroom.tables import accounts, mailboxes
from handlers.upsert import upsert
from mayfly import Dead, Job, enqueue

PAGE_SIZE = 50  # messages between two checkpoints
UID = re.compile(rb"\bUID (\d+)")


def enqueue_polls(job: Job, folder: str) -> dict[str, int]:
    """One job per account at a time: a slow server does not delay the others."""
    a = accounts.c
    active = select(a.id).where(a.is_active == 1, a.imap_credential.is_not(None)).order_by(a.id)
    ids = job.read(lambda connection: list(connection.scalars(active)))
    for each in ids:
        payload = {"email_account_id": each, "folder": folder}
        enqueue("poll_mailboxes", payload, unique_key=f"poll:{each}:{folder}"[:190])
    return {"accounts": len(ids)}


def poll_account(job: Job, account_id: int, folder: str) -> dict[str, int]:
    query = select(accounts).where(accounts.c.id == account_id)
    account = job.read(lambda connection: connection.execute(query).first())
    if account is None:
        raise Dead(f"there is no account {account_id} in app_mail_accounts")
    stored = int((job.state or {}).get("stored", 0))
    with logged_in(imap_server(account.imap_credential)) as imap:
        mailbox = _PolledFolder(job, account, folder, imap, select_folder(imap, folder))
        while uids := mailbox.next_uids():
            stored += mailbox.take(uids)
            job.progress(stored, text="messages")
            job.checkpoint({"stored": stored})
    return {"stored": stored}


class _PolledFolder:
    """One folder during one run."""

    def __init__(self, job: Job, account: Row[Any], folder: str, imap: imaplib.IMAP4, uid_validity: int) -> None:
        self._job, self._account, self._folder, self._imap = job, account, folder, imap
        self._uid_validity = uid_validity

    def next_uids(self) -> list[int]:
        """After the last one that is stored. With a new UIDVALIDITY all numbers are new: the folder is read again."""
        m = mailboxes.c
        query = select(m.uid_validity, m.last_uid).where(
            m.email_account_id == self._account.id, m.folder == self._folder
        )
        row = self._job.read(lambda connection: connection.execute(query).first())
        last = row.last_uid if row is not None and row.uid_validity == self._uid_validity else 0
        [found] = checked(self._imap.uid("SEARCH", f"UID {last + 1}:*"))
        # n:* always has the newest message, even if its number is lower than n.
        return sorted(uid for uid in map(int, (found or b"").split()) if uid > last)[:PAGE_SIZE]

    def take(self, uids: list[int]) -> int:
        stored = [uid for uid in uids if self._take_one(uid)]
        position = {
            "tenant_id": self._account.tenant_id, "email_account_id": self._account.id, "folder": self._folder,
            "uid_validity": self._uid_validity, "last_uid": uids[-1], "polled_at": self._job.now,
        }  # fmt: skip
        self._job.write(lambda connection: upsert(connection, mailboxes, position))
        if stored:
            checked(self._imap.uid("STORE", ",".join(map(str, stored)), "+FLAGS.SILENT", r"(\Seen)"))
        return len(stored)

    def _take_one(self, uid: int) -> bool:
        """A message that is too large is stored up to the limit, and flagged as cut."""
        limit = max_bytes()  # one byte more shows that there is more
        answer = checked(self._imap.uid("FETCH", str(uid), f"(UID BODY.PEEK[]<0.{limit + 1}>)"))
        raw = next((part[1] for part in answer if isinstance(part, tuple) and _uid_in(part[0]) == uid), None)
        if raw is None:  # deleted meanwhile
            return False
        is_cut = len(raw) > limit
        envelope = Envelope(tenant_id=self._account.tenant_id, account_id=self._account.id, is_cut=is_cut)
        take_in(self._job, raw[:limit], envelope)
        return True


def _uid_in(line: bytes) -> int | None:
    found = UID.search(line)
    return int(found[1]) if found else None
