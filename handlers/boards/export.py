"""Write a board to a file, page by page; a run that was ended in the middle, in any way, is gone on with."""

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

PAGE = 200  # rows in memory at a time
CHUNK = 1 << 20
LEVEL = 6
EPOCH = (1980, 1, 1, 0, 0, 0)  # of every zip file: the same board gives the same bytes
PRIVATE = 0o600  # there are addresses in it
WAIT_SECONDS = 5
PARTS = ("members", "posts")


class Place(NamedTuple):
    """How far the draft is: what it should have, and behind which row of which part it goes on."""

    part: int = 0
    after: int = 0
    size: int = 0
    crc: int = 0


@contextmanager
def opened(draft: Path) -> Iterator[BinaryIO]:
    """By one at a time: a runner that everybody believes dead may wake up and go on with the same file."""
    draft.touch(PRIVATE)
    with draft.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_gone = draft.stat().st_ino != os.fstat(file.fileno()).st_ino
        except (BlockingIOError, FileNotFoundError):
            is_gone = True
        if is_gone:  # somebody else has it, or had it a moment ago
            raise Snooze(after=WAIT_SECONDS)
        yield file


def write_draft(job: Job, board: BoardRow, draft: Path, file: BinaryIO) -> None:
    """One JSON document with a row a line."""
    place = _last_place(job, draft)
    file.truncate(place.size)
    while place.part < len(PARTS):
        text, place = _next_page(job, board, place)
        file.write(text)
        file.flush()
        place = place._replace(size=place.size + len(text), crc=crc32(text, place.crc))
        job.checkpoint({"export": place})
    file.write(b"\n]}\n")
    file.flush()


def pack(draft: Path, target: Path) -> None:
    """Whole under its name, or not there."""
    aside = draft.with_suffix(".zip")
    aside.touch(PRIVATE)
    entry = ZipInfo(f"{target.stem}.json", EPOCH)
    entry.compress_type, entry.external_attr = ZIP_DEFLATED, PRIVATE << 16
    with aside.open("wb") as file:
        with (
            ZipFile(file, "w", compresslevel=LEVEL) as packed,
            packed.open(entry, "w", force_zip64=True) as inside,
            draft.open("rb") as source,
        ):
            copyfileobj(source, inside, CHUNK)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(target)
    draft.unlink()


def _last_place(job: Job, draft: Path) -> Place:
    """From the beginning where the draft is not what this job has left: lost with a host, or written by another."""
    kept = (job.state or {}).get("export")
    if kept is None:
        return Place()
    place = Place(*kept)
    return place if _checksum(draft, place.size) == place.crc else Place()


def _checksum(draft: Path, size: int) -> int | None:
    """Of so many bytes; None if there are less."""
    crc = 0
    with draft.open("rb") as file:
        while size and (chunk := file.read(min(size, CHUNK))):
            crc, size = crc32(chunk, crc), size - len(chunk)
    return None if size else crc


def _next_page(job: Job, board: BoardRow, place: Place) -> tuple[bytes, Place]:
    rows = _rows(job, board.id, place)
    opening = "" if place.after else _opening(board, place.part)
    lines = ",\n".join(json.dumps(each, ensure_ascii=False) for each in rows)
    before = (",\n" if place.after else "\n") if rows else ""
    behind = place._replace(after=rows[-1]["id"]) if rows else place._replace(part=place.part + 1, after=0)
    return f"{opening}{before}{lines}".encode(), behind


def _rows(job: Job, board_id: int, place: Place) -> list[dict[str, Any]]:
    if PARTS[place.part] == "posts":
        return posts_after(job, board_id, place.after, PAGE)
    members = members_after(job, board_id, place.after, PAGE)
    return [{**each._asdict(), "joined_at": each.joined_at.isoformat()} for each in members]


def _opening(board: BoardRow, part: int) -> str:
    if part > 0:
        return f'\n],\n"{PARTS[part]}": ['
    times = {"created_at": board.created_at.isoformat(), "closed_at": board.closed_at and board.closed_at.isoformat()}
    told = json.dumps({"id": board.id, "title": board.title, **times}, ensure_ascii=False)
    return f'{{"board": {told},\n"{PARTS[part]}": ['
