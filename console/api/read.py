"""What can be seen: jobs, lanes, cycles, runners, the dead, and who did what by hand."""

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query

from console.api.schemas import Here, JobId, JsonRoute, Timestamp, clamp, list_of, model_of, needs
from console.problems import described
from mayfly import admin
from mayfly.admin.auth import READ
from mayfly.admin.filters import MAX_ID, JobFilter

router = APIRouter(route_class=JsonRoute, tags=["see"], dependencies=[needs(READ)])

Size = Annotated[int, Query(description=f"How many: 1 to {admin.MAX_PAGE_SIZE}, beyond that the nearest.")]
Before = Annotated[int | None, Query(description="Only those below this id: the last one of the page before.")]
Facts = dict[str, Any]


def which_jobs(
    lane: str | None = None,
    type: str | None = None,
    status: str | None = None,
    group_key: str | None = None,
    error: Annotated[str | None, Query(description="The fingerprint of the last failed attempt.")] = None,
    created_before: Annotated[Timestamp | None, Query()] = None,
    created_after: Annotated[Timestamp | None, Query()] = None,
) -> JobFilter:
    """The jobs that have all of what is named."""
    return JobFilter(None, group_key, lane, type, status, created_before, created_after, error)


@router.get("/jobs", response_model=model_of(admin.JobPage), responses=described(422))
async def jobs(
    site: Here,
    which: Annotated[JobFilter, Depends(which_jobs)],
    text: Annotated[str | None, Query(description="Looked for in payloads, errors and keys of 10,000 jobs.")] = None,
    limit: Size = 50,
    after: Annotated[str | None, Query(description="The `next` of the page before.")] = None,
) -> Facts:
    """Jobs, the newest first. `is_cut`: the search stopped before the page was full, and goes on with `next`."""
    size = int(clamp(limit, 1, admin.MAX_PAGE_SIZE))
    page = await site.look(lambda connection: admin.list_jobs(connection, which, text, size, after))
    return page.facts()


@router.get("/jobs/{job_id}", responses=described(404, 422))
async def job(site: Here, job_id: JobId) -> Facts:
    """Everything that is known of one job: its columns, its history, why it is as it is."""
    now, registry = site.database.clock.now(), site.producer.registry
    view = await site.look(lambda each: admin.read_job(each, job_id, site.settings, registry, now))
    return view.facts()


@router.get("/status", responses=described())
async def status(site: Here) -> Facts:
    """Lanes and hosts at a glance, and what is not as it should be."""
    now = site.database.clock.now()
    return (await site.look(lambda each: admin.read_status(each, site.settings, now))).facts()


@router.get("/lanes", response_model=list_of("lanes", admin.LaneView), responses=described())
async def lanes(site: Here) -> Facts:
    """What waits in each lane and for how long, what runs, and what came of the last hour."""
    now = site.database.clock.now()
    return _listed("lanes", await site.look(lambda each: admin.list_lanes(each, site.settings, now)))


@router.get("/cycles", response_model=list_of("cycles", admin.CycleView), responses=described(422))
async def cycles(site: Here, limit: Size = 20, before: Before = None) -> Facts:
    """The cycles of all hosts, the newest first."""
    size = int(clamp(limit, 1, admin.MAX_PAGE_SIZE))
    return _listed("cycles", await site.look(lambda each: admin.list_cycles(each, size, _id(before))))


@router.get("/runners", response_model=list_of("runners", admin.RunnerView), responses=described(422))
async def runners(site: Here, limit: Size = 50, live: bool = False) -> Facts:
    """The runners that live, and then, unless only these are wanted, the last that ended."""
    size = int(clamp(limit, 1, admin.MAX_PAGE_SIZE))
    return _listed("runners", await site.look(lambda each: admin.list_runners(each, size, live)))


@router.get("/dead", response_model=model_of(admin.DeadGroups), responses=described(422))
async def dead(site: Here, lane: str | None = None) -> Facts:
    """The newest dead jobs by type and error, the most frequent first."""
    now = site.database.clock.now()
    return (await site.look(lambda each: admin.list_dead(each, lane, now))).facts()


@router.get("/audit", response_model=list_of("deeds", admin.AuditView), responses=described(422))
async def audit(site: Here, limit: Size = 50, before: Before = None) -> Facts:
    """What people and programs did by hand, the newest first."""
    size = int(clamp(limit, 1, admin.MAX_PAGE_SIZE))
    return _listed("deeds", await site.look(lambda each: admin.list_audit(each, size, _id(before))))


def _listed(name: str, views: Sequence[Any]) -> Facts:
    return {name: [each.facts() for each in views]}


def _id(given: int | None) -> int | None:
    """No database has larger ones, or takes them."""
    return None if given is None else int(clamp(given, 0, MAX_ID))
