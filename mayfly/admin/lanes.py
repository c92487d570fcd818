"""Lanes: their state, pauses, max_workers set at run time, and limits."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from mayfly.admin.auth import Actor, AuditEntry, audited
from mayfly.admin.filters import refuse_past
from mayfly.admin.jobs import MAX_COUNTED, CappedCount, aggregate_each, jobs_with
from mayfly.clock import milliseconds
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.db.dialects import utc_from_driver
from mayfly.errors import BadField
from mayfly.fleet.cycles import KnownLane, known_lanes
from mayfly.fleet.runners import LaneActivity, activity_by_lane
from mayfly.limits.limit import AT_ONCE
from mayfly.limits.store import HOLDERS, is_held
from mayfly.queue import pauses
from mayfly.queue.count import COUNTS_PER_STATEMENT, JobGroup, job_groups, next_due
from mayfly.queue.outcome import OutcomeKind, storable
from mayfly.queue.pauses import load_pauses
from mayfly.schema.tables import DEAD, NAME_LENGTH, PENDING, PROCESSING
from mayfly.settings import Settings

HOUR = timedelta(hours=1)
MAX_COUNTED_IN_ALL = 10 * MAX_COUNTED  # index entries: with more than ten lanes the cap of each is lower
MIN_CAP = 1000
FAILURES = [kind for kind in OutcomeKind if kind.is_failure or kind is OutcomeKind.DEAD]

LaneFigure = tuple[str, str]  # a lane and the name of a count
SETTLED_SINCE = "SELECT lane, outcome, SUM(jobs) FROM mayfly_totals WHERE cycle_id >= :since GROUP BY lane, outcome"


class LaneView(NamedTuple):
    lane: str
    pending: CappedCount  # due
    oldest_due_at: datetime | None
    wait_seconds: float | None  # of the oldest due job
    claimed: CappedCount  # jobs that have not started; for external workers all that they have pulled
    running: int  # jobs, according to the last figures of the runners
    runners: int
    max_workers: int
    cap: int  # max_workers, or less if the pool of the lane allows less
    pool: str | None
    set_by: str | None  # the user that set max_workers at run time
    set_at: datetime | None
    done_last_hour: int
    failed_last_hour: int  # attempts
    dead: CappedCount
    next_run_at: datetime | None  # of the first job that is not due yet
    paused: str | None  # "paused: the vendor is down"
    paused_until: datetime | None
    paused_by: str | None
    external: bool

    @property
    def late_by(self) -> timedelta | None:
        """How long its oldest due job has waited; None if no job waits, or if the lane is paused."""
        is_waiting = self.wait_seconds is not None and not self.paused
        return timedelta(seconds=self.wait_seconds or 0.0) if is_waiting else None

    @property
    def has_jobs_in_progress(self) -> bool:
        return bool(self.claimed.number or self.running)


class _LaneCounts(NamedTuple):
    pending: CappedCount = CappedCount()
    processing: CappedCount = CappedCount()
    dead: CappedCount = CappedCount()
    oldest_due_at: datetime | None = None
    next_run_at: datetime | None = None


def list_lanes(connection: Connection, settings: Settings, now: datetime) -> list[LaneView]:
    """Lanes that have jobs, are named in the settings, are paused, or have max_workers set."""
    found = _read_lanes(connection, job_groups(connection), now)
    known, paused = known_lanes(connection), load_pauses(connection, now).lanes
    settled, live = _settled(connection, now - HOUR), activity_by_lane(connection)
    overridden = {lane for lane, each in known.items() if each.set_by}
    views = []
    for lane in sorted({*found, *settings.lanes, *paused, *overridden, *live, *(each for each, _ in settled)}):
        figures, own, pause = found.get(lane, _LaneCounts()), known.get(lane, KnownLane()), paused.get(lane)
        resolved, oldest, activity = settings.lane(lane), figures.oldest_due_at, live.get(lane, LaneActivity())
        max_workers, processing = own.max_workers or resolved.max_workers, figures.processing
        running = min(activity.jobs, processing.number)
        views.append(
            LaneView(
                lane=lane,
                pending=figures.pending,
                oldest_due_at=oldest,
                wait_seconds=None if oldest is None else max(0.0, (now - oldest).total_seconds()),
                claimed=processing._replace(number=processing.number - running),
                running=running,
                runners=activity.runners,
                max_workers=max_workers,
                cap=min(max_workers, settings.pools.get(resolved.pool or "", max_workers)),
                pool=resolved.pool,
                set_by=own.set_by,
                set_at=own.set_at,
                done_last_hour=settled.get((lane, OutcomeKind.DONE), 0),
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
    """By lane and outcome. The id of a cycle is the millisecond in which it began."""
    rows = connection.execute(SETTLED_SINCE, {"since": milliseconds(since)}).all()
    return {(lane, outcome): int(number) for lane, outcome, number in rows}


def _read_lanes(connection: Connection, groups: Sequence[JobGroup], now: datetime) -> Mapping[str, _LaneCounts]:
    """Only groups of jobs that exist are counted: of an empty lane nothing."""
    lanes = {group.lane for group in groups}
    cap = max(MIN_CAP, min(MAX_COUNTED, MAX_COUNTED_IN_ALL // max(1, len(lanes))))
    counted = Counter[LaneFigure]()
    due, later = defaultdict[str, list[datetime]](list), defaultdict[str, list[datetime]](list)
    for group in groups:
        if group.status == PENDING:
            (due if group.is_due(now) else later)[group.lane].append(group.first_run_at)
    to_count = [group for group in groups if group.is_due(now)]
    to_count += {(group.lane, group.status): group for group in groups if group.status in (PROCESSING, DEAD)}.values()
    for start in range(0, len(to_count), COUNTS_PER_STATEMENT):
        part = to_count[start : start + COUNTS_PER_STATEMENT]
        values = {f"lane_{number}": group.lane for number, group in enumerate(part)} | {"now": now}
        for key, number in aggregate_each(connection, "COUNT(*)", count_queries(part, cap + 1), values):
            counted[key] += int(number)
        for lane, at in aggregate_each(connection, "MIN(run_at)", time_queries(part), values):
            later[lane] += [] if at is None else [utc_from_driver(at)]
    return {
        lane: _LaneCounts(
            pending=CappedCount.of(counted[lane, PENDING], cap),
            processing=CappedCount.of(counted[lane, PROCESSING], cap),
            dead=CappedCount.of(counted[lane, DEAD], cap),
            oldest_due_at=min(due[lane], default=None),
            next_run_at=min(later[lane], default=None),
        )
        for lane in lanes
    }


def count_queries(groups: Sequence[JobGroup], size: int) -> list[tuple[LaneFigure, str]]:
    """The due jobs of each group, or all claimed or dead jobs of its lane, counted up to a size."""
    return [
        (
            (group.lane, group.status),
            next_due("id", f":lane_{number}", str(group.priority), str(size))
            if group.status == PENDING
            else jobs_with(group.status, f":lane_{number}", size),
        )
        for number, group in enumerate(groups)
    ]


def time_queries(groups: Sequence[JobGroup]) -> list[tuple[str, str]]:
    """By lane: of groups with due jobs, the first one that is not due yet."""
    return [
        (group.lane, next_due("run_at", f":lane_{number}", str(group.priority), "1").replace("<= :now", "> :now"))
        for number, group in enumerate(groups)
        if group.status == PENDING
    ]


MAX_WORKERS_SETTABLE = 1000
SET_COLUMNS = ("lane", "max_workers", "set_at", "set_by")


class Resumed(NamedTuple):
    was_paused: bool
    jobs: int = 0  # due again


def start_pause(
    database: Database, kind: str, name: str, actor: Actor, until: datetime | None = None, reason: str | None = None
) -> bool:
    """Replaces an existing pause; True if there was one."""
    now = database.clock.now()
    refuse_past(until, now)
    new = pauses.Pause(_kind(kind), _name(name), now, until, actor.name, reason and storable(reason))
    entry = AuditEntry(actor, f"pause {kind}", name, now, reason)

    def write(connection: Connection) -> bool:
        entry.note(connection)
        return pauses.pause(connection, new)

    was_paused = database.run(write)
    if was_paused and kind == pauses.TYPE:
        pauses.resume_jobs(database, name)  # they are delayed again, until the new end
    return was_paused


def end_pause(database: Database, kind: str, name: str, actor: Actor) -> Resumed:
    """Jobs that a paused type had delayed are due at once."""
    now = database.clock.now()
    entry = AuditEntry(actor, f"resume {_kind(kind)}", _name(name), now)
    was_paused = audited(database, entry, lambda connection: pauses.resume(connection, kind, name, now))
    moved = pauses.resume_jobs(database, name) if kind == pauses.TYPE else 0
    return Resumed(was_paused, moved)


def set_max_workers(database: Database, lane: str, max_workers: int | None, actor: Actor) -> None:
    """On all hosts, until it is set again; None returns to the settings of each host."""
    if max_workers is not None and not (type(max_workers) is int and 1 <= max_workers <= MAX_WORKERS_SETTABLE):
        raise BadField("max_workers", max_workers, f"an integer from 1 to {MAX_WORKERS_SETTABLE}")
    now = database.clock.now()
    values = (None, None, None) if max_workers is None else (max_workers, now, actor.name)
    row = dict(zip(SET_COLUMNS, (_name(lane), *values), strict=True))
    value = "default" if max_workers is None else str(max_workers)
    entry = AuditEntry(actor, "set lane", f"{lane} max_workers={value}", now)

    def write(connection: Connection) -> None:
        connection.execute(connection.dialect.upsert("mayfly_lanes", ("lane",), SET_COLUMNS), row)

    audited(database, entry, write)


def _kind(given: str) -> str:
    if given not in (pauses.LANE, pauses.TYPE):
        raise BadField("kind", given, f"{pauses.LANE} or {pauses.TYPE}")
    return given


def _name(given: str) -> str:
    if not isinstance(given, str) or not 1 <= len(given) <= NAME_LENGTH or storable(given) != given:
        raise BadField("name", given, f"text of 1 to {NAME_LENGTH} characters")
    return given


# --- rate limits and concurrency limits -------------------------------------------------------------------

SELECT_LIMITS = "SELECT limit_key, span, most, used, opens_at FROM mayfly_limits"
ALL_LIMITS = f"{SELECT_LIMITS} ORDER BY limit_key, span"
LIMITS_PAGE = f"{SELECT_LIMITS} WHERE limit_key >= :first ORDER BY limit_key, span LIMIT :size"
OPEN_WINDOWS = f"{SELECT_LIMITS} WHERE opens_at > :now ORDER BY opens_at DESC LIMIT :size"


class LimitView(NamedTuple):
    key: str
    per: str
    used: int
    most: int
    opens_at: datetime | None  # None: it is open, or opens when a job releases its slot

    @property
    def is_used_up(self) -> bool:
        return self.used >= self.most


def list_limits(connection: Connection, now: datetime) -> Iterator[LimitView]:
    return _limit_views(connection, now, connection.execute(ALL_LIMITS).all())


def limits_page(
    connection: Connection, now: datetime, size: int, first: str = ""
) -> tuple[list[LimitView], str | None]:
    """Limits from the key `first` on, and the first key of the next page."""
    rows = connection.execute(LIMITS_PAGE, {"first": first, "size": size + 1}).all()
    following = rows[size][0] if len(rows) > size else None
    whole = [row for row in rows if row[0] != following] or rows[:size]  # a key is not split between pages
    return list(_limit_views(connection, now, whole)), following


def used_up(connection: Connection, now: datetime, size: int) -> list[LimitView]:
    """Exhausted limits: the windows that end last, and the slots held now."""
    windows = connection.execute(OPEN_WINDOWS, {"now": now, "size": size}).all()
    held = sorted({row[0] for row in connection.execute(HOLDERS).all()})[:size]
    keys = {f"key_{number}": key for number, key in enumerate(held)}
    at_once = f"{SELECT_LIMITS} WHERE span = '{AT_ONCE}' AND limit_key IN ({', '.join(f':{each}' for each in keys)})"
    rows = [*windows, *(connection.execute(at_once, keys).all() if keys else [])]
    found = {each for each in _limit_views(connection, now, rows) if each.is_used_up}
    return sorted(found, key=lambda each: (each.key, each.per))


def _limit_views(connection: Connection, now: datetime, rows: Sequence[Sequence[Any]]) -> Iterator[LimitView]:
    held: Counter[str] = Counter()
    for key, _worker_id, slots, own_lease, runner_lease, finished_at in connection.execute(HOLDERS).all():
        if is_held(own_lease, runner_lease, finished_at, now):
            held[key] += slots
    for key, span, most, used, ends_at in rows:
        if span == AT_ONCE:
            yield LimitView(key, span, held[key], most, None)
        elif utc_from_driver(ends_at) <= now:
            yield LimitView(key, span, 0, most, None)
        else:
            yield LimitView(key, span, used, most, utc_from_driver(ends_at))
