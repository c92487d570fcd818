"""Figures by spans of time: what charts are drawn from, however many lanes, types and hosts the totals are of."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from mayfly.clock import milliseconds
from mayfly.connection import Connection
from mayfly.jobs.counters import add_counts
from mayfly.jobs.keep import CHARTED, SPANS
from mayfly.tally import Count, Tally, bucket

KEY = ("span", "begins", "outcome")
CYCLE = "cycle"  # counted beside the outcomes: a cycle that has ended, and how long it took

Sample = tuple[int, str, Count]  # the millisecond it belongs to, the outcome, the figures
Since = Mapping[int, int]  # by span a millisecond
EVER: Since = {}


def add_to_history(connection: Connection, samples: Iterable[Sample], since: Since = EVER) -> None:
    """In the transaction that sees to it that they are counted once."""
    add_counts(connection, "mayfly_history", KEY, by_span(samples, since))


def charted(now: datetime) -> Since:
    """What is older is shown by no chart: after a day of idle minutes, which count nothing, there is some."""
    return {span: milliseconds(now - shown) for span, shown in CHARTED.items()}


def by_span(samples: Iterable[Sample], since: Since = EVER) -> dict[tuple[int, int, str], Count]:
    """Added up in each of the spans they fall into. Pure."""
    found: dict[tuple[int, int, str], Count] = {}
    for at, outcome, count in samples:
        for span in SPANS:
            if at >= since.get(span, 0):
                key = (span, begin_of(at, span), outcome)
                found[key] = found[key].plus(count) if key in found else count
    return found


def begin_of(at: int, span: int) -> int:
    """Of the span of so many seconds in which a millisecond lies."""
    return at - at % (span * 1000)


def of_tally(cycle_id: int, tally: Tally) -> Iterator[Sample]:
    """A cycle's number is the millisecond in which it began."""
    return ((cycle_id, outcome, count) for (_lane, _type, outcome), count in tally.items())


def of_cycles(durations: Mapping[int, int]) -> Iterator[Sample]:
    """By their numbers how long they took, in milliseconds."""
    return ((cycle_id, CYCLE, Count(1, {bucket(took): 1})) for cycle_id, took in durations.items())
