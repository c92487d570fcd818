"""Figures of cycles that only grow, whatever is pruned: by host and exit code, since Mayfly was installed."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from mayfly.clock import milliseconds
from mayfly.connection import Connection
from mayfly.dialect import utc_from_driver
from mayfly.jobs.history import add_to_history, charted, of_cycles

NEVER_ENDED = -1  # the exit code of a cycle whose dispatcher was killed
SETTLED = timedelta(minutes=10)  # what a cycle has not written by then, nobody will
STEP = timedelta(minutes=5)  # not every minute: the cycles of a few are as quickly read
FIGURES = ("cycles", "spawned", "successful", "timed_out", "rescued", "repeated", "pruned", "duration_ms")

_SUMS = ", ".join(f"COALESCE(SUM({name}), 0)" for name in FIGURES[1:])
NEW = (
    f"SELECT host, COALESCE(exit_code, {NEVER_ENDED}), MAX(started_at), COUNT(*), {_SUMS} FROM mayfly_cycles"
    " WHERE {which} GROUP BY host, COALESCE(exit_code, " + str(NEVER_ENDED) + ")"
)
TO_COUNT = NEW.format(which="id > :since AND id <= :until")
# One statement, so that nobody sees a cycle between the two tables: a counter must never seem to shrink.
ALL = f"SELECT host, exit_code, last_at, {', '.join(FIGURES)} FROM mayfly_hosts UNION ALL " + NEW.format(
    which="id > (SELECT number FROM mayfly_locks WHERE name = 'counted') AND finished_at IS NOT NULL"
)
TOOK = "SELECT id, duration_ms FROM mayfly_cycles WHERE id > :since AND id <= :until AND duration_ms IS NOT NULL"
COUNTED = "SELECT number FROM mayfly_locks WHERE name = 'counted'"


class Cycles(NamedTuple):
    """All cycles of a host that ended alike."""

    host: str
    exit_code: int
    last_at: datetime  # when the last of them began
    cycles: int
    spawned: int
    successful: int
    timed_out: int
    rescued: int
    repeated: int
    pruned: int
    duration_ms: int

    def plus(self, other: "Cycles") -> "Cycles":
        sums = {name: getattr(self, name) + getattr(other, name) for name in FIGURES}
        return self._replace(last_at=max(self.last_at, other.last_at), **sums)


def read_cycles(connection: Connection) -> list[Cycles]:
    """One for each host and exit code, of all times."""
    found: dict[tuple[str, int], Cycles] = {}
    for each in map(_cycles, connection.execute(ALL).all()):
        key = each.host, each.exit_code
        found[key] = found[key].plus(each) if key in found else each
    return list(found.values())


def count_cycles(connection: Connection, now: datetime, keep_days: float) -> None:
    """Carry over the cycles that have settled, each once: the lock's number says how far. Before they are pruned."""
    since = int(connection.execute(COUNTED + connection.dialect.row_lock).scalar())
    until = milliseconds(now - SETTLED)
    if until - since < STEP / timedelta(milliseconds=1):
        return
    for each in map(_cycles, connection.execute(TO_COUNT, {"since": since, "until": until}).all()):
        _add(connection, each)
    took = dict(connection.execute(TOOK, {"since": since, "until": until}).all())
    add_to_history(connection, of_cycles(took), charted(now))
    connection.execute("UPDATE mayfly_locks SET number = :until WHERE name = 'counted'", {"until": until})
    forgotten = {"before": now - timedelta(days=keep_days)}
    connection.execute("DELETE FROM mayfly_hosts WHERE last_at < :before", forgotten)


def _add(connection: Connection, new: Cycles) -> None:
    row = new._asdict()
    nothing = {**row, **dict.fromkeys(FIGURES, 0)}
    connection.execute(connection.dialect.insert_missing("mayfly_hosts", ("host", "exit_code"), row), nothing)
    sums = ", ".join(f"{name} = {name} + :{name}" for name in FIGURES)
    changes = f"UPDATE mayfly_hosts SET last_at = :last_at, {sums}"
    connection.execute(f"{changes} WHERE host = :host AND exit_code = :exit_code", row)


def _cycles(row: Sequence[object]) -> Cycles:
    """Sums come as whatever a database takes for a large number."""
    host, exit_code, last_at, *figures = row
    return Cycles(str(host), int(exit_code), utc_from_driver(last_at), *map(int, figures))  # type: ignore[arg-type,call-overload]
