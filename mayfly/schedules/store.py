"""The rows of schedules: how far each was dealt with, and whether somebody paused it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mayfly.connection import Connection
from mayfly.dialect import utc_from_driver
from mayfly.schedules.decide import Known, since
from mayfly.schedules.entry import Entry

KNOWN = (
    "SELECT name, rule, dealt_until, last_due_at, paused_at, paused_until, paused_by, pause_reason"
    " FROM mayfly_schedules"
)
_PAUSE = ("paused_at", "paused_until", "paused_by", "pause_reason")


@dataclass(frozen=True)
class Progress:
    """What is written after a schedule was dealt with."""

    entry: Entry
    dealt_until: datetime
    last_due_at: datetime | None


def load_known(connection: Connection) -> dict[str, Known]:
    return {name: _known(*row) for name, *row in connection.execute(KNOWN).all()}


def lock_known(connection: Connection, names: Collection[str]) -> dict[str, Known]:
    """The same of some, and nobody else can deal with them before this transaction ends.

    In one order for all, and waiting: a row that is skipped would be a due time that is forgotten.
    """
    values = {f"name_{number}": name for number, name in enumerate(sorted(names))}
    listed = ", ".join(f":{each}" for each in values)
    locking = f"{KNOWN} WHERE name IN ({listed}) ORDER BY name{connection.dialect.row_lock}"
    return {name: _known(*row) for name, *row in connection.execute(locking, values).all()}


def add_new(connection: Connection, entries: Sequence[Entry], now: datetime) -> None:
    """What is seen for the first time has no past; whoever comes second leaves it as it is."""
    rows = [{"name": each.name, "rule": each.rule, "dealt_until": since(each, now)} for each in entries]
    if rows:
        connection.execute_many(connection.dialect.insert_missing("mayfly_schedules", ("name",), rows[0]), rows)


def write_progress(connection: Connection, progress: Sequence[Progress]) -> None:
    rows = [
        {"name": each.entry.name, "rule": each.entry.rule, "dealt_until": each.dealt_until,
         "last_due_at": each.last_due_at}
        for each in progress
    ]  # fmt: skip
    if rows:
        connection.execute_many(connection.dialect.upsert("mayfly_schedules", ("name",), rows[0]), rows)


def pause(
    connection: Connection, entry: Entry, now: datetime, until: datetime | None, by: str, reason: str | None
) -> None:
    add_new(connection, [entry], now)
    values = dict(zip(_PAUSE, (now, until, by, reason), strict=True))
    connection.execute(_change(connection, values), {**values, "own_name": entry.name})


def resume(connection: Connection, name: str, now: datetime) -> bool:
    """True if it was paused. What was due until now is gone with the pause."""
    values = {**dict.fromkeys(_PAUSE), "dealt_until": now}
    changing = f"{_change(connection, values)} AND paused_at IS NOT NULL"
    return connection.execute(changing, {**values, "own_name": name}).rowcount == 1


def _change(connection: Connection, columns: Collection[str]) -> str:
    return f"UPDATE mayfly_schedules SET {connection.dialect.assignments(columns)} WHERE name = :own_name"


def _known(rule: str, *rest: Any) -> Known:
    *times, paused_by, pause_reason = rest
    dealt_until, last_due_at, paused_at, paused_until = (each and utc_from_driver(each) for each in times)
    return Known(rule, dealt_until, last_due_at, paused_at, paused_until, paused_by, pause_reason)
