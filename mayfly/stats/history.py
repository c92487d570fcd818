"""Long-term figures: totals per interval of time (`span`) for charts, counters since installation, and sums of cycles
per host. Counters never decrease: pruning does not change them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from mayfly.clock import milliseconds
from mayfly.db.connection import Connection
from mayfly.db.dialects import utc_from_driver
from mayfly.fleet.cycles import FORGOTTEN_AFTER
from mayfly.queue.prune import CHARTED, SPANS
from mayfly.stats.histograms import Count, Key, Tally, add, bucket, stored_count

CYCLE = "cycle"  # counted like an outcome: a finished cycle, with its duration

Sample = tuple[int, str, Count]  # millisecond, outcome, counts
Since = Mapping[int, int]  # by span: only samples from this millisecond on
ALWAYS: Since = {}

NOTHING = Count().columns
KEYS_PER_STATEMENT = 100

# One statement, so that no reader misses totals that are moved between the two tables: a counter never decreases.
ALL_COUNTERS = (
    "SELECT lane, type, outcome, jobs, durations, waits FROM mayfly_counters UNION ALL"
    " SELECT lane, type, outcome, jobs, durations, waits FROM mayfly_totals WHERE worker_id > ''"
)


def add_to_history(connection: Connection, samples: Iterable[Sample], since: Since = ALWAYS) -> None:
    """Call this in the transaction that ensures that the samples are counted once."""
    add_counts(connection, "mayfly_history", ("span", "begins", "outcome"), by_span(samples, since))


def charted(now: datetime) -> Since:
    """Older samples are in no chart. There are some after a day of idle cycles, which count nothing."""
    return {span: milliseconds(now - shown) for span, shown in CHARTED.items()}


def by_span(samples: Iterable[Sample], since: Since = ALWAYS) -> dict[tuple[int, int, str], Count]:
    """Summed per interval of every span. Pure."""
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


# --- counters ---------------------------------------------------------------------------------------------


def read_counters(connection: Connection) -> Tally:
    """Includes the totals of runners that are still working."""
    tally: dict[Key, Count] = {}
    for lane, type_name, outcome, *figures in connection.execute(ALL_COUNTERS).all():
        tally = add(tally, {(lane, type_name, outcome): stored_count(*figures)})
    return tally


def add_to_counters(connection: Connection, counted: Tally) -> None:
    """Call this in the transaction that deletes the same totals: otherwise a repetition would count them twice."""
    add_counts(connection, "mayfly_counters", ("lane", "type", "outcome"), counted)


def add_counts(
    connection: Connection, table: str, key: Sequence[str], counted: Mapping[tuple[Any, ...], Count]
) -> None:
    """Add to the rows of a table, in the order of their keys, so that two transactions cannot deadlock."""
    for keys in _parts(sorted(counted)):
        stored = _lock_rows(connection, table, key, keys)
        rows = [dict(zip(key, each, strict=True)) | stored[each].plus(counted[each]).columns for each in keys]
        connection.execute_many(connection.dialect.upsert(table, key, rows[0]), rows)


def _lock_rows(
    connection: Connection, table: str, key: Sequence[str], keys: Sequence[tuple[Any, ...]]
) -> dict[tuple[Any, ...], Count]:
    """The counts so far. A row must exist to be locked: of two transactions that insert it, the second waits.

    The SELECT comes before the INSERT: MySQL's INSERT IGNORE takes a shared lock on an existing row, and two
    transactions that both hold one deadlock at the UPDATE.
    """
    found = _select_locked(connection, table, key, keys)
    missing = [dict(zip(key, each, strict=True)) | NOTHING for each in keys if each not in found]
    if missing:
        connection.execute_many(connection.dialect.insert_missing(table, key, missing[0]), missing)
        found = _select_locked(connection, table, key, keys)
    return found


def _select_locked(
    connection: Connection, table: str, key: Sequence[str], keys: Sequence[tuple[Any, ...]]
) -> dict[tuple[Any, ...], Count]:
    columns = ", ".join(key)
    values = {f"{name}_{at}": value for at, each in enumerate(keys) for name, value in zip(key, each, strict=True)}
    wanted = " OR ".join(f"({' AND '.join(f'{name} = :{name}_{at}' for name in key)})" for at in range(len(keys)))
    select = f"SELECT {columns}, {', '.join(NOTHING)} FROM {table} WHERE {wanted} ORDER BY {columns}"
    rows = connection.execute(select + connection.dialect.row_lock, values).all()
    return {tuple(row[: len(key)]): stored_count(*row[len(key) :]) for row in rows}


def _parts(keys: Sequence[tuple[Any, ...]]) -> Iterator[Sequence[tuple[Any, ...]]]:
    return (keys[start : start + KEYS_PER_STATEMENT] for start in range(0, len(keys), KEYS_PER_STATEMENT))


# --- cycles -----------------------------------------------------------------------------------------------

NEVER_ENDED = -1  # the exit code of a cycle whose dispatcher was killed
SETTLED = timedelta(minutes=10)  # after this, nothing more is written to a cycle's row
STEP = timedelta(minutes=5)  # not every minute: reading five minutes of cycles takes as long as reading one
CYCLE_FIGURES = ("cycles", "spawned", "successful", "timed_out", "rescued", "repeated", "pruned", "duration_ms")

_SUMS = ", ".join(f"COALESCE(SUM({name}), 0)" for name in CYCLE_FIGURES[1:])
SUMS_OF_CYCLES = (
    f"SELECT host, COALESCE(exit_code, {NEVER_ENDED}), MAX(started_at), COUNT(*), {_SUMS} FROM mayfly_cycles"
    " WHERE {condition} AND forgotten_at IS NULL GROUP BY host, COALESCE(exit_code, " + str(NEVER_ENDED) + ")"
)
TO_COUNT = SUMS_OF_CYCLES.format(condition="id > :since AND id <= :until")

# One statement, so that no reader misses a cycle that is moved between the two tables: a counter never decreases.
ALL_CYCLES = (
    f"SELECT host, exit_code, last_at, {', '.join(CYCLE_FIGURES)} FROM mayfly_hosts UNION ALL "
    + SUMS_OF_CYCLES.format(
        condition="id > (SELECT number FROM mayfly_locks WHERE name = 'counted') AND finished_at IS NOT NULL"
    )
)
DURATIONS = "SELECT id, duration_ms FROM mayfly_cycles WHERE id > :since AND id <= :until AND duration_ms IS NOT NULL"
COUNTED_UNTIL = "SELECT number FROM mayfly_locks WHERE name = 'counted'"

# In a derived table: MySQL does not delete from a table that a plain subquery reads.
FORGET_SILENT = (
    "DELETE FROM mayfly_hosts WHERE host IN (SELECT host FROM (SELECT host FROM mayfly_hosts"
    " GROUP BY host HAVING MAX(last_at) < :before) AS silent)"
)
FORGET_SUMS = "DELETE FROM mayfly_hosts WHERE host = :host"
FORGET_CYCLES = "UPDATE mayfly_cycles SET forgotten_at = :now WHERE host = :host AND id > :since"


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
    """One per known host and exit code, over all time."""
    found: dict[tuple[str, int], CycleCounts] = {}
    for each in map(_cycles, connection.execute(ALL_CYCLES).all()):
        key = each.host, each.exit_code
        found[key] = found[key].plus(each) if key in found else each
    return list(found.values())


def count_cycles(connection: Connection, now: datetime) -> None:
    """Add settled cycles to mayfly_hosts, each once, before they are pruned. The lock's number is the last one."""
    since = _lock_counted(connection)
    until = milliseconds(now - SETTLED)
    if until - since < STEP / timedelta(milliseconds=1):
        return
    for each in map(_cycles, connection.execute(TO_COUNT, {"since": since, "until": until}).all()):
        _add(connection, each)
    durations = dict(connection.execute(DURATIONS, {"since": since, "until": until}).all())
    add_to_history(connection, of_cycles(durations), charted(now))
    connection.execute("UPDATE mayfly_locks SET number = :until WHERE name = 'counted'", {"until": until})
    connection.execute(FORGET_SILENT, {"before": now - FORGOTTEN_AFTER})


