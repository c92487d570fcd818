"""Read what there is to know about one job: a handful of looks, each along an index."""

import re
from datetime import datetime
from functools import cache
from typing import Any

from mayfly.connection import Connection
from mayfly.dialect import utc_from_driver
from mayfly.errors import UnknownJob
from mayfly.fleet.cycles import KnownLane, known_lanes
from mayfly.fleet.planning import host_of
from mayfly.fleet.runners import live_by_lane
from mayfly.fleet.statements import LOOK
from mayfly.jobs.pauses import load_pauses
from mayfly.jobs.totals import read_usual
from mayfly.jobs.why import Circumstances, Lane, Row, SlotHolder
from mayfly.registry import Registry
from mayfly.schema import PENDING, PRIORITIES, PROCESSING, JobTable
from mayfly.settings import Settings

MOST_BEFORE = 1000
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


def look_into(
    connection: Connection, jobs: JobTable, job_id: int, settings: Settings, registry: Registry, now: datetime
) -> Circumstances:
    row = _row(connection, jobs, job_id)
    pauses = load_pauses(connection, now)
    holder, lease_until, _number = connection.execute(LOOK).first()
    has_handler = registry.get(row.type) is not None
    host = connection.execute(HOST, {"worker_id": row.worker_id}).scalar() if row.status == PROCESSING else None
    last_cycle = connection.execute(LAST_CYCLE).scalar()
    return Circumstances(
        row=row,
        lane=_lane(connection, jobs, row, settings, now),
        now=now,
        pauses=tuple(each for each in (pauses.lanes.get(row.lane), pauses.types.get(row.type)) if each),
        host=host,
        last_cycle_at=last_cycle and utc_from_driver(last_cycle),
        planner=host_of(holder) if holder and utc_from_driver(lease_until) > now else None,
        usual_seconds=read_usual(connection, now).of(row.lane).get(row.type) if row.status == PENDING else None,
        slot_holders=_slot_holders(connection, row, now),
        has_handler=has_handler,
        nearest_type=None if has_handler else registry.nearest(row.type),
        broken_modules=registry.failures,
    )


def _slot_holders(connection: Connection, row: Row, now: datetime) -> tuple[SlotHolder, ...]:
    """Of the limit that a waiting job's reason names. A lease that is over holds nothing."""
    waits = IN_USE.fullmatch(row.waiting_for or "") if row.status == PENDING else None
    if waits is None:
        return ()
    found = connection.execute(SLOT_HOLDERS, {"key": waits["key"]}).all()
    holders = (SlotHolder(host, utc_from_driver(until)) for host, until in found)
    return tuple(each for each in holders if each.until > now)


def _row(connection: Connection, jobs: JobTable, job_id: int) -> Row:
    found = connection.execute(row_statement(jobs), {"id": job_id}).first()
    if found is None:
        raise UnknownJob(job_id)
    values = {name: _value(name, each) for name, each in zip(Row._fields, found, strict=True)}
    return Row(**{**values, "status": jobs.word_of(values["status"]), "suspect": bool(values["suspect"])})


def _value(name: str, found: Any) -> Any:
    return utc_from_driver(found) if name in TIMES and found is not None else found


@cache
def row_statement(jobs: JobTable) -> str:
    columns = ", ".join(getattr(jobs.c, name) for name in Row._fields)
    return f"SELECT {columns} FROM {jobs.table} WHERE {jobs.c.id} = :id"


def _lane(connection: Connection, jobs: JobTable, row: Row, settings: Settings, now: datetime) -> Lane:
    resolved = settings.lane(row.lane)
    is_due = row.status == PENDING and row.run_at <= now
    before = _jobs_before(connection, jobs, row, now) if is_due else 0
    known = known_lanes(connection).get(row.lane, KnownLane())
    return Lane(
        max_workers=known.max_workers or resolved.max_workers,
        running=live_by_lane(connection).get(row.lane, 0),
        external=resolved.external,
        passed_over=known.passed_over,
        jobs_before=min(before, MOST_BEFORE),
        is_counted_out=before > MOST_BEFORE,
    )


def _jobs_before(connection: Connection, jobs: JobTable, row: Row, now: datetime) -> int:
    """Of a higher priority, or of its own and due earlier; counted no further than is worth saying."""
    counted = 0
    for priority in (each for each in PRIORITIES if each <= row.priority):
        own = priority == row.priority
        values = {"lane": row.lane, "priority": priority, "now": row.run_at if own else now}
        values |= {"id": row.id} if own else {}
        counting = before_statement(jobs, own)
        counted += int(connection.execute(counting, {**values, "size": MOST_BEFORE + 1 - counted}).scalar())
        if counted > MOST_BEFORE:
            break
    return counted


@cache
def before_statement(jobs: JobTable, own: bool) -> str:
    """Along the claim index, as a claim goes."""
    c = jobs.c
    earlier = f" AND ({c.run_at} < :now OR {c.id} < :id)" if own else ""
    return (
        f"SELECT COUNT(*) FROM (SELECT {c.id} FROM {jobs.table} WHERE {c.lane} = :lane"
        f" AND {c.status} = '{jobs.pending}' AND {c.priority} = :priority AND {c.run_at} <= :now{earlier}"
        f" ORDER BY {c.run_at}, {c.id} LIMIT :size) AS earlier"
    )
