"""The overview: hosts, lanes, newly dead jobs, and charts."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Query, Request, Response

from console.context import ConsoleContext
from console.web import export
from console.web.charts import DURATION, AxisUnit, Chart, Series, Sparkline, count_unit
from console.web.page import Context, Viewer, render, url
from console.web.redact import read_redactors
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
from mayfly.admin.fleet import Regularity, read_regularity
from mayfly.admin.health import Severity, Status, latency_targets, read_status
from mayfly.admin.jobs import facts_of
from mayfly.db.connection import Connection

router = APIRouter()

DEFAULT_PERIOD = "1h"
Chosen = Annotated[str, Query(alias="range")]
NOTHING_DONE = (0,) * 30
RATES = (("per minute", 1), ("per hour", 60), ("per day", 1440))  # and the minutes of each
STEP_NAMES = {60: "minute", 900: "15 minutes", 7200: "2 hours", 28_800: "8 hours"}


class OverviewData(NamedTuple):
    status: Status
    regularity: Mapping[str, Regularity]  # by host
    sparks: Mapping[str, Sparkline]  # by lane
    dead: list[NewlyDead]
    history: History


@router.get("/")
async def show(request: Request, context: Context, _user: Viewer, chosen: Chosen = DEFAULT_PERIOD) -> Response:
    period = PERIODS.get(chosen, PERIODS[DEFAULT_PERIOD])
    overview = await context.read(_read, context, period, context.now())
    return render(
        request,
        "overview.html",
        overview=overview,
        targets=latency_targets(context.settings),
        warnings=[each.text for each in overview.status.at_least(Severity.WARNING)],
        period=period,
        ranges=[(each.name, url(request, "/", range=each.name), each is period) for each in PERIODS.values()],
        charts=[] if overview.history.is_empty else charts_of(overview.history),
    )


async def exported(context: Context, chosen: Chosen = DEFAULT_PERIOD) -> list[export.Facts]:
    period = PERIODS.get(chosen, PERIODS[DEFAULT_PERIOD])
    return [facts_of(each) for each in (await context.read(read_history, period, context.now())).points]


export.add_routes(router, "history", exported)


def _read(connection: Connection, context: ConsoleContext, period: Period, now: datetime) -> OverviewData:
    status, sparks = read_status(connection, context.settings, now), read_sparks(connection, now)
    return OverviewData(
        status,
        read_regularity(connection, now),
        {each.lane: Sparkline(sparks.get(each.lane, NOTHING_DONE)) for each in status.snapshot.lanes},
        _dead(connection, context, now),
        read_history(connection, period, now),
    )


def _dead(connection: Connection, context: ConsoleContext, now: datetime) -> list[NewlyDead]:
    """Mask the secrets of a payload in the error message."""
    found = list_newly_dead(connection, now)
    ids = [each.newest_id for each in found if each.newest_id is not None]
    redactors = read_redactors(connection, context.settings.redact, ids)
    return [
        each if each.newest_id is None else each._replace(error=redactors[each.newest_id].text(each.error))
        for each in found
    ]


def charts_of(history: History) -> list[Chart]:
    points = history.points
    rate, minutes = rate_of(points)
    # A rate, because the current point is incomplete and its total would not be comparable.
    done = Series("done", [each.done / each.minutes * minutes if each.minutes else None for each in points])
    failed = Series("failed attempts", [each.failed for each in points])
    dead = Series("dead jobs", [each.dead for each in points])
    waits = _percentiles([each.wait_p50_ms for each in points], [each.wait_p95_ms for each in points])
    cycles = _percentiles([each.cycle_p50_ms for each in points], [each.cycle_p95_ms for each in points])
    failures = f"Failures per {STEP_NAMES[history.period.step]}"
    return [
        _chart(history, "throughput", f"Jobs done {rate}", count_unit(rate), done),
        _chart(history, "failures", failures, count_unit(""), failed, dead, as_bars=True),
        _chart(history, "waits", "Wait between due and start", DURATION, *waits),
        _chart(history, "cycles", "Cycle duration", DURATION, *cycles),
    ]


def rate_of(points: Sequence[ChartPoint]) -> tuple[str, int]:
    """The shortest unit with a highest rate of at least 1."""
    best = max((each.done / each.minutes for each in points if each.minutes), default=0)
    return next((rate for rate in RATES if best * rate[1] >= 1), RATES[-1] if best else RATES[0])


def _percentiles(median: Sequence[int | None], p95: Sequence[int | None]) -> tuple[Series, Series]:
    return Series("median", median), Series("95th percentile", p95)


def _chart(history: History, key: str, title: str, unit: AxisUnit, *series: Series, as_bars: bool = False) -> Chart:
    begins = [each.begins_at for each in history.points]
    return Chart(f"chart-{key}", title, unit, timedelta(seconds=history.period.step), begins, series, as_bars)
