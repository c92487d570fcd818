"""Import a CSV file in steps: insert rows, write rejected records, then checkpoint.

A step that was killed before its checkpoint is repeated: rows are unique by job and line, rejected records by their
offset in the file.
"""

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from handlers.prospects.csv_format import SAMPLE_BYTES, check_header, columns_of, detect_format, mark_length
from handlers.prospects.csv_records import CsvFormat, CsvRecord, CsvRecords, FilePosition
from handlers.prospects.payloads import ImportProspects
from handlers.prospects.rejects import RejectsFile
from handlers.prospects.tables import insert_new
from handlers.prospects.validation import RecordMapping, RejectedRecord
from mayfly import Dead, Job, setting

STEP_ROWS = 1000
STEP_BYTES = 1 << 20  # of the file: 1,000 records could take a gigabyte


@dataclass(frozen=True)
class ImportCheckpoint:
    """The identity of the file, and the progress in it."""

    stamp: list[int]  # size and modification time
    form: CsvFormat
    columns: list[str | None]
    position: FilePosition
    imported: int = 0
    rejected: int = 0
    reject_bytes: int = 0


def import_file(job: Job, wanted: ImportProspects) -> dict[str, Any]:
    path = find_file(wanted.path)
    rejects = RejectsFile(path.with_name(f"{path.name}.{job.id}.rejected.csv"))
    with path.open("rb") as file:
        cursor = _begin(file, wanted) if job.state is None else _read_checkpoint(job.state)
        _check_unchanged(file, cursor)
        for step in _steps(file, cursor):
            _check_unchanged(file, cursor)  # again, before the records are used
            cursor = _do(job, step, cursor, rejects)
            job.progress(cursor.position.offset, cursor.stamp[0], _summary(cursor))
            job.checkpoint(asdict(cursor))
    rejects.end(cursor.reject_bytes)
    name = rejects.path.name if cursor.rejected else None
    return {"imported": cursor.imported, "rejected": cursor.rejected, "rejects": name}


def find_file(wanted: str) -> Path:
    """Resolve links and dots; the file must be below IMPORT_FILES."""
    base = Path(setting("IMPORT_FILES")).resolve()
    try:
        path = (base / wanted).resolve()
        is_inside = path.is_relative_to(base) and path.is_file()
    except (OSError, RuntimeError):  # the name is too long, or the links form a loop
        is_inside = False
    if not is_inside:
        raise Dead(f"there is no file {wanted!r} in IMPORT_FILES")
    return path


@dataclass
class _ImportStep:
    rows: list[dict[str, Any]]
    rejected: list[list[str]]
    end: FilePosition


def _steps(file: BinaryIO, cursor: ImportCheckpoint) -> Iterator[_ImportStep]:
    records, mapping = CsvRecords(file, cursor.form, cursor.position), RecordMapping(cursor.columns)
    while (step := _next_step(records, mapping)) is not None:
        yield step


def _next_step(records: CsvRecords, mapping: RecordMapping) -> _ImportStep | None:
    """Return None at the end of the file."""
    begins_at = records.position.offset
    step = _ImportStep([], [], records.position)
    for record in records:
        try:
            if record.fields:  # skip empty lines
                step.rows.append({**_prospect(record, mapping), "line": record.line})
        except RejectedRecord as error:
            step.rejected.append([str(record.line), str(error), *record.fields])
        if len(step.rows) + len(step.rejected) == STEP_ROWS or records.position.offset - begins_at >= STEP_BYTES:
            break
    step.end = records.position
    return None if step.end.offset == begins_at else step


def _prospect(record: CsvRecord, mapping: RecordMapping) -> dict[str, Any]:
    if record.problem is not None:
        raise RejectedRecord(record.problem)
    return mapping.prospect(record.fields)


def _do(job: Job, step: _ImportStep, cursor: ImportCheckpoint, rejects: RejectsFile) -> ImportCheckpoint:
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
        position=step.end,
        imported=cursor.imported + len(step.rows),
        rejected=cursor.rejected + len(step.rejected),
        reject_bytes=reject_bytes,
    )


def _begin(file: BinaryIO, wanted: ImportProspects) -> ImportCheckpoint:
    sample = file.read(SAMPLE_BYTES)
    form = detect_format(sample, wanted.mapping, wanted.encoding, wanted.delimiter)
    records = CsvRecords(file, form, FilePosition(mark_length(sample), 0))
    header = next((each for each in records if each.fields), None)
    if header is None:
        raise Dead("the file is empty: it has no header")
    if header.problem is not None:
        raise Dead(f"its header cannot be read: {header.problem}")
    columns = columns_of(header.fields, wanted.mapping)
    check_header(header.fields, columns, wanted.mapping)
    return ImportCheckpoint(_stamp(file), form, columns, records.position)


def _read_checkpoint(state: dict[str, Any]) -> ImportCheckpoint:
    return ImportCheckpoint(
        **{**state, "form": CsvFormat(**state["form"]), "position": FilePosition(**state["position"])}
    )


def _stamp(file: BinaryIO) -> list[int]:
    found = os.fstat(file.fileno())
    return [found.st_size, found.st_mtime_ns]


def _check_unchanged(file: BinaryIO, cursor: ImportCheckpoint) -> None:
    if _stamp(file) != cursor.stamp:
        raise Dead(
            f"the file was changed during the import, at line {cursor.position.line:,}:"
            f" {cursor.imported:,} rows of the old file are imported"
        )


def _summary(cursor: ImportCheckpoint) -> str:
    return f"bytes: {cursor.imported:,} rows imported, {cursor.rejected:,} rejected"
