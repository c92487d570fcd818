"""Which charts the overview has, and what they are of. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Query, Request, Response
from markupsafe import Markup

from console.context import ConsoleContext
from console.web import export
from console.web.charts import AxisUnit, Chart, Series, count_unit, duration_unit, sparkline
from console.web.page import Here, Viewer, now_of, render, url
from console.web.redact import of_payload
from mayfly import admin
from mayfly.admin import PERIODS, ChartPoint, History, HostView, LaneView, NewlyDead, Regularity
from mayfly.admin.health import targets_of
from mayfly.admin.why import STALE_AFTER
from mayfly.db.connection import Connection
from mayfly.format import span

RATES = (("a minute", 1), ("an hour", 60), ("a day", 1440))  # and the minutes of each
STEPS = {60: "minute", 900: "15 minutes", 7200: "2 hours", 28_800: "8 hours"}


def charts_of(history: History) -> list[Chart]:
    return [throughput(history), failures(history), waits(history), cycles(history)]


def throughput(history: History) -> Chart:
    """A rate, so that a point which is not over yet looks like the others."""
    name, minutes = rate_of(history.points)
    values = [each.done / each.minutes * minutes if each.minutes else None for each in history.points]
    return _chart(history, "throughput", f"Jobs done {name}", count_unit(name), Series("done", values))


def rate_of(points: Sequence[ChartPoint]) -> tuple[str, int]:
    """The shortest time in which at least one was done, at the best of times."""
    best = max((each.done / each.minutes for each in points if each.minutes), default=0)
    return next((rate for rate in RATES if best * rate[1] >= 1), RATES[-1] if best else RATES[0])


def failures(history: History) -> Chart:
    failed = Series("failed attempts", [each.failed for each in history.points])
    dead = Series("jobs that died", [each.dead for each in history.points])
    title = f"Failures in each {STEPS[history.period.step]}"
    return _chart(history, "failures", title, count_unit(""), failed, dead, as_bars=True)


def waits(history: History) -> Chart:
    half = Series("half of the jobs within", [each.wait_p50_ms for each in history.points])
    most = Series("95 % within", [each.wait_p95_ms for each in history.points])
    return _chart(history, "waits", "Wait from due to start", duration_unit(), half, most)


def cycles(history: History) -> Chart:
    half = Series("half of the cycles within", [each.cycle_p50_ms for each in history.points])
    most = Series("95 % within", [each.cycle_p95_ms for each in history.points])
    return _chart(history, "cycles", "Duration of cycles", duration_unit(), half, most)


def _chart(history: History, key: str, title: str, unit: AxisUnit, *series: Series, as_bars: bool = False) -> Chart:
    begins = [each.begins_at for each in history.points]
    return Chart(f"chart-{key}", title, unit, timedelta(seconds=history.period.step), begins, series, as_bars)


router = APIRouter()

USUAL_PERIOD = "1h"
Chosen = Annotated[str, Query(alias="range")]
RECENT_STEPS = 5  # of a sparkline: ten minutes
NOTHING_DONE = (0,) * 30


class LaneTile(NamedTuple):
    view: LaneView
    target: timedelta | None
    done: Sequence[int]  # from minute to minute
    spark: Markup

    @property
    def is_late(self) -> bool:
        waited = self.view.wait_seconds
        return self.target is not None and waited is not None and waited > self.target.total_seconds()


class HostTile(NamedTuple):
    view: HostView
    regularity: Regularity

    @property
    def is_stale(self) -> bool:
        return self.view.age_seconds > STALE_AFTER.total_seconds()


class OverviewData(NamedTuple):
    lanes: list[LaneTile]
    hosts: list[HostTile]
    dead: list[NewlyDead]
    history: History


@router.get("/")
async def show(request: Request, site: Here, _person: Viewer, chosen: Chosen = USUAL_PERIOD) -> Response:
    period = PERIODS.get(chosen, PERIODS[USUAL_PERIOD])
    seen = await site.look(lambda connection: _read(connection, site, period, now_of(site)))
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


async def _history(site: ConsoleContext, name: str) -> History:
    period = PERIODS.get(name, PERIODS[USUAL_PERIOD])
    return await site.look(lambda connection: admin.read_history(connection, period, now_of(site)))


def warnings(lanes: Sequence[LaneTile]) -> list[str]:
    """A backlog that nobody consumes; nothing where all is well. What is paused shall wait."""
    return [
        f"Lane {each.view.lane} has {each.view.pending} due jobs, the oldest for "
        f"{span(timedelta(seconds=each.view.wait_seconds or 0))}, and nobody works on them."
        for each in lanes
        if is_unattended(each)
    ]


def is_unattended(lane: LaneTile) -> bool:
    view = lane.view
    has_waited = view.wait_seconds is not None and view.wait_seconds > STALE_AFTER.total_seconds()
    is_consumed = view.runners > 0 or view.running.number > 0 or any(lane.done[-RECENT_STEPS:])
    return has_waited and not is_consumed and view.paused is None


def _read(connection: Connection, site: ConsoleContext, period: admin.Period, now: datetime) -> OverviewData:
    status = admin.read_status(connection, site.settings, now)
    sparks, targets = admin.read_sparks(connection, now), targets_of(site.settings)
    regularity = admin.read_regularity(connection, now)
    return OverviewData(
        [_lane(each, sparks, targets) for each in status.lanes],
        [HostTile(each, regularity.get(each.host, Regularity())) for each in status.hosts],
        _dead(connection, site, now),
        admin.read_history(connection, period, now),
    )


def _lane(view: LaneView, sparks: Mapping[str, Sequence[int]], targets: Mapping[str, timedelta]) -> LaneTile:
    done = sparks.get(view.lane, NOTHING_DONE)
    return LaneTile(view, targets.get(view.lane), done, sparkline(done, "Jobs done in the last hour"))


def _dead(connection: Connection, site: ConsoleContext, now: datetime) -> list[NewlyDead]:
    """What is hidden in a payload is hidden in the words of its error."""
    found = admin.list_newly_dead(connection, now)
    hidden = site.settings.redact
    ids = [each.newest_id for each in found if each.newest_id is not None]
    payloads = admin.read_payloads(connection, ids) if hidden and ids else {}
    return [
        each._replace(error=of_payload(hidden, payloads.get(each.newest_id or 0)).text(each.error)) for each in found
    ]
