"""Totals by intervals of time (`span`), from which charts are drawn; and sums of cycles per host."""

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
CYCLE = "cycle"  # counted like an outcome: a finished cycle, with its duration

Sample = tuple[int, str, Count]  # millisecond, outcome, counts
Since = Mapping[int, int]  # by span: only samples from this millisecond on
ALWAYS: Since = {}


def add_to_history(connection: Connection, samples: Iterable[Sample], since: Since = ALWAYS) -> None:
    """In the transaction that ensures that they are counted once."""
    add_counts(connection, "mayfly_history", KEY, by_span(samples, since))


def charted(now: datetime) -> Since:
    """Older samples are in no chart; after a day of idle minutes, which count nothing, there are some."""
    return {span: milliseconds(now - shown) for span, shown in CHARTED.items()}


def by_span(samples: Iterable[Sample], since: Since = ALWAYS) -> dict[tuple[int, int, str], Count]:
    """Summed up per interval, of every span. Pure."""
    found: dict[tuple[int, int, str], Count] = {}
    for at, outcome, count in samples:
        for span in SPANS:
            if at >= since.get(span, 0):
                key = (span, begin_of(at, span), outcome)
                found[key] = found[key].plus(count) if key in found else count
    return found


def begin_of(at: int, span: int) -> int:
    """Start of the interval of this many seconds that contains the millisecond."""
    return at - at % (span * 1000)


def of_tally(cycle_id: int, tally: Tally) -> Iterator[Sample]:
    """A cycle's id is the millisecond in which it began."""
    return ((cycle_id, outcome, count) for (_lane, _type, outcome), count in tally.items())


def of_cycles(durations: Mapping[int, int]) -> Iterator[Sample]:
    """From the durations of cycles in milliseconds, by id."""
    return ((cycle_id, CYCLE, Count(1, {bucket(took): 1})) for cycle_id, took in durations.items())


NEVER_ENDED = -1  # the exit code of a cycle whose dispatcher was killed
SETTLED = timedelta(minutes=10)  # after this, nothing more is written to a cycle's row
STEP = timedelta(minutes=5)  # not every minute: reading the cycles of a few minutes takes no longer
CYCLE_FIGURES = ("cycles", "spawned", "successful", "timed_out", "rescued", "repeated", "pruned", "duration_ms")

_SUMS = ", ".join(f"COALESCE(SUM({name}), 0)" for name in CYCLE_FIGURES[1:])
SUMS_OF_CYCLES = (
    f"SELECT host, COALESCE(exit_code, {NEVER_ENDED}), MAX(started_at), COUNT(*), {_SUMS} FROM mayfly_cycles"
    " WHERE {condition} GROUP BY host, COALESCE(exit_code, " + str(NEVER_ENDED) + ")"
)
TO_COUNT = SUMS_OF_CYCLES.format(condition="id > :since AND id <= :until")

# One statement, so that no reader misses a cycle on its way between the two tables: a counter must never shrink.
ALL_CYCLES = (
    f"SELECT host, exit_code, last_at, {', '.join(CYCLE_FIGURES)} FROM mayfly_hosts UNION ALL "
    + SUMS_OF_CYCLES.format(
        condition="id > (SELECT number FROM mayfly_locks WHERE name = 'counted') AND finished_at IS NOT NULL"
    )
)
DURATIONS = "SELECT id, duration_ms FROM mayfly_cycles WHERE id > :since AND id <= :until AND duration_ms IS NOT NULL"
COUNTED_UNTIL = "SELECT number FROM mayfly_locks WHERE name = 'counted'"


class CycleCounts(NamedTuple):
    """All cycles of a host with the same exit code."""

    host: str
    exit_code: int
    last_at: datetime  # start of the newest
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
    """One per host and exit code, over all time."""
    found: dict[tuple[str, int], CycleCounts] = {}
    for each in map(_cycles, connection.execute(ALL_CYCLES).all()):
        key = each.host, each.exit_code
        found[key] = found[key].plus(each) if key in found else each
    return list(found.values())


def count_cycles(connection: Connection, now: datetime, keep_days: float) -> None:
    """Add settled cycles to mayfly_hosts, each once, before they are pruned: the lock's number says how far."""
    since = int(connection.execute(COUNTED_UNTIL + connection.dialect.row_lock).scalar())
    until = milliseconds(now - SETTLED)
    if until - since < STEP / timedelta(milliseconds=1):
        return
    for each in map(_cycles, connection.execute(TO_COUNT, {"since": since, "until": until}).all()):
        _add(connection, each)
    durations = dict(connection.execute(DURATIONS, {"since": since, "until": until}).all())
    add_to_history(connection, of_cycles(durations), charted(now))
    connection.execute("UPDATE mayfly_locks SET number = :until WHERE name = 'counted'", {"until": until})
    expired = {"before": now - timedelta(days=keep_days)}
    connection.execute("DELETE FROM mayfly_hosts WHERE last_at < :before", expired)


def _add(connection: Connection, new: CycleCounts) -> None:
    row = new._asdict()
    zero = {**row, **dict.fromkeys(CYCLE_FIGURES, 0)}
    connection.execute(connection.dialect.insert_missing("mayfly_hosts", ("host", "exit_code"), row), zero)
    sums = ", ".join(f"{name} = {name} + :{name}" for name in CYCLE_FIGURES)
    changes = f"UPDATE mayfly_hosts SET last_at = :last_at, {sums}"
    connection.execute(f"{changes} WHERE host = :host AND exit_code = :exit_code", row)


def _cycles(row: Sequence[object]) -> CycleCounts:
    """Each database returns sums as another type."""
    host, exit_code, last_at, *figures = row
    return CycleCounts(str(host), int(exit_code), utc_from_driver(last_at), *map(int, figures))  # type: ignore[arg-type,call-overload]
