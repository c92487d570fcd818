"""The overview: hosts, lanes, newly dead jobs, and charts."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Query, Request, Response
from markupsafe import Markup

from console.context import ConsoleContext
from console.web import export
from console.web.charts import AxisUnit, Chart, Series, count_unit, duration_unit, sparkline
from console.web.page import Context, Viewer, render, url
from console.web.redact import for_payload
from mayfly.admin.charts import (
    PERIODS,
    ChartPoint,
    History,
    NewlyDead,
    Period,
    list_newly_dead,
    read_history,
    read_sparks,
)
from mayfly.admin.filters import read_payloads
from mayfly.admin.fleet import HostView, Regularity, read_regularity
from mayfly.admin.health import Problem, Severity, latency_targets, read_status
from mayfly.admin.lanes import LaneView
from mayfly.db.connection import Connection

RATES = (("per minute", 1), ("per hour", 60), ("per day", 1440))  # and the minutes of each
STEP_NAMES = {60: "minute", 900: "15 minutes", 7200: "2 hours", 28_800: "8 hours"}


def charts_of(history: History) -> list[Chart]:
    return [throughput(history), failures(history), waits(history), cycles(history)]


def throughput(history: History) -> Chart:
    """A rate, so that the current point, which is incomplete, is comparable with the others."""
    name, minutes = rate_of(history.points)
    values = [each.done / each.minutes * minutes if each.minutes else None for each in history.points]
    return _chart(history, "throughput", f"Jobs done {name}", count_unit(name), Series("done", values))


def rate_of(points: Sequence[ChartPoint]) -> tuple[str, int]:
    """The shortest unit in which the highest rate is at least 1."""
    best = max((each.done / each.minutes for each in points if each.minutes), default=0)
    return next((rate for rate in RATES if best * rate[1] >= 1), RATES[-1] if best else RATES[0])


def failures(history: History) -> Chart:
    failed = Series("failed attempts", [each.failed for each in history.points])
    dead = Series("dead jobs", [each.dead for each in history.points])
    title = f"Failures per {STEP_NAMES[history.period.step]}"
    return _chart(history, "failures", title, count_unit(""), failed, dead, as_bars=True)


def waits(history: History) -> Chart:
    median = Series("median", [each.wait_p50_ms for each in history.points])
    p95 = Series("95th percentile", [each.wait_p95_ms for each in history.points])
    return _chart(history, "waits", "Wait between due and start", duration_unit(), median, p95)


def cycles(history: History) -> Chart:
    median = Series("median", [each.cycle_p50_ms for each in history.points])
    p95 = Series("95th percentile", [each.cycle_p95_ms for each in history.points])
    return _chart(history, "cycles", "Cycle duration", duration_unit(), median, p95)


def _chart(history: History, key: str, title: str, unit: AxisUnit, *series: Series, as_bars: bool = False) -> Chart:
    begins = [each.begins_at for each in history.points]
    return Chart(f"chart-{key}", title, unit, timedelta(seconds=history.period.step), begins, series, as_bars)


router = APIRouter()

DEFAULT_PERIOD = "1h"
Chosen = Annotated[str, Query(alias="range")]
NOTHING_DONE = (0,) * 30


class LaneTile(NamedTuple):
    view: LaneView
    target: timedelta | None
    spark: Markup


class HostTile(NamedTuple):
    view: HostView
    regularity: Regularity


class OverviewData(NamedTuple):
    lanes: list[LaneTile]
    hosts: list[HostTile]
    problems: list[Problem]
    dead: list[NewlyDead]
    history: History


@router.get("/")
async def show(request: Request, context: Context, _user: Viewer, chosen: Chosen = DEFAULT_PERIOD) -> Response:
    period = PERIODS.get(chosen, PERIODS[DEFAULT_PERIOD])
    overview = await context.read(_read, context, period, context.now())
    ranges = [(each.name, url(request, "/", range=each.name), each is period) for each in PERIODS.values()]
    charts = [] if overview.history.is_empty else charts_of(overview.history)
    return render(
        request,
        "overview.html",
        overview=overview,
        warnings=[each.text for each in overview.problems],
        period=period,
        ranges=ranges,
        charts=charts,
    )


async def exported(context: Context, chosen: Chosen = DEFAULT_PERIOD) -> list[export.Facts]:
    period = PERIODS.get(chosen, PERIODS[DEFAULT_PERIOD])
    return [each.facts() for each in (await context.read(read_history, period, context.now())).points]


export.add_routes(router, "history", exported)


def _read(connection: Connection, context: ConsoleContext, period: Period, now: datetime) -> OverviewData:
    status = read_status(connection, context.settings, now)
    sparks, targets = read_sparks(connection, now), latency_targets(context.settings)
    regularity = read_regularity(connection, now)
    return OverviewData(
        [_lane(each, sparks, targets) for each in status.snapshot.lanes],
        [HostTile(each, regularity.get(each.host, Regularity())) for each in status.snapshot.hosts],
        status.at_least(Severity.WARNING),
        _dead(connection, context, now),
        read_history(connection, period, now),
    )


def _lane(view: LaneView, sparks: Mapping[str, Sequence[int]], targets: Mapping[str, timedelta]) -> LaneTile:
    spark = sparkline(sparks.get(view.lane, NOTHING_DONE), "Jobs done in the last hour")
    return LaneTile(view, targets.get(view.lane), spark)


def _dead(connection: Connection, context: ConsoleContext, now: datetime) -> list[NewlyDead]:
    """Secrets of a payload are masked in the error message."""
    found = list_newly_dead(connection, now)
    hidden = context.settings.redact
    ids = [each.newest_id for each in found if each.newest_id is not None]
    payloads = read_payloads(connection, ids) if hidden and ids else {}
    return [
        each._replace(error=for_payload(hidden, payloads.get(each.newest_id or 0)).text(each.error)) for each in found
    ]
