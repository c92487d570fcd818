"""Draft the settings of a source for a table of the application."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from mayfly.admin.live_table import INTEGERS, ColumnKind, LiveTable, read_table
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.errors import UnknownName
from mayfly.queue.sources import MAX_PAYLOAD_COLUMNS

MAX_VALUES_READ = 10_000  # rows whose status is read
USUAL_NAMES: Mapping[str, Sequence[str]] = {
    "status": ("status", "state", "job_status"),
    "run_at": (
        "run_at",
        "scheduled_at",
        "scheduled_for",
        "due_at",
        "publish_at",
        "send_at",
        "execute_at",
        "start_at",
    ),
    "priority": ("priority",),
    "worker_id": ("worker_id", "locked_by", "claimed_by", "worker"),
    "locked_at": ("locked_at", "claimed_at", "started_at", "picked_at"),
    "attempts": ("attempts", "retry_count", "attempt", "tries", "retries"),
    "error": ("last_error", "error", "error_message", "failure_reason"),
    "finished_at": ("finished_at", "completed_at", "processed_at", "published_at", "sent_at", "done_at"),
}
USUAL_VALUES: Mapping[str, Sequence[str]] = {
    "pending": ("pending", "new", "queued", "scheduled", "ready", "waiting", "todo"),
    "processing": ("processing", "running", "in_progress", "in progress", "working", "locked", "started"),
    "done": ("done", "completed", "complete", "finished", "published", "sent", "success", "succeeded", "processed"),
    "failed": ("failed", "error", "failure", "dead"),
    "cancelled": ("cancelled", "canceled", "aborted", "skipped"),
}
OPTIONAL = ("priority", "worker_id", "locked_at", "attempts", "error", "finished_at")
SQL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
SOFT_DELETED = "deleted_at"  # set for rows that the application keeps, but takes for deleted
UNSURE = "  # guessed: check it"


def suggest_source(database: Database, name: str) -> str:
    """A draft of a section of mayfly.toml. Raises UnknownName for a table that does not exist."""
    table = read_table(database, name)
    if not table.exists:
        raise UnknownName("table", name, "in this database", table.others)
    if table.is_view:
        raise UnknownName("table", name, "in this database: it is a view, whose rows cannot be locked")
    status = _usual(table, "status")
    values = () if status is None else database.read(lambda connection: _values(connection, table, status))
    return draft(table, values)


def _values(connection: Connection, table: LiveTable, status: str) -> tuple[str | int, ...]:
    if (known := table.columns[status].values) is not None:
        return known
    quoted = connection.dialect.quoted
    rows = f"SELECT {quoted(status)} AS value FROM {quoted(table.name)} LIMIT {MAX_VALUES_READ}"
    found = connection.execute(f"SELECT DISTINCT value FROM ({rows}) AS first_rows").scalars()
    return tuple(each for each in found if isinstance(each, str | int))


def draft(table: LiveTable, values: Sequence[str | int]) -> str:
    """TOML; a comment marks each value that is only guessed. Pure."""
    name = re.sub(r"\W", "_", table.name.rpartition(".")[2])[:32]
    lines = [f"[sources.{name}]", f"table = {json.dumps(table.name)}", f'type = "process_{name}"  # the handler']
    lines += [*_key_lines(table), *_time_lines(table), *_status_lines(table, values), *_optional_lines(table)]
    used = {*table.primary_key, SOFT_DELETED, *(_usual(table, each) for each in USUAL_NAMES)}
    payload = [each for each in table.columns if each not in used and SQL_NAME.fullmatch(each)]
    if payload:
        more = "" if len(payload) <= MAX_PAYLOAD_COLUMNS else f"  # the first {MAX_PAYLOAD_COLUMNS}"
        lines.append(f"payload = {json.dumps(payload[:MAX_PAYLOAD_COLUMNS])}{more}")
    if SOFT_DELETED in table.columns:
        lines.append(f'where = "{SOFT_DELETED} IS NULL"{UNSURE}')
    return "\n".join(lines)


def _key_lines(table: LiveTable) -> Iterator[str]:
    if len(table.primary_key) == 1:
        yield f"id = {json.dumps(table.primary_key[0])}"
    else:
        yield 'id = "id"  # the table has no primary key of one column: a source needs one'


def _time_lines(table: LiveTable) -> Iterator[str]:
    column = _usual(table, "run_at")
    if column is None:
        yield '# run_at = "run_at"  # no column found; without it, every pending row is due'
        return
    kind = table.columns[column].kind
    yield f"run_at = {json.dumps(column)}"
    if kind in (*INTEGERS, ColumnKind.NUMBER):
        yield f'run_at_format = "epoch"{UNSURE}, or epoch_ms'
    elif kind is ColumnKind.TEXT and table.is_strict:
        yield 'run_at_format = "text"'
    if kind is not ColumnKind.ZONED:
        yield '# timezone = "Europe/Berlin"  # unless the times are in UTC'


def _status_lines(table: LiveTable, values: Sequence[str | int]) -> Iterator[str]:
    column = _usual(table, "status")
    note = "" if column else "  # no column found: name the one with the state of a row"
    yield f"status = {json.dumps(column or 'status')}{note}"
    if values:
        yield f"# values of {column}: {', '.join(json.dumps(each) for each in sorted(values, key=str)[:20])}"
    for setting, usual in USUAL_VALUES.items():
        found = next((each for word in usual for each in values if str(each).lower() == word), None)
        if found is not None:
            yield f"{setting} = {json.dumps(found)}"
        elif setting == "cancelled":
            yield f'# cancelled = "cancelled"{UNSURE}'
        else:
            yield f"{setting} = {json.dumps(usual[0])}{UNSURE}"


def _optional_lines(table: LiveTable) -> Iterator[str]:
    for setting in OPTIONAL:
        column = _usual(table, setting)
        if column is not None:
            yield f"{setting} = {json.dumps(column)}"
        elif setting in ("worker_id", "locked_at"):
            yield f"# {setting} = {json.dumps(setting)}  # no column found"


def _usual(table: LiveTable, setting: str) -> str | None:
    by_name = {each.lower(): each for each in table.columns if SQL_NAME.fullmatch(each)}
    return next((by_name[each] for each in USUAL_NAMES[setting] if each in by_name), None)
