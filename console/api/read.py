"""Read jobs, lanes, cycles, runners, dead jobs and the audit; and `/metrics` for Prometheus."""

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response
from fastapi.responses import PlainTextResponse

from console.api.schemas import (
    Context,
    JobId,
    JsonRoute,
    PayloadField,
    SearchText,
    StorableText,
    Timestamp,
    clamp,
    list_of,
    model_of,
    one_of,
    requires,
)
from console.problems import described
from mayfly.admin.auth import METRICS, READ, AuditView, list_audit
from mayfly.admin.filters import MAX_ID, JobFilter, parse_field
from mayfly.admin.fleet import CycleView, RunnerView, list_cycles, list_runners
from mayfly.admin.health import read_status
from mayfly.admin.job import read_job
from mayfly.admin.jobs import MAX_PAGE_SIZE, DeadGroups, JobPage, facts_of, list_dead, list_jobs
from mayfly.admin.lanes import LaneView, list_lanes
from mayfly.monitoring.metrics import CONTENT_TYPE, render_metrics
from mayfly.schema.tables import STATUSES

router = APIRouter(route_class=JsonRoute, tags=["read"], dependencies=[requires(READ)])
metrics_router = APIRouter(tags=["metrics"], dependencies=[requires(METRICS)])

Limit = Annotated[int, Query(description=f"1–{MAX_PAGE_SIZE}; values out of range are clamped.")]
Before = Annotated[int | None, Query(description="Only ids below this one: the last id of the previous page.")]
Facts = dict[str, Any]


def job_filter(
    lane: StorableText | None = None,
    type: StorableText | None = None,
    status: Annotated[str, one_of(STATUSES)] | None = None,
    group_key: StorableText | None = None,
    error: Annotated[StorableText | None, Query(description="The fingerprint of the last failed attempt.")] = None,
    created_before: Annotated[Timestamp | None, Query()] = None,
    created_after: Annotated[Timestamp | None, Query()] = None,
    text: Annotated[
        SearchText | None, Query(description="Searched in payloads, errors and keys of 10,000 jobs.")
    ] = None,
    payload: Annotated[
        list[PayloadField] | None, Query(description="Payload fields, searched likewise: `order.id=7`.")
    ] = None,
    source: Annotated[StorableText | None, Query(description="Jobs of rows of this source.")] = None,
    row: Annotated[StorableText | None, Query(description="The primary key of a row of this source.")] = None,
) -> JobFilter:
    return JobFilter(
        lane=lane, type=type, status=status, group_key=group_key, error=error, created_before=created_before,
        created_after=created_after, text=text, payload=None if payload is None else tuple(map(parse_field, payload)),
        source=source, row=row,
    )  # fmt: skip


@router.get("/jobs", response_model=model_of(JobPage), responses=described(422))
async def jobs(
    context: Context,
    which: Annotated[JobFilter, Depends(job_filter)],
    limit: Limit = 50,
    after: Annotated[str | None, Query(description="The `next` of the previous page.")] = None,
) -> Facts:
    """Jobs that match all filters, newest first. `is_cut`: the search stopped early; `next` continues it."""
    return facts_of(await context.read(list_jobs, which, _size(limit), after))


@router.get("/jobs/{job_id}", responses=described(404, 422))
async def job(context: Context, job_id: JobId) -> Facts:
    """One job: its columns, its history and the reasons for its status."""
    now = context.database.clock.now()
    return (await context.read(read_job, job_id, context.settings, context.registry, now)).facts()


@router.get("/status", responses=described())
async def status(context: Context) -> Facts:
    """Lanes, hosts and current problems."""
    return (await context.read(read_status, context.settings, context.database.clock.now())).facts()


@router.get("/lanes", response_model=list_of("lanes", LaneView), responses=described())
async def lanes(context: Context) -> Facts:
    """Each lane: backlog, oldest job, running jobs, outcomes of the last hour."""
    now = context.database.clock.now()
    return _listed("lanes", await context.read(list_lanes, context.settings, now))


@router.get("/cycles", response_model=list_of("cycles", CycleView), responses=described(422))
async def cycles(context: Context, limit: Limit = 20, before: Before = None) -> Facts:
    """Cycles of all hosts, newest first."""
    return _listed("cycles", await context.read(list_cycles, _size(limit), _id(before)))


@router.get("/runners", response_model=list_of("runners", RunnerView), responses=described(422))
async def runners(context: Context, limit: Limit = 50, live: bool = False) -> Facts:
    """Live runners, then the latest ended ones unless `live` is set."""
    return _listed("runners", await context.read(list_runners, _size(limit), live))


@router.get("/dead", response_model=model_of(DeadGroups), responses=described(422))
async def dead(context: Context, lane: StorableText | None = None) -> Facts:
    """The newest dead jobs grouped by type and error, largest group first."""
    return facts_of(await context.read(list_dead, lane, context.database.clock.now()))


@router.get("/audit", response_model=list_of("deeds", AuditView), responses=described(422))
async def audit(context: Context, limit: Limit = 50, before: Before = None) -> Facts:
    """Manual actions of users and tokens, newest first."""
    return _listed("deeds", await context.read(list_audit, _size(limit), _id(before)))


@metrics_router.get("/metrics", response_class=PlainTextResponse, responses=described())
async def scrape(context: Context) -> Response:
    """Metrics of the whole fleet in the Prometheus text format."""
    return Response(await context.run(render_metrics, context.database, context.settings), media_type=CONTENT_TYPE)


def _listed(name: str, views: Sequence[Any]) -> Facts:
    return {name: [facts_of(each) for each in views]}


def _size(limit: int) -> int:
    return int(clamp(limit, 1, MAX_PAGE_SIZE))


def _id(given: int | None) -> int | None:
    """Clamp it to the range of ids: databases refuse larger numbers."""
    return None if given is None else int(clamp(given, 0, MAX_ID))
