"""Which charts the overview has, and what they are of. Pure."""

from collections.abc import Sequence
from datetime import timedelta

from console.web.axes import Unit, count_unit, duration_unit
from console.web.charts import Chart, Series
from mayfly.jobs.browse import History, Point

RATES = (("a minute", 1), ("an hour", 60), ("a day", 1440))  # and the minutes of each
STEPS = {60: "minute", 900: "15 minutes", 7200: "2 hours", 28_800: "8 hours"}


def charts_of(history: History) -> list[Chart]:
    return [throughput(history), failures(history), waits(history), cycles(history)]


def throughput(history: History) -> Chart:
    """A rate, so that a point which is not over yet looks like the others."""
    name, minutes = rate_of(history.points)
    values = [each.done / each.minutes * minutes if each.minutes else None for each in history.points]
    return _chart(history, "throughput", f"Jobs done {name}", count_unit(name), Series("done", values))


def rate_of(points: Sequence[Point]) -> tuple[str, int]:
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


def _chart(history: History, key: str, title: str, unit: Unit, *series: Series, as_bars: bool = False) -> Chart:
    begins = [each.begins_at for each in history.points]
    return Chart(f"chart-{key}", title, unit, timedelta(seconds=history.period.step), begins, series, as_bars)
