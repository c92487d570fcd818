"""One job in detail: row, attempts, reasons, chain, related jobs, timeline. And lists of batches."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from mayfly import json_text
from mayfly.admin.jobs import (
    MAX_COUNTED,
    CappedCount,
    ReportedProgress,
    count_group,
    current_start,
    decoded,
    facts_of,
    json_value,
    read_lines,
    read_views,
)
from mayfly.admin.sources import read_row_state
from mayfly.admin.why import JobDiagnosis, JobRow, LaneState, PoolState, Reason, RowState, RunnerCause, explain
from mayfly.db.connection import Connection
from mayfly.db.dialects import utc_from_driver
from mayfly.errors import UnknownJob
from mayfly.fleet.cycles import KnownLane, known_lanes
from mayfly.fleet.runners import JobStart, job_starts, live_by_lane
from mayfly.fleet.submitted import queued_by_lane, refusals
from mayfly.format import format_duration
from mayfly.job import source_row_of
from mayfly.queue.batches import MAX_FILLING, UNSEALED
from mayfly.queue.pauses import load_pauses
from mayfly.queue.sources import Sources
from mayfly.registry import Registry
from mayfly.schema.tables import CANCELLED, DEAD, DONE, PENDING, PRIORITIES, PROCESSING, RELEASED, SLICED
from mayfly.settings import Settings

MAX_ATTEMPTS_SHOWN = 100
MAX_JOBS_BEFORE = 1000
MAX_CHILDREN = 20
MAX_NEIGHBOURS = 5  # of the same group, on each side
MAX_OPEN, MAX_RECENT = 100, 20  # batches
JSON_COLUMNS = ("payload", "checkpoint", "progress", "result")

CHAIN = "SELECT rest FROM mayfly_chains WHERE job_id = :id"
LAST_CYCLE = "SELECT started_at FROM mayfly_cycles ORDER BY id DESC LIMIT 1"
ROW_WORKER = "SELECT row_worker_id FROM mayfly_jobs WHERE id = :id"
RUNNER = "SELECT host, running FROM mayfly_runners WHERE worker_id = :worker_id"
# Not after a failed attempt: that ended before its runner, which another job may have crashed.
RUNNER_CAUSE = (
    "SELECT worker_id, launcher, cause FROM mayfly_runners WHERE cause IS NOT NULL AND launcher IS NOT NULL"
    f" AND worker_id = (SELECT CASE WHEN outcome IN ('crashed', '{RELEASED}') THEN worker_id END"
    " FROM mayfly_attempts WHERE job_id = :id ORDER BY id DESC LIMIT 1)"
)
_OF_JOB = "mayfly_attempts WHERE job_id = :id AND outcome"
UNFINISHED = f"{_OF_JOB} IN ('{SLICED}', '{RELEASED}') ORDER BY id DESC LIMIT :size"
ATTEMPTS = f"{_OF_JOB} NOT IN ('{SLICED}', '{RELEASED}') ORDER BY id DESC LIMIT :size"
IN_USE = re.compile(r"limit (?P<key>.+): \d+ of \d+ in use")  # `waiting_for` of a job without a slot
SLOT_HOLDERS = (
    "SELECT mayfly_runners.host, MAX(mayfly_runners.lease_until) FROM mayfly_slots"
    " JOIN mayfly_runners ON mayfly_runners.worker_id = mayfly_slots.worker_id"
    " WHERE mayfly_slots.limit_key = :key AND mayfly_runners.finished_at IS NULL"
    " GROUP BY mayfly_runners.host ORDER BY mayfly_runners.host"
)


class Attempt(NamedTuple):
    attempt: int
    worker_id: str
    outcome: str
    error: str
    fingerprint: str
    finished_at: datetime
    duration_ms: int | None


EVENTS = (
    "enqueued",
    "claimed",
    "started",
    "released",
    "sliced",
    "attempt",
    "ended",
    "due",
)  # of one moment, in this order


class TimelineEvent(NamedTuple):
    at: datetime
    kind: str  # one of EVENTS
    text: str
    position: int | None = None  # of the attempt among `JobView.attempts`


class BatchView(NamedTuple):
    batch: str
    jobs: CappedCount
    by_status: Mapping[str, int]  # of those that were counted
    sealed_at: datetime | None
    completed_at: datetime | None
    abandoned_at: datetime | None


class JobView(NamedTuple):
    row: JobRow
    attempts: tuple[Attempt, ...]  # the oldest first; the last ones where there are many
    reasons: tuple[Reason, ...]  # why it is not running, or how it ended
    batch: BatchView | None
    steps: tuple[str, ...]  # the types that follow in its chain
    timeline: tuple[TimelineEvent, ...]

    def facts(self) -> dict[str, Any]:
        return {
            **facts_of(self.row),
            "row": json_value(self.row.source_row),
            "state": self.row.state,
            "suspect": int(self.row.suspect),
            "history": json_value(self.attempts),
            "reasons": [{"why": each.name, "text": each.text} for each in self.reasons],
            "batch": json_value(self.batch),
            "steps": list(self.steps),
            "timeline": [{"at": json_value(each.at), "text": each.text} for each in self.timeline],
        }


def read_job(connection: Connection, job_id: int, settings: Settings, registry: Registry, now: datetime) -> JobView:
    diagnosis = diagnose(connection, job_id, settings, registry, now)
    row = diagnosis.row
    size = {"id": job_id, "size": MAX_ATTEMPTS_SHOWN}
    attempts = tuple(reversed(read_views(connection, Attempt, ATTEMPTS, size)))
    unfinished = read_views(connection, Attempt, UNFINISHED, size) if row.claims else []
    rest = connection.execute(CHAIN, {"id": job_id}).scalar()
    return JobView(
        row=row,
        attempts=attempts,
        reasons=tuple(explain(diagnosis)),
        batch=None if row.group_key is None else _batch(connection, row.group_key),
        steps=tuple(each["type"] for each in json_text.decode(rest or "[]")),
        timeline=tuple(timeline(row, attempts, unfinished)),
    )


def timeline(row: JobRow, attempts: Sequence[Attempt], unfinished: Sequence[Attempt] = ()) -> list[TimelineEvent]:
    """Past events, and the due time of a pending job, in order. Pure.

    `unfinished` are runs that ended with a slice or a release, the last one first.
    """
    events = [*_events(row, attempts), *_slices(row, unfinished), *_releases(unfinished)]
    return sorted(events, key=lambda event: (event.at, EVENTS.index(event.kind)))


def _slices(row: JobRow, unfinished: Sequence[Attempt]) -> Iterator[TimelineEvent]:
    """Numbered from the last one: old rows may have been pruned."""
    slices = (each for each in unfinished if each.outcome == SLICED)
    for number, each in zip(range(row.slices, 0, -1), slices, strict=False):
        yield TimelineEvent(each.finished_at, "sliced", f"slice {number} ended{_took(each)} ({each.worker_id})")


def _releases(unfinished: Sequence[Attempt]) -> Iterator[TimelineEvent]:
    for each in unfinished:
        if each.outcome == RELEASED:
            text = f"released{_took(each)} ({each.worker_id}){_message(each)}"
            yield TimelineEvent(each.finished_at, "released", text)


def _took(run: Attempt) -> str:
    return "" if run.duration_ms is None else f" after {format_duration(run.duration_ms / 1000, precise=True)}"


def _message(run: Attempt) -> str:
    return f": {run.error.partition(chr(10))[0]}" if run.error else ""


def _events(row: JobRow, attempts: Sequence[Attempt]) -> Iterator[TimelineEvent]:
    if row.created_at:
        yield TimelineEvent(row.created_at, "enqueued", "enqueued")
    for index, each in enumerate(attempts):
        text = f"attempt {each.attempt} {each.outcome} ({each.worker_id}){_message(each)}"
        yield TimelineEvent(each.finished_at, "attempt", text, index)
    if row.locked_at:
        yield TimelineEvent(row.locked_at, "claimed", f"claimed by {row.worker_id}")
    if row.started_at:
        yield TimelineEvent(row.started_at, "started", "started")
    if row.finished_at:
        yield TimelineEvent(row.finished_at, "ended", row.status)
    elif row.status == PENDING:
        yield TimelineEvent(row.run_at, "due", "due")


def diagnose(
    connection: Connection, job_id: int, settings: Settings, registry: Registry, now: datetime
) -> JobDiagnosis:
    """Read the facts that `explain` needs."""
    row = _row(connection, job_id)
    pauses = load_pauses(connection, now)
    has_handler = registry.get(row.type) is not None
    host, runs = None, tuple[JobStart, ...]()
    if row.status == PROCESSING:
        host, runs = _runner(connection, row.worker_id)
        row = row._replace(started_at=current_start(row.id, row.locked_at, dict(runs)))
    last_cycle = connection.execute(LAST_CYCLE).scalar()
    return JobDiagnosis(
        row=row,
        lane=_lane(connection, row, settings, now),
        now=now,
        pauses=tuple(each for each in (pauses.lanes.get(row.lane), pauses.types.get(row.type)) if each),
        host=host,
        runs=runs,
        last_cycle_at=last_cycle and utc_from_driver(last_cycle),
        has_handler=has_handler,
        handler_hint="" if has_handler else registry.did_you_mean(row.type),
        broken_modules=registry.failures,
        slot_holders=_slot_holders(connection, row, now),
        row_state=_row_state(connection, row, settings),
        runner_cause=_runner_cause(connection, row),
    )


def _runner_cause(connection: Connection, row: JobRow) -> RunnerCause | None:
    if not row.claims or row.status not in (PENDING, DEAD):
        return None
    found = connection.execute(RUNNER_CAUSE, {"id": row.id}).first()
    return None if found is None else RunnerCause(*found)


def _row_state(connection: Connection, row: JobRow, settings: Settings) -> RowState | None:
    """Of a job that waits: the application may have changed its row meanwhile."""
    found = source_row_of(row.unique_key)
    if found is None or row.status != PENDING or found.source not in settings.sources:
        return None
    expected = found._replace(worker_id=connection.execute(ROW_WORKER, {"id": row.id}).scalar())
    return read_row_state(connection, Sources(settings.sources.values(), connection.dialect), expected)


def _runner(connection: Connection, worker_id: str | None) -> tuple[str | None, tuple[JobStart, ...]]:
    """Its host, and the jobs that it runs; nothing is known of external workers."""
    found = connection.execute(RUNNER, {"worker_id": worker_id}).first()
    return (None, ()) if found is None else (found[0], job_starts(found[1]))


def _slot_holders(connection: Connection, row: JobRow, now: datetime) -> dict[str, datetime]:
    """Hosts that hold slots of the limit for which a job waits, and the end of each lease, if it has not expired."""
    waits = IN_USE.fullmatch(row.waiting_for or "") if row.status == PENDING else None
    found = connection.execute(SLOT_HOLDERS, {"key": waits["key"]}).all() if waits else ()
    return {host: utc_from_driver(until) for host, until in found if utc_from_driver(until) > now}


def _row(connection: Connection, job_id: int) -> JobRow:
    rows = read_views(connection, JobRow, "mayfly_jobs WHERE id = :id", {"id": job_id})
    if not rows:
        raise UnknownJob(job_id)
    values = {name: decoded(getattr(rows[0], name)) for name in JSON_COLUMNS}
    return rows[0]._replace(**values, suspect=bool(rows[0].suspect))


def _lane(connection: Connection, row: JobRow, settings: Settings, now: datetime) -> LaneState:
    resolved = settings.lane(row.lane)
    is_due = row.status == PENDING and row.run_at <= now
    known = known_lanes(connection).get(row.lane, KnownLane())
    live, pool = live_by_lane(connection), resolved.pool
    in_pool = sum(number for lane, number in live.items() if settings.lane(lane).pool == pool)
    return LaneState(
        max_workers=known.max_workers or resolved.max_workers,
        running=live.get(row.lane, 0),
        external=resolved.external,
        passed_over=known.passed_over,
        jobs_before=_jobs_before(connection, row, now) if is_due else CappedCount(),
        pool=None if pool is None else PoolState(pool, settings.pools[pool], in_pool),
        queued=queued_by_lane(connection).get(row.lane, 0) if resolved.launcher else 0,
        refusal=refusals(connection, now).get(row.lane) if resolved.launcher else None,
    )


def _jobs_before(connection: Connection, row: JobRow, now: datetime) -> CappedCount:
    """Due jobs with a higher priority, or with the same one and due earlier."""
    counted = 0
    for priority in (each for each in PRIORITIES if each <= row.priority):
        own = priority == row.priority
        values = {"lane": row.lane, "priority": priority, "now": row.run_at if own else now}
        values |= {"id": row.id} if own else {}
        size = MAX_JOBS_BEFORE + 1 - counted
        counted += int(connection.execute(before_statement(own), {**values, "size": size}).scalar())
        if counted > MAX_JOBS_BEFORE:
            break
    return CappedCount.of(counted, MAX_JOBS_BEFORE)


def before_statement(own: bool) -> str:
    """Uses the claim index, in the order of claims."""
    earlier = " AND (run_at < :now OR id < :id)" if own else ""
    return (
        f"SELECT COUNT(*) FROM (SELECT id FROM mayfly_jobs WHERE lane = :lane"
        f" AND status = 'pending' AND priority = :priority AND run_at <= :now{earlier}"
        f" ORDER BY run_at, id LIMIT :size) AS earlier"
    )


class Relative(NamedTuple):
    id: int
    type: str
    status: str  # or, instead of `processing`, claimed or running
    created_at: datetime


class Family(NamedTuple):
    """The parent, the children, and the neighbours in the group: in a chain, the steps before and after."""

    parent: Relative | None = None  # None also if it has been pruned
    children: tuple[Relative, ...] = ()  # the oldest first
    has_more: bool = False  # children
    before: tuple[Relative, ...] = ()  # the nearest last
    after: tuple[Relative, ...] = ()


def read_family(connection: Connection, job_id: int, parent_id: int | None, group_key: str | None) -> Family:
    def read(where: str, order: str, size: int, **values: Any) -> list[Relative]:
        found = read_views(connection, Relative, relatives_source(where, order), {**values, "size": size})
        lines = read_lines(connection, [each.id for each in found if each.status == PROCESSING])
        states = {line.id: line.state for line in lines}
        return [each._replace(status=states.get(each.id, each.status)) for each in found]

    parents = [] if parent_id is None else read("id = :id", "ASC", 1, id=parent_id)
    children = read("parent_id = :id", "ASC", MAX_CHILDREN + 1, id=job_id)
    family = Family(parents[0] if parents else None, tuple(children[:MAX_CHILDREN]), len(children) > MAX_CHILDREN)
    if group_key is None:
        return family
    before = read("group_key = :key AND id < :id", "DESC", MAX_NEIGHBOURS, key=group_key, id=job_id)
    after = read("group_key = :key AND id > :id", "ASC", MAX_NEIGHBOURS, key=group_key, id=job_id)
    return family._replace(before=tuple(reversed(before)), after=tuple(after))


def relatives_source(where: str, order: str) -> str:
    return f"mayfly_jobs WHERE {where} ORDER BY id {order} LIMIT :size"


# --- batches ------------------------------------------------------------------------------------------------

OPEN = f"mayfly_batches WHERE completed_at IS NULL ORDER BY created_at LIMIT {MAX_OPEN}"
RECENT = f"mayfly_batches WHERE completed_at IS NOT NULL ORDER BY completed_at DESC LIMIT {MAX_RECENT}"
NEVER_SEALED = f"mayfly_batches WHERE {UNSEALED} AND created_at < :before ORDER BY created_at LIMIT {MAX_OPEN}"


class BatchRow(NamedTuple):
    batch_key: str
    created_at: datetime
    sealed_at: datetime | None
    completed_at: datetime | None
    abandoned_at: datetime | None

    def state(self, now: datetime) -> str:
        if self.abandoned_at:
            return "abandoned"
        if self.completed_at:
            return "complete"
        if self.sealed_at:
            return "open"
        return "never sealed" if now - self.created_at > MAX_FILLING else "being filled"


class ListedBatch(NamedTuple):
    batch: str
    state: str
    left: int
    done: int
    dead: int
    cancelled: int
    since: datetime
    completed_at: datetime | None
    is_capped: bool = False  # only the newest jobs were counted

    @property
    def reported(self) -> ReportedProgress:
        ended = self.done + self.dead + self.cancelled
        return ReportedProgress(ended, ended + self.left, "jobs, the newest ones" if self.is_capped else "jobs")


def list_batches(connection: Connection, now: datetime, max_read: int | None = None) -> list[ListedBatch]:
    """Open and recently completed batches with their jobs per status. `max_read` is the number of jobs in all."""
    rows = [row for source in (OPEN, RECENT) for row in read_views(connection, BatchRow, source)]
    cap = MAX_COUNTED if max_read is None else min(MAX_COUNTED, max_read // max(1, len(rows)))
    return [_listed_batch(connection, now, each, cap) for each in rows]


def never_sealed(connection: Connection, now: datetime) -> list[BatchRow]:
    """Batches unsealed for so long that their producers have probably crashed."""
    return read_views(connection, BatchRow, NEVER_SEALED, {"before": now - MAX_FILLING})


def _listed_batch(connection: Connection, now: datetime, row: BatchRow, cap: int) -> ListedBatch:
    counted = count_group(connection, row.batch_key, cap)
    done, dead, cancelled = (counted.get(status, 0) for status in (DONE, DEAD, CANCELLED))
    jobs = sum(counted.values())
    left, is_capped = jobs - done - dead - cancelled, jobs > cap
    times = row.created_at, row.completed_at
    return ListedBatch(row.batch_key, row.state(now), left, done, dead, cancelled, *times, is_capped)


def _batch(connection: Connection, key: str) -> BatchView | None:
    rows = read_views(connection, BatchRow, "mayfly_batches WHERE batch_key = :key", {"key": key})
    if not rows:
        return None
    counted = count_group(connection, key, MAX_COUNTED)
    return BatchView(key, CappedCount.of(sum(counted.values()), MAX_COUNTED), counted, *rows[0][2:])
