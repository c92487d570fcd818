"""Counts of outcomes with histograms of their durations and waits. Pure."""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mayfly import json_text

# Upper bounds in milliseconds: three per decade, from 1 ms to a day. A bucket is named by its bound. The steps are
# smaller between 1 and 75 seconds, the range of a runner's window.
_SECONDS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 35, 40, 45, 50, 60, 75)
BOUNDS: tuple[int, ...] = (
    *(step * 10**power for power in range(3) for step in (1, 2, 5)),
    *(1000 * seconds for seconds in _SECONDS),
    *(step * 10**power for power in range(5, 8) for step in (1, 2, 5)),
    10**8,
)


@dataclass(frozen=True)
class Count:
    """The jobs with one outcome, of one type in one lane."""

    jobs: int = 0
    durations: Mapping[int, int] = field(default_factory=dict)
    waits: Mapping[int, int] = field(default_factory=dict)

    def plus(self, other: "Count") -> "Count":
        return Count(self.jobs + other.jobs, _added(self.durations, other.durations), _added(self.waits, other.waits))

    @property
    def columns(self) -> dict[str, Any]:
        """As it is stored."""
        return {"jobs": self.jobs, "durations": histogram_text(self.durations), "waits": histogram_text(self.waits)}


Key = tuple[str, str, str]  # lane, type, outcome
Tally = Mapping[Key, Count]
Sample = tuple[Key, int | None, int | None]  # key, duration and wait in milliseconds


def count_samples(samples: Iterable[Sample]) -> dict[Key, Count]:
    jobs: Counter[Key] = Counter()
    durations: defaultdict[Key, Counter[int]] = defaultdict(Counter)
    waits: defaultdict[Key, Counter[int]] = defaultdict(Counter)
    for (key, duration_ms, wait_ms), number in Counter(samples).items():
        jobs[key] += number
        if duration_ms is not None:
            durations[key][bucket(duration_ms)] += number
        if wait_ms is not None:
            waits[key][bucket(wait_ms)] += number
    return {key: Count(number, dict(durations[key]), dict(waits[key])) for key, number in jobs.items()}


def add(first: Tally, second: Tally) -> dict[Key, Count]:
    total = dict(first)
    for key, count in second.items():
        total[key] = total[key].plus(count) if key in total else count
    return total


class Sum(dict[Key, Count]):
    """A tally that grows: adding many tallies one by one would copy each sum."""

    def add(self, key: Key, count: Count) -> None:
        self[key] = self[key].plus(count) if key in self else count


def bucket(milliseconds: int) -> int:
    return BOUNDS[min(bisect_left(BOUNDS, milliseconds), len(BOUNDS) - 1)]


def percentile(histogram: Mapping[int, int], share: float) -> int | None:
    """The bound of the bucket in which the given share of all samples is reached; None without samples."""
    wanted = share * sum(histogram.values())
    reached = 0
    for bound in sorted(histogram):
        reached += histogram[bound]
        if reached >= wanted:
            return bound
    return None


def histogram_text(histogram: Mapping[int, int]) -> str:
    return json_text.encode({str(bound): histogram[bound] for bound in sorted(histogram)})


def stored_count(jobs: int, durations: str, waits: str) -> Count:
    """From the columns of a table."""
    return Count(jobs, parse_histogram(durations), parse_histogram(waits))


def parse_histogram(text: str) -> dict[int, int]:
    return {int(bound): number for bound, number in json_text.decode(text).items()}


def _added(first: Mapping[int, int], second: Mapping[int, int]) -> dict[int, int]:
    return {bound: first.get(bound, 0) + second.get(bound, 0) for bound in {*first, *second}}
