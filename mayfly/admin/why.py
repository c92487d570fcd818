"""Decide why a job is not running. Pure: what is known about it in, sentences out."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from typing import Any, NamedTuple

from mayfly import json_text
from mayfly.db.connection import Connection
from mayfly.db.dialects import utc_from_driver
from mayfly.errors import UnknownJob
from mayfly.fleet.cycles import KnownLane, known_lanes
from mayfly.fleet.plan_lock import host_of
from mayfly.fleet.runners import live_by_lane
from mayfly.fleet.statements import READ_PLAN_LOCK
from mayfly.format import format_duration, moment
from mayfly.queue.pauses import Pause, load_pauses
from mayfly.registry import Registry
from mayfly.schema.tables import CANCELLED, DONE, PENDING, PRIORITIES, PROCESSING
from mayfly.settings import Settings
from mayfly.stats.totals import read_usual

STALE_AFTER = timedelta(minutes=3)  # cron missed more than one minute


class Reason(NamedTuple):
    name: str  # one word, for machines
    text: str


class JobRow(NamedTuple):
    """A job as the table has it; the status is Mayfly's word."""

    id: int
    type: str
    lane: str
    status: str
    priority: int
    run_at: datetime
    attempts: int
    max_attempts: int
    crashes: int = 0
    suspect: bool = False
    worker_id: str | None = None
    locked_at: datetime | None = None
    lease_until: datetime | None = None
    finished_at: datetime | None = None
    expires_at: datetime | None = None
    waiting_for: str | None = None
    cancel_reason: str | None = None
    last_error: str | None = None
    progress: str | None = None  # JSON
    slices: int = 0
    claims: int = 0

    @property
    def error(self) -> str:
        """Its first line, behind a colon; the sentence around it has a full stop of its own."""
        return f": {self.last_error.partition(chr(10))[0].rstrip('.')}" if self.last_error else ""


@dataclass(frozen=True)
class LaneState:
    """How it is with the lane of a job that waits."""

    max_workers: int
    running: int = 0  # runners alive anywhere in the fleet
    external: bool = False
    passed_over: int = 0  # cycles in a row
    jobs_before: int = 0  # due ones that are claimed first
    is_counted_out: bool = False  # there may be more of them


class SlotHolder(NamedTuple):
    """A host whose runners hold slots of the limit that a job waits for."""

    host: str
    until: datetime  # a killed host keeps its slots until then


@dataclass(frozen=True)
class JobDiagnosis:
    """All that is known of a job. What it is not asked for may be left out."""

    row: JobRow
    lane: LaneState
    now: datetime
    pauses: tuple[Pause, ...] = ()  # of its lane, of its type
    host: str | None = None  # of its runner
    last_cycle_at: datetime | None = None
    planner: str | None = None  # the host whose cycle plans just now
    usual_seconds: float | None = None  # that jobs of its type take, where that is long
    slot_holders: tuple[SlotHolder, ...] = ()
    has_handler: bool = True
    handler_hint: str = ""
    broken_modules: Mapping[str, str] = field(default_factory=dict)


def explain(known: JobDiagnosis) -> list[Reason]:
    """The strongest reason first; there is always one."""
    match known.row.status:
        case "done" | "dead" | "cancelled":
            return [_ended(known)]
        case "processing":
            return [*_processing(known), *_progress(known)]
    held = [*_ending(known), *_paused(known)]
    if known.row.run_at > known.now:
        return [*held, _not_due(known), *_slots(known), *_expiry(known), *_progress(known)]
    waiting = [*held, *_failures(known), *_deferred(known), *_backlog(known)]
    return [*(waiting or [_next(known)]), *_expiry(known), *_progress(known)]


def _ended(known: JobDiagnosis) -> Reason:
    row = known.row
    since = f" since {_ago(row.finished_at, known.now)}" if row.finished_at else ""
    why = f": {row.cancel_reason}" if row.status == CANCELLED and row.cancel_reason else row.error
    return Reason(row.status, f"It is {row.status}{since}{why if row.status != DONE else ''}.")


def _processing(known: JobDiagnosis) -> Iterator[Reason]:
    row = known.row
    where = f" on {known.host}" if known.host else ""
    since = f" since {_ago(row.locked_at, known.now)}" if row.locked_at else ""
    yield Reason(PROCESSING, f"It is being processed by {row.worker_id}{where}{since}.")
    if row.lease_until is not None and row.lease_until <= known.now:
        late = format_duration(known.now - row.lease_until)
        yield Reason("lost", f"Its lease ran out {late} ago: the next cycle gives it back.")
    if row.cancel_reason is not None:
        yield Reason("told", f"It was told to end, and has not looked yet ({row.cancel_reason}).")


def _progress(known: JobDiagnosis) -> Iterator[Reason]:
    """What its handler told of it, in this run or an earlier one."""
    row = known.row
    slices = f", after {row.slices} slices" if row.slices else ""
    if row.progress is None:
        if slices:
            yield Reason("sliced", f"It goes on from its checkpoint{slices}.")
        return
    told = json_text.decode(row.progress)
    total = "" if told["total"] is None else f" of {told['total']:,}"
    text = f" {told['text']}" if told["text"] else ""
    yield Reason("progress", f"It is at {told['done']:,}{total}{text}{slices}.")


