"""Decide how long jobs of a type usually take, and whether one fits into what is left of a window. Pure."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mayfly.job import WHOLE_WINDOW, Job
from mayfly.queue.outcome import OutcomeKind
from mayfly.stats.histograms import parse_histogram, percentile

USUAL = 0.95  # of all runs end within the usual time
MIN_RUNS = 20  # of fewer, the slowest alone would be what is usual
LONG_SECONDS = 1.0  # what usually takes less is always started
MAX_TYPES = 50  # of a lane, the slowest: a runner is told them in one packet

# Runs that were cut short by something else than their handler say little of how long it takes.
CUT_SHORT = (OutcomeKind.RELEASED, OutcomeKind.CRASHED)
LONG_BUCKET = '000":'  # in a histogram's text: the name of any bucket from a second on ends so, and no other

Recent = Sequence[str]  # lane, type, outcome, and the text of a histogram


@dataclass(frozen=True)
class TypeDurations:
    """What the last totals say of the lanes that have long jobs."""

    seconds: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # by lane and type
    deferred: frozenset[str] = frozenset()  # lanes where some of them were

    def of(self, lane: str) -> Mapping[str, float]:
        return self.seconds.get(lane, {})


def type_durations(totals: Sequence[Recent]) -> TypeDurations:
    """A type that goes on in slices fits into any window, and is not among them."""
    slow = {(lane, type_name) for lane, type_name, _, text in totals if LONG_BUCKET in text}
    slow -= {(lane, type_name) for lane, type_name, outcome, _ in totals if outcome == OutcomeKind.SLICED}
    runs: defaultdict[tuple[str, str], Counter[int]] = defaultdict(Counter)
    for lane, type_name, outcome, text in totals:
        if (lane, type_name) in slow and outcome not in CUT_SHORT:
            runs[lane, type_name].update(parse_histogram(text))
    found: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for (lane, type_name), histogram in runs.items():
        if (seconds := _usual_seconds(histogram)) > LONG_SECONDS:
            found[lane][type_name] = seconds
    return TypeDurations(
        {lane: _slowest(types) for lane, types in found.items()},
        frozenset(lane for lane, _, outcome, _ in totals if outcome == OutcomeKind.DEFERRED),
    )


def _usual_seconds(histogram: Counter[int]) -> float:
    """0 where nothing can be said."""
    usual = percentile(histogram, USUAL)
    return 0.0 if usual is None or histogram.total() < MIN_RUNS else usual / 1000


def _slowest(types: dict[str, float]) -> dict[str, float]:
    return dict(sorted(types.items(), key=lambda each: (-each[1], each[0]))[:MAX_TYPES])


def fits(usual: float, left: float, most: float, is_whole: bool) -> bool:
    """Whether a job should be started with `left` seconds, of the `most` that its runner had for any.

    What fits into no window gets a whole one: nobody will ever have more for it.
    """
    return usual <= left or (is_whole and left >= WHOLE_WINDOW * most)


def may_be_deferred(job: Job) -> bool:
    """Not one that goes on from a checkpoint, nor a suspect: its lane waits for it."""
    return not job.suspect and (job.special is None or job.special.checkpoint is None)