def forget_cycles(connection: Connection, host: str, now: datetime) -> None:
    """Delete its sums and mark its cycles. They stay in lists and charts; the next one makes the host known again."""
    since = min(_lock_counted(connection), milliseconds(now - FORGOTTEN_AFTER))
    connection.execute(FORGET_CYCLES, {"host": host, "since": since, "now": now})
    connection.execute(FORGET_SUMS, {"host": host})


def _lock_counted(connection: Connection) -> int:
    """The last cycle that is in mayfly_hosts. The lock serialises everything that changes the table."""
    return int(connection.execute(COUNTED_UNTIL + connection.dialect.row_lock).scalar())


def _add(connection: Connection, new: CycleCounts) -> None:
    row = new._asdict()
    zero = {**row, **dict.fromkeys(CYCLE_FIGURES, 0)}
    connection.execute(connection.dialect.insert_missing("mayfly_hosts", ("host", "exit_code"), row), zero)
    sums = ", ".join(f"{name} = {name} + :{name}" for name in CYCLE_FIGURES)
    changes = f"UPDATE mayfly_hosts SET last_at = :last_at, {sums}"
    connection.execute(f"{changes} WHERE host = :host AND exit_code = :exit_code", row)


def _cycles(row: Sequence[object]) -> CycleCounts:
    """The databases return sums as different types."""
    host, exit_code, last_at, *figures = row
    return CycleCounts(str(host), int(exit_code), utc_from_driver(last_at), *map(int, figures))  # type: ignore[arg-type,call-overload]
