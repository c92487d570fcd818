"""Warm-up: accounts of a tenant send each other email, move it out of the spam folder, flag and answer it.

Each step is done once. An email is never sent again: if its outcome is unknown, the recipient's mailbox decides.
"""

import imaplib
import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, Row, func, select, update

from handlers.idempotency import DONE, HANDED_OVER, Effect
from handlers.mail import smtp
from handlers.mail.accounts import Account, read_accounts
from handlers.mail.message import compose, message_id_of
from handlers.mail.payloads import Mail
from handlers.mailroom.imap import (
    CREDENTIAL,
    INBOX,
    add_flags,
    find_message,
    imap_server,
    logged_in,
    move_message,
    select_folder,
    spam_folder,
)
from handlers.mailroom.payloads import WarmupStep
from handlers.mailroom.tables import accounts, warmup_mails, warmup_steps, warmups
from handlers.mailroom.warmup_plan import chance, partner_of
from handlers.upsert import insert_missing
from mayfly import Cancel, Dead, Job, MayflyError, Retry, setting

SEARCHED_FOR = timedelta(days=7)  # then an email counts as lost
MAX_SEARCHED, MAX_ENGAGED = 200, 20  # emails per step: the next one does the others
TEXTS = (
    ("Notes from this week", "Hello,\n\nhere are my notes. Tell me if something is missing.\n\nBest regards\n"),
    ("A question about the schedule", "Hello,\n\ndoes Thursday afternoon still suit you?\n\nBest regards\n"),
    ("The document for tomorrow", "Hello,\n\nI have read it and have two small remarks. Shall we talk?\n\nRegards\n"),
    ("Thank you", "Hello,\n\nthank you for your help yesterday. It worked at once.\n\nBest regards\n"),
    ("Numbers for the report", "Hello,\n\nthe numbers look good to me. Please use them.\n\nKind regards\n"),
)
ANSWERS = (
    "Hello,\n\nthank you, that is fine for me.\n\nBest regards\n",
    "Hello,\n\nyes, gladly. I will come back to you tomorrow.\n\nBest regards\n",
    "Hello,\n\nthanks for your message, I agree.\n\nKind regards\n",
)


def run_step(job: Job, step: WarmupStep) -> dict[str, int]:
    run = _StepRun(job, step)
    if run.result is not None:
        return run.result
    result = {"outbound": run.send, "inbound": run.receive, "engagement": run.engage}[step.warmup_type]()
    run.finish(result)
    return result


