"""The way of a file into the table, in steps: rows, then what was rejected, then how far it is.

Each step is committed by itself before the checkpoint that names its end. Whoever is killed in between repeats it:
the rows are known by job and line, the rejects by their place in the file.
"""

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from handlers.prospects.forms import SAMPLE, check_header, columns_of, mark_length, recognise
from handlers.prospects.payloads import ImportProspects
from handlers.prospects.records import Form, Place, Record, Records
from handlers.prospects.rejects import Rejects
from handlers.prospects.rows import Reading, Rejected
from handlers.prospects.tables import insert_new
from mayfly import Dead, Job, setting

STEP_ROWS = 1000
STEP_BYTES = 1 << 20  # of the file: a thousand records may have a gigabyte


@dataclass(frozen=True)
class Cursor:
    """What the checkpoint keeps: the file as it was found, and how far it was read."""

    stamp: list[int]  # size and time of change
    form: Form
    columns: list[str | None]
    place: Place
    imported: int = 0
    rejected: int = 0
    reject_bytes: int = 0


def import_file(job: Job, wanted: ImportProspects) -> dict[str, Any]:
    path = find_file(wanted.path)
    rejects = Rejects(path.with_name(f"{path.name}.{job.id}.rejected.csv"))
    with path.open("rb") as file:
        cursor = _begin(file, wanted) if job.state is None else _read_cursor(job.state)
        _check_unchanged(file, cursor)
        for step in _steps(file, cursor):
            _check_unchanged(file, cursor)  # after it was read, and before it is believed
            cursor = _do(job, step, cursor, rejects)
            job.progress(cursor.place.offset, cursor.stamp[0], _words(cursor))
            job.checkpoint(asdict(cursor))
    rejects.end(cursor.reject_bytes)
    name = rejects.path.name if cursor.rejected else None
    return {"imported": cursor.imported, "rejected": cursor.rejected, "rejects": name}


def find_file(wanted: str) -> Path:
    """One that lies below IMPORT_FILES, whatever links and dots its path has."""
    base = Path(setting("IMPORT_FILES")).resolve()
    try:
        path = (base / wanted).resolve()
        is_ours = path.is_relative_to(base) and path.is_file()
    except (OSError, RuntimeError):  # a name that is too long, links that lead to themselves
        is_ours = False
    if not is_ours:
        raise Dead(f"there is no file {wanted!r} in IMPORT_FILES")
    return path


@dataclass
class _Step:
    rows: list[dict[str, Any]]
    rejected: list[list[str]]
    end: Place


def _steps(file: BinaryIO, cursor: Cursor) -> Iterator[_Step]:
    records, reading = Records(file, cursor.form, cursor.place), Reading(cursor.columns)
    while (step := _next_step(records, reading)) is not None:
        yield step


def _next_step(records: Records, reading: Reading) -> _Step | None:
    """None at the file's end."""
    begins_at = records.place.offset
    step = _Step([], [], records.place)
    for record in records:
        try:
            if record.fields:  # an empty line is nothing, and no mistake
                step.rows.append({**_prospect(record, reading), "line": record.line})
        except Rejected as error:
            step.rejected.append([str(record.line), str(error), *record.fields])
        if len(step.rows) + len(step.rejected) == STEP_ROWS or records.place.offset - begins_at >= STEP_BYTES:
            break
    step.end = records.place
    return None if step.end.offset == begins_at else step


def _prospect(record: Record, reading: Reading) -> dict[str, Any]:
    if record.problem is not None:
        raise Rejected(record.problem)
    return reading.prospect(record.fields)


def _do(job: Job, step: _Step, cursor: Cursor, rejects: Rejects) -> Cursor:
    if step.rows:
        now = job.now
        common = {"import_id": job.id, "created_at": now, "updated_at": now}
        rows = [{**each, **common} for each in step.rows]
        job.write(lambda connection: insert_new(connection, rows))
    reject_bytes = cursor.reject_bytes
    if step.rejected:
        reject_bytes = rejects.write(reject_bytes, step.rejected)
    return replace(
        cursor,
        place=step.end,
        imported=cursor.imported + len(step.rows),
        rejected=cursor.rejected + len(step.rejected),
        reject_bytes=reject_bytes,
    )


def _begin(file: BinaryIO, wanted: ImportProspects) -> Cursor:
    sample = file.read(SAMPLE)
    form = recognise(sample, wanted.mapping, wanted.encoding, wanted.delimiter)
    records = Records(file, form, Place(mark_length(sample), 0))
    header = next((each for each in records if each.fields), None)
    if header is None:
        raise Dead("the file is empty: it has not even a header")
    if header.problem is not None:
        raise Dead(f"its header cannot be read: {header.problem}")
    columns = columns_of(header.fields, wanted.mapping)
    check_header(header.fields, columns, wanted.mapping)
    return Cursor(_stamp(file), form, columns, records.place)


def _read_cursor(state: dict[str, Any]) -> Cursor:
    return Cursor(**{**state, "form": Form(**state["form"]), "place": Place(**state["place"])})


def _stamp(file: BinaryIO) -> list[int]:
    found = os.fstat(file.fileno())
    return [found.st_size, found.st_mtime_ns]


def _check_unchanged(file: BinaryIO, cursor: Cursor) -> None:
    if _stamp(file) != cursor.stamp:
        raise Dead(
            f"the file was changed while it was read, at line {cursor.place.line:,}:"
            f" {cursor.imported:,} rows of the old one are imported"
        )


def _words(cursor: Cursor) -> str:
    return f"bytes: {cursor.imported:,} rows imported, {cursor.rejected:,} rejected"
