"""How long stored mail is kept: contents until they expire, blobs as long as a content or an attachment has them."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection, RowMapping, and_, delete, exists, select

from handlers.mailroom.blobs import DIRECTORY, adopt, delete_file, folder_name, old_files, stored_folders
from handlers.mailroom.tables import attachments, blobs, chunks, contents, messages
from mayfly import Job, MayflyError, setting

USUAL_DAYS = "2555"  # seven years
UNUSED_BLOB_AGE = timedelta(days=90)  # a message whose job is dead can be processed again until then
ROWS_PER_COMMIT = 200


@dataclass
class PruneProgress:
    """The checkpoint."""

    folder: str = ""  # the last one of MAIL_STORE whose files were compared with their rows
    contents: int = 0  # deleted, as the next one
    blobs: int = 0


class BadMailAge(MayflyError):
    sentence = "APP_KEEP_MAIL_DAYS={} must be a number of days, 1–36500."


def content_age() -> timedelta:
    text = setting("APP_KEEP_MAIL_DAYS", USUAL_DAYS)
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and 1 <= int(text) <= 36_500):
        raise BadMailAge(text)
    return timedelta(days=int(text))


def prune(job: Job) -> dict[str, int]:
    """Returns the number of deleted contents and blobs, over all slices of the job."""
    done = PruneProgress(**(job.state or {}))
    now = job.now
    _adopt_files(job, done, now - UNUSED_BLOB_AGE)
    _in_slices(job, done, "contents", lambda connection: _delete_contents(connection, now))
    _in_slices(job, done, "blobs", lambda connection: _delete_blobs(connection, now - UNUSED_BLOB_AGE))
    return {"contents": done.contents, "blobs": done.blobs}


def _in_slices(job: Job, done: PruneProgress, name: str, work: Callable[[Connection], int]) -> None:
    while deleted := job.write(work):
        count = getattr(done, name) + deleted
        setattr(done, name, count)
        job.progress(count, text=name)
        job.checkpoint(asdict(done))


def _adopt_files(job: Job, done: PruneProgress, before: datetime) -> None:
    """Give a row to each old file without one: its transaction was rolled back. Then it is pruned like any blob.

    A file is never deleted without the lock of its row: a blob that is stored again at this moment keeps it.
    """
    for folder in stored_folders(after=done.folder):
        found = old_files(folder, before)
        for begin in range(0, len(found), ROWS_PER_COMMIT):
            part = found[begin : begin + ROWS_PER_COMMIT]
            job.write(lambda connection: adopt(connection, folder.parent.name, part))  # noqa: B023
        done.folder = folder_name(folder)
        job.checkpoint(asdict(done))


def _delete_contents(connection: Connection, now: datetime) -> int:
    c = contents.c
    old = select(c.id).where(c.expires_at < now).order_by(c.expires_at, c.id).limit(ROWS_PER_COMMIT)
    ids = list(connection.scalars(old.with_for_update(skip_locked=True)))
    if ids:
        connection.execute(delete(attachments).where(attachments.c.content_id.in_(ids)))
        connection.execute(delete(messages).where(messages.c.content_id.in_(ids)))
        connection.execute(delete(contents).where(c.id.in_(ids)))
    return len(ids)


def _delete_blobs(connection: Connection, before: datetime) -> int:
    """A blob that is stored again at this moment waits for the lock, and is then inserted as a new one."""
    b = blobs.c
    unused = and_(
        b.stored_at < before,
        ~exists().where(contents.c.tenant_id == b.tenant_id, contents.c.raw_hash == b.blob_hash),
        ~exists().where(attachments.c.tenant_id == b.tenant_id, attachments.c.blob_hash == b.blob_hash),
    )
    query = select(blobs).where(unused).order_by(b.stored_at).limit(ROWS_PER_COMMIT)
    found = connection.execute(query.with_for_update(skip_locked=True, of=blobs)).mappings().all()
    for row in found:
        _delete_blob(connection, row)
    return len(found)


def _delete_blob(connection: Connection, row: RowMapping) -> None:
    for table in (chunks, blobs):
        of_blob = and_(table.c.tenant_id == row["tenant_id"], table.c.blob_hash == row["blob_hash"])
        connection.execute(delete(table).where(of_blob))
    if row["place"] == DIRECTORY:
        delete_file(row["tenant_id"], row["blob_hash"])
