"""The first screen: whether cron is at work, what waits, what has died, and how it went lately."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Query, Request, Response
from markupsafe import Markup

from console.site import Site
from console.web import export
from console.web.charts import sparkline
from console.web.figures import charts_of
from console.web.page import Here, Viewer, now_of, render, url
from console.web.redact import of_payload
from mayfly.connection import Connection
from mayfly.health import targets_of
from mayfly.jobs import browse
from mayfly.jobs.browse import PERIODS, History, HostView, LaneView, NewlyDead, Regularity
from mayfly.jobs.why import STALE
from mayfly.schema import JOBS
from mayfly.spans import span

router = APIRouter()

USUAL_PERIOD = "1h"
Chosen = Annotated[str, Query(alias="range")]
RECENT_STEPS = 5  # of a sparkline: ten minutes
NOTHING_DONE = (0,) * 30


class Lane(NamedTuple):
    view: LaneView
    target: timedelta | None
    done: Sequence[int]  # from minute to minute
    spark: Markup

    @property
    def is_late(self) -> bool:
        waited = self.view.wait_seconds
        return self.target is not None and waited is not None and waited > self.target.total_seconds()


class Host(NamedTuple):
    view: HostView
    regularity: Regularity

    @property
    def is_stale(self) -> bool:
        return self.view.age_seconds > STALE.total_seconds()


class Seen(NamedTuple):
    lanes: list[Lane]
    hosts: list[Host]
    dead: list[NewlyDead]
    history: History


@router.get("/")
async def show(request: Request, site: Here, _person: Viewer, chosen: Chosen = USUAL_PERIOD) -> Response:
    period = PERIODS.get(chosen, PERIODS[USUAL_PERIOD])
    seen = await site.look(lambda connection: _look(connection, site, period, now_of(site)))
    ranges = [(each.name, url(request, "/", range=each.name), each is period) for each in PERIODS.values()]
    charts = [] if seen.history.is_empty else charts_of(seen.history)
    return render(
        request,
        "overview.html",
        seen=seen,
        warnings=warnings(seen.lanes),
        period=period,
        ranges=ranges,
        charts=charts,
    )


@router.get("/history.json")
async def history_json(site: Here, _person: Viewer, chosen: Chosen = USUAL_PERIOD) -> Response:
    return export.as_json("history", [each.facts() for each in (await _history(site, chosen)).points])


@router.get("/history.csv")
async def history_csv(site: Here, _person: Viewer, chosen: Chosen = USUAL_PERIOD) -> Response:
    return export.as_csv("history", [each.facts() for each in (await _history(site, chosen)).points])


async def _history(site: Site, name: str) -> History:
    period = PERIODS.get(name, PERIODS[USUAL_PERIOD])
    return await site.look(lambda connection: browse.read_history(connection, period, now_of(site)))


def warnings(lanes: Sequence[Lane]) -> list[str]:
    """A backlog that nobody consumes; nothing where all is well. What is paused shall wait."""
    return [
        f"Lane {each.view.lane} has {each.view.pending} due jobs, the oldest for "
        f"{span(timedelta(seconds=each.view.wait_seconds or 0))}, and nobody works on them."
        for each in lanes
        if is_unattended(each)
    ]


def is_unattended(lane: Lane) -> bool:
    view = lane.view
    has_waited = view.wait_seconds is not None and view.wait_seconds > STALE.total_seconds()
    is_consumed = view.runners > 0 or view.running.number > 0 or any(lane.done[-RECENT_STEPS:])
    return has_waited and not is_consumed and view.paused is None


def _look(connection: Connection, site: Site, period: browse.Period, now: datetime) -> Seen:
    status = browse.read_status(connection, JOBS, site.settings, now)
    sparks, targets = browse.read_sparks(connection, now), targets_of(site.settings)
    regularity = browse.read_regularity(connection, now)
    return Seen(
        [_lane(each, sparks, targets) for each in status.lanes],
        [Host(each, regularity.get(each.host, Regularity())) for each in status.hosts],
        _dead(connection, site, now),
        browse.read_history(connection, period, now),
    )


def _lane(view: LaneView, sparks: Mapping[str, Sequence[int]], targets: Mapping[str, timedelta]) -> Lane:
    done = sparks.get(view.lane, NOTHING_DONE)
    return Lane(view, targets.get(view.lane), done, sparkline(done, "Jobs done in the last hour"))


def _dead(connection: Connection, site: Site, now: datetime) -> list[NewlyDead]:
    """What is hidden in a payload is hidden in the words of its error."""
    found = browse.list_newly_dead(connection, JOBS, now)
    hidden = site.settings.redact
    ids = [each.newest_id for each in found if each.newest_id is not None]
    payloads = browse.read_payloads(connection, JOBS, ids) if hidden and ids else {}
    return [
        each._replace(error=of_payload(hidden, payloads.get(each.newest_id or 0)).text(each.error)) for each in found
    ]