class _StepRun:
    """One step in one run of its job."""

    def __init__(self, job: Job, step: WarmupStep) -> None:
        self._job, self._step = job, step
        query = (
            select(accounts, warmups.c.reply_percent, warmups.c.flag_percent)
            .join_from(accounts, warmups, warmups.c.email_account_id == accounts.c.id)
            .where(accounts.c.id == step.email_account_id, accounts.c.is_active == 1, warmups.c.is_active == 1)
        )
        account = job.read(lambda connection: connection.execute(query).first())
        if account is None:
            raise Cancel(f"account {step.email_account_id} is not in warm-up: see app_mail_warmups")
        self._account = account
        self.result: dict[str, int] | None = job.write(self._begin)

    def _begin(self, connection: Connection) -> dict[str, int] | None:
        """The result of an earlier run. A step that was not planned gets its row here."""
        row = {**self._step.model_dump(), "tenant_id": self._account.tenant_id, "created_at": self._job.now}
        insert_missing(connection, warmup_steps, row)
        result: dict[str, int] | None = connection.scalar(select(warmup_steps.c.result).where(*self._is_step()))
        return result

    def finish(self, result: dict[str, int]) -> None:
        done = update(warmup_steps).where(*self._is_step(), warmup_steps.c.done_at.is_(None))
        self._job.write(lambda connection: connection.execute(done.values(result=result, done_at=self._job.now)))

    def _is_step(self) -> list[Any]:
        return [warmup_steps.c[name] == value for name, value in self._step.model_dump().items()]

    # --- outbound -----------------------------------------------------------------------------------------

    def send(self) -> dict[str, int]:
        """One email to another account of the tenant."""
        account, number = self._account, self._step.sequence_step
        others = [each for each in self._accounts_in_warmup() if each != account.id]
        if not others:
            raise Cancel(f"no other account of the tenant {account.tenant_id} is in warm-up")
        key = f"{account.id}:{number}"
        subject, text = TEXTS[int(chance(key) * len(TEXTS))]
        mail = self._mail(f"outbound:{key}", partner_of(account.id, number, others), subject)
        return {"sent": self._hand_over(mail, text)}

    def _accounts_in_warmup(self) -> Sequence[int]:
        w = warmups.c
        query = (
            select(w.email_account_id)
            .join(accounts, accounts.c.id == w.email_account_id)
            .where(accounts.c.tenant_id == self._account.tenant_id, w.is_active == 1, accounts.c.is_active == 1)
            .order_by(w.email_account_id)
        )
        return self._job.read(lambda connection: connection.scalars(query).all())

    def _mail(self, key: str, to_account_id: int, subject: str, answers_id: int | None = None) -> Row[Any]:
        """The row of an email, created by the first run."""
        account, m = self._account, warmup_mails.c
        row = {
            "tenant_id": account.tenant_id, "mail_key": key, "from_account_id": account.id,
            "to_account_id": to_account_id, "message_id": message_id_of(f"warmup:{key}", account.address),
            "answers_id": answers_id, "subject": subject, "created_at": self._job.now,
        }  # fmt: skip
        query = (
            select(warmup_mails, accounts.c.address.label("recipient"))
            .join_from(warmup_mails, accounts, accounts.c.id == m.to_account_id)
            .where(m.mail_key == key)
        )

        def work(connection: Connection) -> Row[Any]:
            insert_missing(connection, warmup_mails, row)
            return connection.execute(query).one()

        return self._job.write(work)

    def _hand_over(self, mail: Row[Any], text: str, answers: str | None = None) -> int:
        """Returns 0 if an earlier run has handed it over: it is not sent again."""
        effect = Effect(self._job, "warmup", mail.mail_key)
        state = effect.load().state
        if state in (DONE, HANDED_OVER):
            return 0
        account = smtp_account(self._account)
        content = Mail(to=mail.recipient, subject=mail.subject, text=text, attachments=[])
        message = compose(content, self._account.address, effect.key)
        threading = b"" if answers is None else f"In-Reply-To: <{answers}>\r\nReferences: <{answers}>\r\n".encode()
        sent = update(warmup_mails).where(warmup_mails.c.id == mail.id).values(sent_at=self._job.now)

        def hand_over() -> None:
            effect.hand_over(account.name, state, lambda connection: connection.execute(sent))

        try:
            answer = smtp.send(account, mail.recipient, threading + message, hand_over)
        except (smtp.LoginFailed, smtp.TemporaryFailure) as error:
            self._take_back(effect, mail, str(error))
            raise Retry(f"{account.name}: {error}") from error
        except smtp.PermanentFailure as error:
            self._take_back(effect, mail, str(error))
            raise Dead(f"{account.name}: {error}") from error
        except smtp.ReplyUnknown:
            return 1
        effect.complete(answer)
        return 1

    def _take_back(self, effect: Effect, mail: Row[Any], answer: str) -> None:
        unsent = update(warmup_mails).where(warmup_mails.c.id == mail.id).values(sent_at=None)
        effect.reopen(answer, lambda connection: connection.execute(unsent))

    # --- inbound ------------------------------------------------------------------------------------------

    def receive(self) -> dict[str, int]:
        """Find the emails to this account: move them out of the spam folder, mark them as read."""
        m, since = warmup_mails.c, self._job.now - SEARCHED_FOR
        expected = self._mails(m.found_at.is_(None), m.sent_at >= since, most=MAX_SEARCHED)
        if not expected:
            return {"found": 0, "moved": 0, "missing": 0}
        with logged_in(imap_server(self._account.imap_credential)) as imap:
            moved = self._rescue_from_spam(imap, expected)
            select_folder(imap, INBOX)
            found = [each for each in expected if self._read_in_inbox(imap, each)]
        return {"found": len(found), "moved": moved, "missing": len(expected) - len(found)}

    def _rescue_from_spam(self, imap: imaplib.IMAP4, expected: Sequence[Row[Any]]) -> int:
        folder = spam_folder(imap)
        if folder is None:
            return 0
        select_folder(imap, folder)
        moved = 0
        for mail in expected:
            uid = find_message(imap, mail.message_id)
            if uid is not None:
                self._record(mail, was_spam=1)  # before it is moved: then the folder is not known any more
                move_message(imap, uid, INBOX)
                moved += 1
        return moved

    def _read_in_inbox(self, imap: imaplib.IMAP4, mail: Row[Any]) -> bool:
        uid = find_message(imap, mail.message_id)
        if uid is None:
            return False
        add_flags(imap, uid, r"\Seen")
        self._record(mail, found_at=self._job.now, was_spam=func.coalesce(warmup_mails.c.was_spam, 0))
        return True

    # --- engagement ---------------------------------------------------------------------------------------

    def engage(self) -> dict[str, int]:
        """Flag and answer a part of the emails that were found."""
        m = warmup_mails.c
        waiting = self._mails(m.found_at.is_not(None), m.engaged_at.is_(None), most=MAX_ENGAGED)
        counts = {"answered": 0, "flagged": 0, "left": 0}
        if not waiting:
            return counts
        with logged_in(imap_server(self._account.imap_credential)) as imap:
            select_folder(imap, INBOX)
            for mail in waiting:
                for name in self._engage_with(imap, mail) or ["left"]:
                    counts[name] += 1
        return counts

    def _engage_with(self, imap: imaplib.IMAP4, mail: Row[Any]) -> list[str]:
        actions = engagement_of(mail, self._account.reply_percent, self._account.flag_percent)
        uid = find_message(imap, mail.message_id)
        if "answered" in actions:
            subject = mail.subject if mail.subject.startswith("Re: ") else f"Re: {mail.subject}"
            answer = self._mail(f"answer:{mail.id}", mail.from_account_id, subject, mail.id)
            text = ANSWERS[int(chance(f"text:{mail.mail_key}") * len(ANSWERS))]
            self._hand_over(answer, text, mail.message_id)
        flags = {"answered": r"\Answered", "flagged": r"\Flagged"}
        if uid is not None and actions:
            add_flags(imap, uid, *(flags[each] for each in actions))
        self._record(mail, engaged_at=self._job.now)
        return actions

    def _mails(self, *conditions: Any, most: int) -> Sequence[Row[Any]]:
        """To this account, the oldest first."""
        m = warmup_mails.c
        query = (
            select(warmup_mails).where(m.to_account_id == self._account.id, *conditions).order_by(m.id).limit(most)
        )
        return self._job.read(lambda connection: connection.execute(query).all())

    def _record(self, mail: Row[Any], **values: Any) -> None:
        change = update(warmup_mails).where(warmup_mails.c.id == mail.id).values(**values)
        self._job.write(lambda connection: connection.execute(change))


def engagement_of(mail: Row[Any], reply_percent: int, flag_percent: int) -> list[str]:
    """An answer is not answered, so that no conversation is endless."""
    is_answered = mail.answers_id is None and 100 * chance(f"answer:{mail.mail_key}") < reply_percent
    is_flagged = 100 * chance(f"flag:{mail.mail_key}") < flag_percent
    return [name for name, chosen in (("answered", is_answered), ("flagged", is_flagged)) if chosen]


def smtp_account(account: Row[Any]) -> Account:
    """The setting has one URL, as in SMTP_ACCOUNTS."""
    credential = account.smtp_credential
    if credential is None or not re.fullmatch(CREDENTIAL, credential):
        raise Dead(f"smtp_credential={credential} must be the name of a setting that begins with MAILBOX_")
    try:
        [found] = read_accounts(setting(credential, ""))
    except (MayflyError, ValueError):  # an error of SMTP_ACCOUNTS would name that setting
        raise Dead(f"{credential} must be one URL like smtp://user:password@host:587?from=ann@shop.example") from None
    return found
