"""Write a board to a file, page by page. The next run continues an interrupted or killed one."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfileobj
from typing import Any, BinaryIO, NamedTuple
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo
from zlib import crc32

from handlers.boards.tables import BoardRow, members_after, posts_after
from mayfly import Job, Snooze

PAGE_SIZE = 200  # rows in memory
CHUNK_BYTES = 1 << 20
COMPRESSION_LEVEL = 6
EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time of the zip format: the same board yields the same bytes
PRIVATE = 0o600  # it contains addresses
WAIT_SECONDS = 5
SECTIONS = ("members", "posts")


class ExportPosition(NamedTuple):
    """The checkpoint: size and checksum of the draft, and the last row that it contains."""

    section: int = 0
    after: int = 0
    size: int = 0
    crc: int = 0


@contextmanager
def open_draft(draft: Path) -> Iterator[BinaryIO]:
    """Open and lock the file: a runner that lost its lease may still be writing to it."""
    draft.touch(PRIVATE)
    with draft.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_gone = draft.stat().st_ino != os.fstat(file.fileno()).st_ino
        except (BlockingIOError, FileNotFoundError):
            is_gone = True
        if is_gone:  # another runner has the lock, or had it a moment ago
            raise Snooze(after=WAIT_SECONDS)
        yield file


def write_draft(job: Job, board: BoardRow, draft: Path, file: BinaryIO) -> None:
    """One JSON document with one row per line."""
    position = _last_position(job, draft)
    file.truncate(position.size)
    while position.section < len(SECTIONS):
        text, position = _next_page(job, board, position)
        file.write(text)
        file.flush()
        position = position._replace(size=position.size + len(text), crc=crc32(text, position.crc))
        job.checkpoint({"export": position})
    file.write(b"\n]}\n")
    file.flush()


def pack(draft: Path, target: Path) -> None:
    """Write the zip file and rename it, so that the target is either complete or missing."""
    aside = draft.with_suffix(".zip")
    aside.touch(PRIVATE)
    entry = ZipInfo(f"{target.stem}.json", EPOCH)
    entry.compress_type, entry.external_attr = ZIP_DEFLATED, PRIVATE << 16
    with aside.open("wb") as file:
        with (
            ZipFile(file, "w", compresslevel=COMPRESSION_LEVEL) as packed,
            packed.open(entry, "w", force_zip64=True) as inside,
            draft.open("rb") as source,
        ):
            copyfileobj(source, inside, CHUNK_BYTES)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(target)
    draft.unlink()


def _last_position(job: Job, draft: Path) -> ExportPosition:
    """Start from the beginning if the draft does not match the checkpoint: lost with a host, or of another job."""
    kept = (job.state or {}).get("export")
    if kept is None:
        return ExportPosition()
    position = ExportPosition(*kept)
    return position if _checksum(draft, position.size) == position.crc else ExportPosition()


def _checksum(draft: Path, size: int) -> int | None:
    """The checksum of the first `size` bytes; None if there are fewer."""
    crc = 0
    with draft.open("rb") as file:
        while size and (chunk := file.read(min(size, CHUNK_BYTES))):
            crc, size = crc32(chunk, crc), size - len(chunk)
    return None if size else crc


def _next_page(job: Job, board: BoardRow, position: ExportPosition) -> tuple[bytes, ExportPosition]:
    rows = _rows(job, board.id, position)
    opening = "" if position.after else _opening(board, position.section)
    lines = ",\n".join(json.dumps(each, ensure_ascii=False) for each in rows)
    before = (",\n" if position.after else "\n") if rows else ""
    following = {"after": rows[-1]["id"]} if rows else {"section": position.section + 1, "after": 0}
    return f"{opening}{before}{lines}".encode(), position._replace(**following)


def _rows(job: Job, board_id: int, position: ExportPosition) -> list[dict[str, Any]]:
    if SECTIONS[position.section] == "posts":
        return posts_after(job, board_id, position.after, PAGE_SIZE)
    members = members_after(job, board_id, position.after, PAGE_SIZE)
    return [{**each._asdict(), "joined_at": each.joined_at.isoformat()} for each in members]


def _opening(board: BoardRow, section: int) -> str:
    if section > 0:
        return f'\n],\n"{SECTIONS[section]}": ['
    times = {"created_at": board.created_at.isoformat(), "closed_at": board.closed_at and board.closed_at.isoformat()}
    header = json.dumps({"id": board.id, "title": board.title, **times}, ensure_ascii=False)
    return f'{{"board": {header},\n"{SECTIONS[section]}": ['
