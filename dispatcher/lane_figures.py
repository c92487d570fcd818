"""The figures of each lane at the end of a cycle, for the log. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from dispatcher.summary import CycleSummary, Ending
from mayfly.queue.outcome import OutcomeKind
from mayfly.stats.histograms import Count, percentile
from mayfly.stats.totals import LOST_TOTALS

COMMON = [kind for kind in OutcomeKind if kind.is_failure or kind in (OutcomeKind.DONE, OutcomeKind.DEAD)]
RARE = [*(kind for kind in OutcomeKind if kind not in COMMON), LOST_TOTALS]  # shown only for lanes that have any
MAX_LANES_LOGGED = 100


@dataclass
class LaneFigures:
    runners: int = 0
    endings: Counter[Ending] = field(default_factory=Counter)  # of runners that did not end well in this lane
    jobs: Counter[str] = field(default_factory=Counter)  # by outcome
    durations: Counter[int] = field(default_factory=Counter)
    waits: Counter[int] = field(default_factory=Counter)

    @property
    def importance(self) -> tuple[bool, int]:
        """Lanes with more than done jobs first, then the largest ones."""
        return bool(self.endings) or any(kind != OutcomeKind.DONE for kind in self.jobs), self.jobs.total()

    def add(self, outcome: str, count: Count) -> None:
        self.jobs[outcome] += count.jobs
        self.durations.update(count.durations)
        self.waits.update(count.waits)

    def merge(self, other: "LaneFigures") -> None:
        self.runners += other.runners
        self.endings.update(other.endings)
        self.jobs.update(other.jobs)
        self.durations.update(other.durations)
        self.waits.update(other.waits)

    def as_fields(self) -> dict[str, object]:
        """Every figure as key=value."""
        endings = self.endings + Counter({Ending.OK: self.runners - self.endings.total()})
        return {
            "runners": self.runners,
            **{f"runners_{ending}": number for ending, number in sorted(endings.items())},
            **{kind.replace(" ", "_"): self.jobs[kind] for kind in COMMON},
            **{kind.replace(" ", "_"): self.jobs[kind] for kind in RARE if self.jobs[kind]},
            "duration_p95_ms": _percentile(self.durations),
            "wait_p95_ms": _percentile(self.waits),
        }


def lane_figures(summary: CycleSummary, entered: Iterable[str] = ()) -> Iterator[dict[str, object]]:
    """One line per lane; of very many lanes only the most important ones, and one line for the rest.

    `entered` are the lanes that runners entered after their first one.
    """
    found = _by_lane(summary, entered)
    shown = sorted(found, key=lambda lane: found[lane].importance, reverse=True)[:MAX_LANES_LOGGED]
    for lane in sorted(shown):
        yield {"cycle": summary.cycle_id, "lane": lane, **found[lane].as_fields()}
    others = found.keys() - shown
    if others:
        rest = LaneFigures()
        for lane in others:
            rest.merge(found[lane])
        yield {"cycle": summary.cycle_id, "other_lanes": len(others), **rest.as_fields()}


def _by_lane(summary: CycleSummary, entered: Iterable[str]) -> Mapping[str, LaneFigures]:
    found: defaultdict[str, LaneFigures] = defaultdict(LaneFigures)
    for (lane, _type, outcome), count in summary.tally.items():
        found[lane].add(outcome, count)
    for lane in (*entered, *(each.first_lane for each in summary.ends)):
        found[lane].runners += 1
    for each in summary.ends:
        if each.ending is not Ending.OK:
            found[each.lane].endings[each.ending] += 1
    return found


def _percentile(histogram: Mapping[int, int]) -> object:
    found = percentile(histogram, 0.95)
    return "-" if found is None else found
