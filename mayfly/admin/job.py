"""One job with everything known about it: its row, attempts, batch, chain, relatives, timeline, and why it is so."""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from mayfly import json_text
from mayfly.admin.jobs import MAX_COUNTED, CappedCount, count_group, facts_of, isoformat, read_row
from mayfly.admin.why import JobDiagnosis, JobRow, LaneState, Reason, SlotHolder, explain
from mayfly.db.connection import Connection
from mayfly.db.dialects import utc_from_driver
from mayfly.errors import UnknownJob
from mayfly.fleet.cycles import KnownLane, known_lanes
from mayfly.fleet.plan_lock import READ_PLAN_LOCK, host_of
from mayfly.fleet.runners import live_by_lane
from mayfly.queue.pauses import load_pauses
from mayfly.registry import Registry
from mayfly.schema.tables import PENDING, PRIORITIES, PROCESSING
from mayfly.settings import Settings

MAX_ATTEMPTS_SHOWN = 100
MAX_JOBS_BEFORE = 1000
MAX_CHILDREN = 20
MAX_NEIGHBOURS = 5  # of the same group, on each side
JSON_COLUMNS = ("payload", "checkpoint", "progress", "result")
IN_USE = re.compile(r"limit (?P<key>.+): \d+ of \d+ in use")  # see Denial.reason

JOB = f"SELECT {', '.join(JobRow._fields)} FROM mayfly_jobs WHERE id = :id"
BATCH = "SELECT sealed_at, completed_at, abandoned_at FROM mayfly_batches WHERE batch_key = :key"
CHAIN = "SELECT rest FROM mayfly_chains WHERE job_id = :id"
LAST_CYCLE = "SELECT started_at FROM mayfly_cycles ORDER BY id DESC LIMIT 1"
HOST = "SELECT host FROM mayfly_runners WHERE worker_id = :worker_id"
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


ATTEMPTS = f"SELECT {', '.join(Attempt._fields)} FROM mayfly_attempts WHERE job_id = :id ORDER BY id DESC LIMIT :size"


class TimelineEvent(NamedTuple):
    at: datetime
    kind: str  # enqueued, attempt, claimed, started, ended, due
    text: str
    position: int | None = None  # of the attempt among `JobView.attempts`

    def facts(self) -> dict[str, Any]:
        return {"at": isoformat(self.at), "text": self.text}


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
    reasons: tuple[Reason, ...]  # why it does not run, or how it ended
    batch: BatchView | None
    steps: tuple[str, ...]  # the types that follow in its chain
    timeline: tuple[TimelineEvent, ...]

    def facts(self) -> dict[str, Any]:
        return {
            **facts_of(self.row),
            "suspect": int(self.row.suspect),
            "history": [facts_of(each) for each in self.attempts],
            "reasons": [{"why": each.name, "text": each.text} for each in self.reasons],
            "batch": self.batch and facts_of(self.batch),
            "steps": list(self.steps),
            "timeline": [each.facts() for each in self.timeline],
        }


def read_job(connection: Connection, job_id: int, settings: Settings, registry: Registry, now: datetime) -> JobView:
    diagnosis = diagnose(connection, job_id, settings, registry, now)
    row, attempts = diagnosis.row, tuple(_attempts(connection, job_id))
    return JobView(
        row=row,
        attempts=attempts,
        reasons=tuple(explain(diagnosis)),
        batch=None if row.group_key is None else _batch(connection, row.group_key),
        steps=tuple(_steps(connection, job_id)),
        timeline=tuple(timeline(row, attempts)),
    )


def timeline(row: JobRow, attempts: tuple[Attempt, ...]) -> list[TimelineEvent]:
    """What has happened, and what is due, in order. Pure."""
    return sorted(_events(row, attempts), key=lambda event: event.at)


def _events(row: JobRow, attempts: tuple[Attempt, ...]) -> Iterator[TimelineEvent]:
    if row.created_at:
        yield TimelineEvent(row.created_at, "enqueued", "enqueued")
    for index, each in enumerate(attempts):
        message = each.error.partition("\n")[0]
        text = f"attempt {each.attempt} {each.outcome} ({each.worker_id}): {message}"
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
    """Read what `explain` needs to say why the job does not run."""
    row = _row(connection, job_id)
    pauses = load_pauses(connection, now)
    planner, lease_until, _number = connection.execute(READ_PLAN_LOCK).first()
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
        planner=host_of(planner) if planner and utc_from_driver(lease_until) > now else None,
        slot_holders=_slot_holders(connection, row, now),
        has_handler=has_handler,
        handler_hint="" if has_handler else registry.did_you_mean(row.type),
        broken_modules=registry.failures,
    )