def _ending(known: JobDiagnosis) -> Iterator[Reason]:
    """What will end it without a run, as soon as it is claimed."""
    row = known.row
    if row.cancel_reason is not None:
        yield Reason("told", f"It is to end, and will not be run again ({row.cancel_reason}).")
    if row.expires_at is not None and row.expires_at <= known.now:
        yield Reason("expired", f"It expired at {moment(row.expires_at)}: whoever claims it cancels it.")


def _paused(known: JobDiagnosis) -> Iterator[Reason]:
    for pause in known.pauses:
        by = f" by {pause.paused_by}" if pause.paused_by else ""
        until = f" until {moment(pause.paused_until)}" if pause.paused_until else ""
        because = f": {pause.reason}" if pause.reason else ""
        since = _ago(pause.paused_at, known.now)
        yield Reason("paused", f"The {pause.kind} {pause.name} is paused since {since}{by}{until}{because}.")
    if known.lane.external:
        yield Reason("external", f"The lane {known.row.lane} is external: no cycle serves it, others pull from it.")


def _not_due(known: JobDiagnosis) -> Reason:
    row = known.row
    due = f"due in {format_duration(row.run_at - known.now)}, at {moment(row.run_at)}"
    if row.waiting_for is not None:
        return Reason("waiting", f"It waits: {row.waiting_for}. It is {due}.")
    if row.attempts or row.crashes:
        attempt = f"attempt {row.attempts}/{row.max_attempts}"
        return Reason("retry", f"It is tried again after {attempt}{row.error}. It is {due}.")
    return Reason("run_at", f"It is {due}.")


def _slots(known: JobDiagnosis) -> Iterator[Reason]:
    for holder in known.slot_holders:
        yield Reason("slots", f"It waits for slots of host {holder.host} until {moment(holder.until)} at the latest.")


def _failures(known: JobDiagnosis) -> Iterator[Reason]:
    """What keeps a due job from being run although nobody wants that."""
    row, last = known.row, known.last_cycle_at
    if last is None:
        yield Reason("no_cycle", "No cycle has run yet: is cron set up? See scripts/install-cron.")
    elif known.now - last > STALE_AFTER:
        yield Reason(
            "no_cycle", f"No cycle for {format_duration(known.now - last)}: is cron running? See `mayfly doctor`."
        )
    if not known.has_handler:
        broken = "".join(f" {name} cannot be imported: {why}." for name, why in known.broken_modules.items())
        yield Reason("no_handler", f"No handler for type {row.type!r} is known here.{known.handler_hint}{broken}")
    if row.crashes or row.suspect:
        times = f"it took its runner along {row.crashes} times" if row.crashes else "its runner died, perhaps over it"
        yield Reason("suspect", f"It waits for a runner of its own: {times}.")


def _deferred(known: JobDiagnosis) -> Iterator[Reason]:
    """Whoever took it had less time than it needs, as far as anybody can tell from the row."""
    row, usual = known.row, known.usual_seconds
    if usual is not None and row.claims > row.attempts and not row.slices:
        because = f"its type usually takes up to {usual:g} s, and nobody had as much left of a window"
        yield Reason("deferred", f"It was given back: {because}. A fresh runner will have.")


def _backlog(known: JobDiagnosis) -> Iterator[Reason]:
    lane, name = known.lane, known.row.lane
    if lane.running >= lane.max_workers:
        yield Reason("cap", f"The lane {name} is at its cap: {lane.running} of {lane.max_workers} runners are alive.")
    if lane.jobs_before:
        number = f"{lane.jobs_before}+" if lane.is_counted_out else str(lane.jobs_before)
        yield Reason("behind", f"{number} due jobs of the lane {name} come before it.")
    if lane.passed_over:
        times = f"{lane.passed_over} times for want of free slots"
        yield Reason("passed_over", f"The lane {name} was passed over {times}.")
    if known.planner is not None:
        yield Reason("planning", f"A cycle on {known.planner} is planning just now.")


def _next(known: JobDiagnosis) -> Reason:
    if known.lane.running:
        return Reason("next", f"It is next: one of {known.lane.running} runners of its lane will take it.")
    return Reason("next", "It is next: the coming cycle will take it.")


def _expiry(known: JobDiagnosis) -> Iterator[Reason]:
    at = known.row.expires_at
    if at is not None and at > known.now:
        yield Reason("expires", f"If it has not started by {moment(at)} it is cancelled.")


def _ago(at: datetime | None, now: datetime) -> str:
    return "-" if at is None else f"{moment(at)} ({format_duration(now - at)} ago)"


