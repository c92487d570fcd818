"""The bytes of stored mail, each once per tenant and hash: in the directory MAIL_STORE, or in the database."""

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple

from sqlalchemy import Connection, select

from handlers.mailroom.tables import blobs, chunks
from handlers.upsert import insert_missing, upsert
from mayfly import Dead, MayflyError, setting

BLOB_NAME = re.compile("[0-9a-f]{64}")
UNFINISHED = re.compile(r"\.[0-9a-f]{64}\.[0-9a-f]{8}")
CHUNK_BYTES = 1 << 20  # MariaDB refuses statements of more than 16 MiB by default
DATABASE, DIRECTORY = "database", "directory"


class BadMailStore(MayflyError):
    sentence = "MAIL_STORE={} must be an existing directory with an absolute path."


class Blob(NamedTuple):
    """Bytes with their hash, which is computed once."""

    content: bytes
    blob_hash: str


def blob_of(content: bytes) -> Blob:
    return Blob(content, sha256(content).hexdigest())


def store_blob(connection: Connection, tenant_id: str, blob: Blob, now: datetime) -> None:
    """Part of the caller's transaction. A blob that is stored already is only marked as used now.

    The row is locked before the file is written, and pruning deletes the file under that lock. So a blob that is
    stored again while it is being pruned has its file.
    """
    key = {"tenant_id": tenant_id, "blob_hash": blob.blob_hash}
    directory = store_directory()
    place = DATABASE if directory is None else DIRECTORY
    upsert(connection, blobs, {**key, "place": place, "size_bytes": len(blob.content), "stored_at": now})
    if directory is not None:
        _write_file(_path(directory, tenant_id, blob.blob_hash), blob.content)
        return
    parts = range(0, max(len(blob.content), 1), CHUNK_BYTES)
    rows = [
        {**key, "number": number, "content": blob.content[at : at + CHUNK_BYTES]} for number, at in enumerate(parts)
    ]
    insert_missing(connection, chunks, rows)


def read_blob(connection: Connection, tenant_id: str, blob_hash: str) -> bytes:
    place = connection.scalar(
        select(blobs.c.place).where(blobs.c.tenant_id == tenant_id, blobs.c.blob_hash == blob_hash)
    )
    if place is None:
        raise Dead(f"there is no blob {blob_hash} of the tenant {tenant_id} in app_mail_blobs")
    if place == DIRECTORY:
        return _read_file(tenant_id, blob_hash)
    c = chunks.c
    found = select(c.content).where(c.tenant_id == tenant_id, c.blob_hash == blob_hash).order_by(c.number)
    return b"".join(bytes(each) for each in connection.scalars(found))


def delete_file(tenant_id: str, blob_hash: str) -> None:
    """Of a blob whose row the caller has locked."""
    directory = store_directory()
    if directory is not None:
        _path(directory, tenant_id, blob_hash).unlink(missing_ok=True)


def store_directory() -> Path | None:
    """Shared by all hosts that receive or read mail; None if blobs are in the database."""
    text = setting("MAIL_STORE", "")
    if not text:
        return None
    path = Path(text)
    if not path.is_absolute() or not path.is_dir():
        raise BadMailStore(text)
    return path


# --- files without a row ----------------------------------------------------------------------------------


class StoredFile(NamedTuple):
    blob_hash: str
    size_bytes: int
    changed_at: datetime


def stored_folders(after: str) -> list[Path]:
    """Those of MAIL_STORE with files, one per tenant and first byte of the hash, in the order of their names."""
    directory = store_directory()
    found = [] if directory is None else directory.glob("*/[0-9a-f][0-9a-f]")
    return sorted((each for each in found if folder_name(each) > after), key=folder_name)


def folder_name(folder: Path) -> str:
    return f"{folder.parent.name}/{folder.name}"


def old_files(folder: Path, before: datetime) -> list[StoredFile]:
    """The blobs that were last stored before this time. Unfinished files of killed processes are deleted."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            status = entry.stat(follow_symlinks=False)
            changed_at = datetime.fromtimestamp(status.st_mtime, UTC)
            if changed_at < before and UNFINISHED.fullmatch(entry.name):
                Path(entry.path).unlink(missing_ok=True)
            elif changed_at < before and BLOB_NAME.fullmatch(entry.name) and entry.name.startswith(folder.name):
                found.append(StoredFile(entry.name, status.st_size, changed_at))
    return found


def adopt(connection: Connection, tenant_id: str, files: Sequence[StoredFile]) -> None:
    """Insert the rows of these files that are missing."""
    b = blobs.c
    query = select(b.blob_hash).where(b.tenant_id == tenant_id, b.blob_hash.in_([each.blob_hash for each in files]))
    known = set(connection.scalars(query))
    rows = [
        {
            "tenant_id": tenant_id,
            "blob_hash": each.blob_hash,
            "place": DIRECTORY,
            "size_bytes": each.size_bytes,
            "stored_at": each.changed_at,
        }
        for each in files
        if each.blob_hash not in known
    ]
    if rows:
        insert_missing(connection, blobs, rows)


# --- files ------------------------------------------------------------------------------------------------


def _path(directory: Path, tenant_id: str, blob_hash: str) -> Path:
    return directory / tenant_id / blob_hash[:2] / blob_hash


def _read_file(tenant_id: str, blob_hash: str) -> bytes:
    directory = store_directory()
    if directory is None:
        raise Dead(f"the blob {blob_hash} is in a directory: set MAIL_STORE as on the host that stored it")
    try:
        return _path(directory, tenant_id, blob_hash).read_bytes()
    except FileNotFoundError:
        raise Dead(f"the file of the blob {blob_hash} is missing in MAIL_STORE: is it shared by all hosts?") from None


def _write_file(path: Path, content: bytes) -> None:
    """Whole or not at all, also after a power failure."""
    if path.exists() and path.stat().st_size == len(content):
        os.utime(path)
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{token_hex(4)}")
    try:
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.rename(path)
    finally:
        with suppress(FileNotFoundError):
            unfinished.unlink()
    for directory in (path.parent, path.parent.parent, path.parent.parent.parent):
        _sync(directory)


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