def _row(connection: Connection, job_id: int) -> JobRow:
    found = connection.execute(JOB, {"id": job_id}).first()
    if found is None:
        raise UnknownJob(job_id)
    row = read_row(JobRow._fields, found)
    values = {name: _decoded(row[name]) for name in JSON_COLUMNS}
    return JobRow(**{**row, **values, "suspect": bool(row["suspect"])})


def _decoded(text: str | None) -> Any:
    """A value written by plain SQL may be nested too deep for Python: then it stays text."""
    try:
        return None if text is None else json_text.decode(text)
    except ValueError:
        return text


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
        is_capped=before > MAX_JOBS_BEFORE,
    )


def _jobs_before(connection: Connection, row: JobRow, now: datetime) -> int:
    """Due jobs of a higher priority, or of its own and due earlier; counted to one beyond MAX_JOBS_BEFORE."""
    counted = 0
    for priority in (each for each in PRIORITIES if each <= row.priority):
        own = priority == row.priority
        values = {"lane": row.lane, "priority": priority, "now": row.run_at if own else now}
        values |= {"id": row.id} if own else {}
        size = MAX_JOBS_BEFORE + 1 - counted
        counted += int(connection.execute(before_statement(own), {**values, "size": size}).scalar())
        if counted > MAX_JOBS_BEFORE:
            break
    return counted


@cache
def before_statement(own: bool) -> str:
    """Along the claim index, in the order of a claim."""
    earlier = " AND (run_at < :now OR id < :id)" if own else ""
    return (
        f"SELECT COUNT(*) FROM (SELECT id FROM mayfly_jobs WHERE lane = :lane"
        f" AND status = 'pending' AND priority = :priority AND run_at <= :now{earlier}"
        f" ORDER BY run_at, id LIMIT :size) AS earlier"
    )


def _slot_holders(connection: Connection, row: JobRow, now: datetime) -> tuple[SlotHolder, ...]:
    """Of the limit that a waiting job's reason names. An expired lease holds nothing."""
    waits = IN_USE.fullmatch(row.waiting_for or "") if row.status == PENDING else None
    if waits is None:
        return ()
    found = connection.execute(SLOT_HOLDERS, {"key": waits["key"]}).all()
    holders = (SlotHolder(host, utc_from_driver(until)) for host, until in found)
    return tuple(each for each in holders if each.until > now)


def _attempts(connection: Connection, job_id: int) -> Iterator[Attempt]:
    rows = connection.execute(ATTEMPTS, {"id": job_id, "size": MAX_ATTEMPTS_SHOWN}).all()
    return (Attempt(**read_row(Attempt._fields, row)) for row in reversed(rows))


def _batch(connection: Connection, key: str) -> BatchView | None:
    found = connection.execute(BATCH, {"key": key}).first()
    if found is None:
        return None
    counted = count_group(connection, key, MAX_COUNTED)
    times = read_row(("sealed_at", "completed_at", "abandoned_at"), found)
    return BatchView(key, CappedCount.of(sum(counted.values()), MAX_COUNTED), counted, **times)


def _steps(connection: Connection, job_id: int) -> list[str]:
    rest = connection.execute(CHAIN, {"id": job_id}).scalar()
    return [] if rest is None else [each["type"] for each in json_text.decode(rest)]


class Relative(NamedTuple):
    id: int
    type: str
    status: str
    created_at: datetime


class Family(NamedTuple):
    """Its parent, its children, and its neighbours in its group, which in a chain are the steps around it."""

    parent: Relative | None = None  # None also where it is no longer kept
    children: tuple[Relative, ...] = ()  # the oldest first
    has_more: bool = False  # children
    before: tuple[Relative, ...] = ()  # the nearest last
    after: tuple[Relative, ...] = ()


def read_family(connection: Connection, job_id: int, parent_id: int | None, group_key: str | None) -> Family:
    def read(where: str, order: str, size: int, **values: Any) -> list[Relative]:
        found = connection.execute(relatives_statement(where, order), {**values, "size": size}).all()
        return [Relative(**read_row(Relative._fields, row)) for row in found]

    parents = [] if parent_id is None else read("id = :id", "ASC", 1, id=parent_id)
    children = read("parent_id = :id", "ASC", MAX_CHILDREN + 1, id=job_id)
    family = Family(parents[0] if parents else None, tuple(children[:MAX_CHILDREN]), len(children) > MAX_CHILDREN)
    if group_key is None:
        return family
    before = read("group_key = :key AND id < :id", "DESC", MAX_NEIGHBOURS, key=group_key, id=job_id)
    after = read("group_key = :key AND id > :id", "ASC", MAX_NEIGHBOURS, key=group_key, id=job_id)
    return family._replace(before=tuple(reversed(before)), after=tuple(after))


@cache
def relatives_statement(where: str, order: str) -> str:
    return f"SELECT {', '.join(Relative._fields)} FROM mayfly_jobs WHERE {where} ORDER BY id {order} LIMIT :size"