MAX_JOBS_BEFORE = 1000
TIMES = {"run_at", "locked_at", "lease_until", "finished_at", "expires_at"}
IN_USE = re.compile(r"limit (?P<key>.+): \d+ of \d+ in use")  # see Denial.reason
SLOT_HOLDERS = (
    "SELECT mayfly_runners.host, MAX(mayfly_runners.lease_until) FROM mayfly_slots"
    " JOIN mayfly_runners ON mayfly_runners.worker_id = mayfly_slots.worker_id"
    " WHERE mayfly_slots.limit_key = :key AND mayfly_runners.finished_at IS NULL"
    " GROUP BY mayfly_runners.host ORDER BY mayfly_runners.host"
)
LAST_CYCLE = "SELECT started_at FROM mayfly_cycles ORDER BY id DESC LIMIT 1"
HOST = "SELECT host FROM mayfly_runners WHERE worker_id = :worker_id"


def diagnose(
    connection: Connection, job_id: int, settings: Settings, registry: Registry, now: datetime
) -> JobDiagnosis:
    row = _row(connection, job_id)
    pauses = load_pauses(connection, now)
    holder, lease_until, _number = connection.execute(READ_PLAN_LOCK).first()
    has_handler = registry.get(row.type) is not None
    host = connection.execute(HOST, {"worker_id": row.worker_id}).scalar() if row.status == PROCESSING else None
    last_cycle = connection.execute(LAST_CYCLE).scalar()
    return JobDiagnosis(
        row=row,
        lane=_lane(connection, row, settings, now),
        now=now,
        pauses=tuple(each for each in (pauses.lanes.get(row.lane), pauses.types.get(row.type)) if each),
        host=host,
        last_cycle_at=last_cycle and utc_from_driver(last_cycle),
        planner=host_of(holder) if holder and utc_from_driver(lease_until) > now else None,
        usual_seconds=read_usual(connection, now).of(row.lane).get(row.type) if row.status == PENDING else None,
        slot_holders=_slot_holders(connection, row, now),
        has_handler=has_handler,
        handler_hint="" if has_handler else registry.did_you_mean(row.type),
        broken_modules=registry.failures,
    )


def _slot_holders(connection: Connection, row: JobRow, now: datetime) -> tuple[SlotHolder, ...]:
    """Of the limit that a waiting job's reason names. A lease that is over holds nothing."""
    waits = IN_USE.fullmatch(row.waiting_for or "") if row.status == PENDING else None
    if waits is None:
        return ()
    found = connection.execute(SLOT_HOLDERS, {"key": waits["key"]}).all()
    holders = (SlotHolder(host, utc_from_driver(until)) for host, until in found)
    return tuple(each for each in holders if each.until > now)


def _row(connection: Connection, job_id: int) -> JobRow:
    found = connection.execute(row_statement(), {"id": job_id}).first()
    if found is None:
        raise UnknownJob(job_id)
    values = {name: _value(name, each) for name, each in zip(JobRow._fields, found, strict=True)}
    return JobRow(**{**values, "status": values["status"], "suspect": bool(values["suspect"])})


def _value(name: str, found: Any) -> Any:
    return utc_from_driver(found) if name in TIMES and found is not None else found


@cache
def row_statement() -> str:
    columns = ", ".join(name for name in JobRow._fields)
    return f"SELECT {columns} FROM mayfly_jobs WHERE id = :id"


def _lane(connection: Connection, row: JobRow, settings: Settings, now: datetime) -> LaneState:
    resolved = settings.lane(row.lane)
    is_due = row.status == PENDING and row.run_at <= now
    before = _jobs_before(connection, row, now) if is_due else 0
    known = known_lanes(connection).get(row.lane, KnownLane())
    return LaneState(
        max_workers=known.max_workers or resolved.max_workers,
        running=live_by_lane(connection).get(row.lane, 0),
        external=resolved.external,
        passed_over=known.passed_over,
        jobs_before=min(before, MAX_JOBS_BEFORE),
        is_counted_out=before > MAX_JOBS_BEFORE,
    )


def _jobs_before(connection: Connection, row: JobRow, now: datetime) -> int:
    """Of a higher priority, or of its own and due earlier; counted no further than is worth saying."""
    counted = 0
    for priority in (each for each in PRIORITIES if each <= row.priority):
        own = priority == row.priority
        values = {"lane": row.lane, "priority": priority, "now": row.run_at if own else now}
        values |= {"id": row.id} if own else {}
        counting = before_statement(own)
        counted += int(connection.execute(counting, {**values, "size": MAX_JOBS_BEFORE + 1 - counted}).scalar())
        if counted > MAX_JOBS_BEFORE:
            break
    return counted


@cache
def before_statement(own: bool) -> str:
    """Along the claim index, as a claim goes."""
    earlier = " AND (run_at < :now OR id < :id)" if own else ""
    return (
        f"SELECT COUNT(*) FROM (SELECT id FROM mayfly_jobs WHERE lane = :lane"
        f" AND status = 'pending' AND priority = :priority AND run_at <= :now{earlier}"
        f" ORDER BY run_at, id LIMIT :size) AS earlier"
    )
