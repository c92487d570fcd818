"""Figures by spans of time: what charts are drawn from, however many lanes, types and hosts the totals are of."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from mayfly.clock import milliseconds
from mayfly.db.connection import Connection
from mayfly.db.dialects import utc_from_driver
from mayfly.queue.prune import CHARTED, SPANS
from mayfly.stats.counters import add_counts
from mayfly.stats.histograms import Count, Tally, bucket

KEY = ("span", "begins", "outcome")
CYCLE = "cycle"  # counted beside the outcomes: a cycle that has ended, and how long it took

Sample = tuple[int, str, Count]  # the millisecond it belongs to, the outcome, the figures
Since = Mapping[int, int]  # by span a millisecond
EVER: Since = {}


def add_to_history(connection: Connection, samples: Iterable[Sample], since: Since = EVER) -> None:
    """In the transaction that sees to it that they are counted once."""
    add_counts(connection, "mayfly_history", KEY, by_span(samples, since))


def charted(now: datetime) -> Since:
    """What is older is shown by no chart: after a day of idle minutes, which count nothing, there is some."""
    return {span: milliseconds(now - shown) for span, shown in CHARTED.items()}


def by_span(samples: Iterable[Sample], since: Since = EVER) -> dict[tuple[int, int, str], Count]:
    """Added up in each of the spans they fall into. Pure."""
    found: dict[tuple[int, int, str], Count] = {}
    for at, outcome, count in samples:
        for span in SPANS:
            if at >= since.get(span, 0):
                key = (span, begin_of(at, span), outcome)
                found[key] = found[key].plus(count) if key in found else count
    return found


def begin_of(at: int, span: int) -> int:
    """Of the span of so many seconds in which a millisecond lies."""
    return at - at % (span * 1000)


def of_tally(cycle_id: int, tally: Tally) -> Iterator[Sample]:
    """A cycle's number is the millisecond in which it began."""
    return ((cycle_id, outcome, count) for (_lane, _type, outcome), count in tally.items())


def of_cycles(durations: Mapping[int, int]) -> Iterator[Sample]:
    """By their numbers how long they took, in milliseconds."""
    return ((cycle_id, CYCLE, Count(1, {bucket(took): 1})) for cycle_id, took in durations.items())


NEVER_ENDED = -1  # the exit code of a cycle whose dispatcher was killed
SETTLED = timedelta(minutes=10)  # what a cycle has not written by then, nobody will
STEP = timedelta(minutes=5)  # not every minute: the cycles of a few are as quickly read
CYCLE_FIGURES = ("cycles", "spawned", "successful", "timed_out", "rescued", "repeated", "pruned", "duration_ms")

_SUMS = ", ".join(f"COALESCE(SUM({name}), 0)" for name in CYCLE_FIGURES[1:])
NEW = (
    f"SELECT host, COALESCE(exit_code, {NEVER_ENDED}), MAX(started_at), COUNT(*), {_SUMS} FROM mayfly_cycles"
    " WHERE {which} GROUP BY host, COALESCE(exit_code, " + str(NEVER_ENDED) + ")"
)
TO_COUNT = NEW.format(which="id > :since AND id <= :until")

# One statement, so that nobody sees a cycle between the two tables: a counter must never seem to shrink.
ALL_CYCLES = f"SELECT host, exit_code, last_at, {', '.join(CYCLE_FIGURES)} FROM mayfly_hosts UNION ALL " + NEW.format(
    which="id > (SELECT number FROM mayfly_locks WHERE name = 'counted') AND finished_at IS NOT NULL"
)
TOOK = "SELECT id, duration_ms FROM mayfly_cycles WHERE id > :since AND id <= :until AND duration_ms IS NOT NULL"
COUNTED = "SELECT number FROM mayfly_locks WHERE name = 'counted'"


class CycleCounts(NamedTuple):
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

    def plus(self, other: "CycleCounts") -> "CycleCounts":
        sums = {name: getattr(self, name) + getattr(other, name) for name in CYCLE_FIGURES}
        return self._replace(last_at=max(self.last_at, other.last_at), **sums)


def read_cycles(connection: Connection) -> list[CycleCounts]:
    """One for each host and exit code, of all times."""
    found: dict[tuple[str, int], CycleCounts] = {}
    for each in map(_cycles, connection.execute(ALL_CYCLES).all()):
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


def _add(connection: Connection, new: CycleCounts) -> None:
    row = new._asdict()
    nothing = {**row, **dict.fromkeys(CYCLE_FIGURES, 0)}
    connection.execute(connection.dialect.insert_missing("mayfly_hosts", ("host", "exit_code"), row), nothing)
    sums = ", ".join(f"{name} = {name} + :{name}" for name in CYCLE_FIGURES)
    changes = f"UPDATE mayfly_hosts SET last_at = :last_at, {sums}"
    connection.execute(f"{changes} WHERE host = :host AND exit_code = :exit_code", row)


def _cycles(row: Sequence[object]) -> CycleCounts:
    """Sums come as whatever a database takes for a large number."""
    host, exit_code, last_at, *figures = row
    return CycleCounts(str(host), int(exit_code), utc_from_driver(last_at), *map(int, figures))  # type: ignore[arg-type,call-overload]
