"""Where the marks of an axis stand and what is written beside them. Pure."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000  # milliseconds
DURATIONS: tuple[float, ...] = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(each * SECOND for each in (1, 2, 5, 10, 15, 30)),
    *(each * MINUTE for each in (1, 2, 5, 10, 15, 30)),
    *(each * HOUR for each in (1, 2, 6, 12)),
    *(each * DAY for each in (1, 2, 5, 10, 30, 90, 365)),
)
COUNTS: tuple[float, ...] = tuple(step * 10**power for power in range(15) for step in (1, 2, 5))  # of whole things
TIMES = (*(timedelta(minutes=each) for each in (1, 5, 15, 30)),
         *(timedelta(hours=each) for each in (1, 2, 4, 6, 12)),
         *(timedelta(days=each) for each in (1, 2, 5, 10, 30)))  # fmt: skip
LETTERS = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (1000, "k"))
SHORT_FROM = 10_000
MOST_MARKS, MOST_TIMES = 4, 7
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Unit(NamedTuple):
    """How values are written, and by which steps an axis may go."""

    name: str  # behind a value: "a minute"; may be empty
    short: Callable[[float], str]  # beside an axis
    text: Callable[[float], str]
    steps: Sequence[float]


def count_text(value: float) -> str:
    """1,250 and 12.5 and 0.25."""
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def short_count(value: float) -> str:
    """The same, but 12.5k and 3M."""
    if value < SHORT_FROM:
        return count_text(value)
    size, letter = next(each for each in LETTERS if value >= each[0])
    return f"{value / size:.1f}".removesuffix(".0") + letter


def duration_text(milliseconds: float) -> str:
    """As the steps of an axis are: 500 ms, 15 s, 2 min, 6 h."""
    for size, letter in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min"), (SECOND, "s")):
        if milliseconds >= size:
            return f"{milliseconds / size:.3g} {letter}"
    return f"{milliseconds:.3g} ms" if milliseconds else "0"


def marks(highest: float, steps: Sequence[float]) -> list[float]:
    """From 0 to the first that is not below the highest value: no more than fit, and at least one above 0."""
    step = next((each for each in steps if highest <= each * MOST_MARKS), steps[-1])
    number = max(1, -int(-highest // step))
    if number > MOST_MARKS:  # beyond what anybody measures: the ends must do
        return [0, step * number]
    return [step * each for each in range(number + 1)]


def time_marks(first: datetime, end: datetime) -> list[tuple[datetime, str]]:
    """Whole hours, days and the like within a time, in UTC, and what is written there."""
    step = next((each for each in TIMES if (end - first) / each <= MOST_TIMES), TIMES[-1])
    at = EPOCH - (EPOCH - first) // step * step
    found = []
    while at <= end:
        found.append((at, f"{at:%H:%M}" if step < timedelta(days=1) else f"{at.day} {at:%b}"))
        at += step
    return found


def duration_unit() -> Unit:
    return Unit("", duration_text, duration_text, DURATIONS)


def count_unit(name: str) -> Unit:
    return Unit(name, short_count, count_text, COUNTS)
