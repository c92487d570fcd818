"""The rows of schedules: how far each was dealt with, and whether somebody paused it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, select, update

from mayfly import dialect
from mayfly.schedules.decide import Known, since
from mayfly.schedules.entry import Entry
from mayfly.schema import schedules

_PAUSE = ("paused_at", "paused_until", "paused_by", "pause_reason")


@dataclass(frozen=True)
class Progress:
    """What is written after a schedule was dealt with."""

    entry: Entry
    dealt_until: datetime
    last_due_at: datetime | None


def load_known(connection: Connection) -> dict[str, Known]:
    return {row.name: _known(row) for row in connection.execute(known_statement())}


def lock_known(connection: Connection, names: Collection[str]) -> dict[str, Known]:
    """The same of some, and nobody else can deal with them before this transaction ends."""
    return {row.name: _known(row) for row in connection.execute(lock_statement(names))}


def known_statement() -> Select[Any]:
    return select(schedules)


def lock_statement(names: Collection[str]) -> Select[Any]:
    """In one order for all, and waiting: a row that is skipped would be a due time that is forgotten."""
    own = known_statement().where(schedules.c.name.in_(sorted(names)))
    return own.order_by(schedules.c.name).with_for_update()


def add_new(connection: Connection, entries: Sequence[Entry], now: datetime) -> None:
    """What is seen for the first time has no past; whoever comes second leaves it as it is."""
    rows = [{"name": each.name, "rule": each.rule, "dealt_until": since(each, now)} for each in entries]
    if rows:
        connection.execute(dialect.insert_missing(connection.dialect, schedules, ("name",)), rows)


def write_progress(connection: Connection, progress: Sequence[Progress]) -> None:
    rows = [
        {"name": each.entry.name, "rule": each.entry.rule, "dealt_until": each.dealt_until,
         "last_due_at": each.last_due_at}
        for each in progress
    ]  # fmt: skip
    if rows:
        connection.execute(dialect.upsert(connection.dialect, schedules, ("name",), rows[0]), rows)


def pause(
    connection: Connection, entry: Entry, now: datetime, until: datetime | None, by: str, reason: str | None
) -> None:
    add_new(connection, [entry], now)
    values = dict(zip(_PAUSE, (now, until, by, reason), strict=True))
    connection.execute(update(schedules).where(schedules.c.name == entry.name).values(values))


def resume(connection: Connection, name: str, now: datetime) -> bool:
    """True if it was paused. What was due until now is gone with the pause."""
    own = update(schedules).where(schedules.c.name == name, schedules.c.paused_at.is_not(None))
    return connection.execute(own.values({**dict.fromkeys(_PAUSE), "dealt_until": now})).rowcount == 1


def _known(row: Row[Any]) -> Known:
    return Known(
        rule=row.rule,
        dealt_until=row.dealt_until,
        last_due_at=row.last_due_at,
        paused_at=row.paused_at,
        paused_until=row.paused_until,
        paused_by=row.paused_by,
        pause_reason=row.pause_reason,
    )
