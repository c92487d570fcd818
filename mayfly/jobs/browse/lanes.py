"""How it is with each lane: what waits, since when, what runs, what came of the last hour."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any, NamedTuple

from mayfly.clock import milliseconds
from mayfly.connection import Connection
from mayfly.dialect import utc_from_driver
from mayfly.fleet.cycles import KnownLane, known_lanes
from mayfly.fleet.runners import live_by_lane
from mayfly.jobs.browse.capped import MOST_COUNTED, Capped, facts_of
from mayfly.jobs.looks import find_lanes, next_due
from mayfly.jobs.pauses import load_pauses
from mayfly.outcome import Kind
from mayfly.schema import PRIORITIES, JobTable
from mayfly.settings import Settings

HOUR = timedelta(hours=1)
LANES_PER_STATEMENT = 50  # with five counts each; SQLite takes 500 SELECTs in one statement
COUNTED_IN_ALL = 10 * MOST_COUNTED  # index entries: with more than ten lanes each is counted less far
COUNTED_AT_LEAST = 1000
FAILURES = (Kind.FAILED, Kind.TIMED_OUT, Kind.CRASHED, Kind.DEAD)

SETTLED_SINCE = (
    "SELECT lane, outcome, SUM(jobs) FROM mayfly_totals WHERE cycle_id >= :since GROUP BY lane, outcome"
)  # fmt: skip


class LaneView(NamedTuple):
    lane: str
    pending: Capped  # due
    oldest_due_at: datetime | None
    wait_seconds: float | None  # of the oldest that is due
    running: Capped  # jobs
    runners: int
    max_workers: int
    set_by: str | None  # who set max_workers at run time
    set_at: datetime | None
    done_last_hour: int
    failed_last_hour: int  # attempts
    dead: Capped
    next_run_at: datetime | None  # of the first that is not due yet
    paused: str | None  # how it is: "paused: the vendor is down"
    paused_until: datetime | None
    paused_by: str | None
    external: bool

    def facts(self) -> dict[str, Any]:
        return facts_of(self)


class _Found(NamedTuple):
    """What the table of jobs says of one lane."""

    pending: Capped = Capped()
    running: Capped = Capped()
    dead: Capped = Capped()
    oldest_due_at: datetime | None = None
    next_run_at: datetime | None = None


def list_lanes(connection: Connection, jobs: JobTable, settings: Settings, now: datetime) -> list[LaneView]:
    """Those that have rows, those that the settings name, and those that somebody paused or set."""
    with_rows = find_lanes(connection, jobs)
    found = _look(connection, jobs, with_rows, now)
    known, paused = known_lanes(connection), load_pauses(connection, now).lanes
    settled, live = _settled(connection, now - HOUR), live_by_lane(connection)
    set_by_hand = {lane for lane, each in known.items() if each.set_by}
    views = []
    for lane in sorted({*with_rows, *settings.lanes, *paused, *set_by_hand, *live, *(each for each, _ in settled)}):
        figures, by_hand, pause = found.get(lane, _Found()), known.get(lane, KnownLane()), paused.get(lane)
        resolved, oldest = settings.lane(lane), figures.oldest_due_at
        views.append(
            LaneView(
                lane=lane,
                pending=figures.pending,
                oldest_due_at=oldest,
                wait_seconds=None if oldest is None else max(0.0, (now - oldest).total_seconds()),
                running=figures.running,
                runners=live.get(lane, 0),
                max_workers=by_hand.max_workers or resolved.max_workers,
                set_by=by_hand.set_by,
                set_at=by_hand.set_at,
                done_last_hour=settled.get((lane, Kind.DONE), 0),
                failed_last_hour=sum(settled.get((lane, each), 0) for each in FAILURES),
                dead=figures.dead,
                next_run_at=figures.next_run_at,
                paused=pause.words if pause else None,
                paused_until=pause.paused_until if pause else None,
                paused_by=pause.paused_by if pause else None,
                external=resolved.external,
            )
        )
    return views


def _settled(connection: Connection, since: datetime) -> Mapping[tuple[str, str], int]:
    """A cycle's number is the millisecond in which it began."""
    rows = connection.execute(SETTLED_SINCE, {"since": milliseconds(since)}).all()
    return {(lane, outcome): int(number) for lane, outcome, number in rows}


def _look(connection: Connection, jobs: JobTable, names: Sequence[str], now: datetime) -> Mapping[str, _Found]:
    cap = max(COUNTED_AT_LEAST, min(MOST_COUNTED, COUNTED_IN_ALL // max(1, len(names))))
    found: dict[str, _Found] = {}
    for start in range(0, len(names), LANES_PER_STATEMENT):
        part = names[start : start + LANES_PER_STATEMENT]
        values = {f"lane_{number}": lane for number, lane in enumerate(part)} | {"now": now}
        counted = [[0, 0, 0] for _ in part]
        for number, what, figure in connection.execute(count_statement(jobs, len(part), cap), values).all():
            counted[number][what] += int(figure)
        times: list[list[list[datetime]]] = [[[], []] for _ in part]
        for number, what, at in connection.execute(time_statement(jobs, len(part)), values).all():
            times[number][what] += [utc_from_driver(at)] if at is not None else []
        for number, lane in enumerate(part):
            pending, running, dead = (Capped.of(each, cap) for each in counted[number])
            oldest, following = (min(each, default=None) for each in times[number])
            found[lane] = _Found(pending, running, dead, oldest, following)
    return found


@cache
def count_statement(jobs: JobTable, lanes: int, cap: int) -> str:
    """For each lane what is due (0), what runs (1) and what is dead (2), each to one beyond the cap."""
    return " UNION ALL ".join(
        f"SELECT {number}, {what}, COUNT(*) FROM ({look}) AS counted_{number}_{part}"
        for number in range(lanes)
        for part, (what, look) in enumerate(_counts(jobs, f":lane_{number}", str(cap + 1)))
    )


def _counts(jobs: JobTable, lane: str, size: str) -> Iterator[tuple[int, str]]:
    c = jobs.c
    for priority in PRIORITIES:
        yield 0, next_due(c.id, jobs, lane, str(priority), size)
    for what, status in ((1, jobs.processing), (2, jobs.dead)):
        order = f"{c.priority}, {c.run_at}, {c.id}"  # that of the index
        where = f"{c.lane} = {lane} AND {c.status} = '{status}'"
        yield what, f"SELECT {c.id} FROM {jobs.table} WHERE {where} ORDER BY {order} LIMIT {size}"


@cache
def time_statement(jobs: JobTable, lanes: int) -> str:
    """For each lane and priority the first that is due (0), and the first that is not yet (1)."""
    c = jobs.c
    looks = []
    for number in range(lanes):
        for priority in PRIORITIES:
            due = next_due(c.run_at, jobs, f":lane_{number}", str(priority), "1")
            for what, look in enumerate((due, due.replace("<= :now", "> :now"))):
                looks.append(
                    f"SELECT {number}, {what}, MIN({c.run_at}) FROM ({look}) AS first_{number}_{priority}_{what}"
                )
    return " UNION ALL ".join(looks)
