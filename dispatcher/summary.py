"""Sum up a cycle: its exit code, the lines for the log, the paragraph for cron's mail. Pure.

Every minute imports this, an idle one too: NamedTuples instead of dataclasses, and nothing heavy at the top.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from mayfly.process import exits

if TYPE_CHECKING:
    from mayfly.stats.histograms import Count, Tally

RARE = ("cancelled", "snoozed", "sliced", "deferred", "released", "lease_lost")  # shown only for lanes that have any


class Ending(StrEnum):
    """How a runner ended."""

    OK = "ok"
    ERROR = "error"
    TIMEOUT = "timeout"
    CRASH = "crash"


class RunnerEnd(NamedTuple):
    lane: str
    ending: Ending
    lived_ms: int


class CycleSummary(NamedTuple):
    cycle_id: int
    duration_ms: int
    pending: str = "0"
    planned: int = 0
    ends: Sequence[RunnerEnd] = ()
    tally: "Tally" = MappingProxyType({})
    rescued: int = 0
    repeated: int = 0  # transactions that were run again: deadlocks and the like
    pruned: int = 0
    notes: tuple[str, ...] = ()  # lines of the cycle's optional steps
    problems: tuple[str, ...] = ()  # what went wrong besides runners
    guard_fired: bool = False

    @property
    def exit_code(self) -> int:
        """An error outranks a timeout: it will not go away by itself."""
        endings = {each.ending for each in self.ends}
        if self.problems or endings & {Ending.ERROR, Ending.CRASH}:
            return exits.ERROR
        return exits.TIMEOUT if self.guard_fired or Ending.TIMEOUT in endings else exits.SUCCESS

    @property
    def successful(self) -> int:
        return self._ended(Ending.OK)

    @property
    def timed_out(self) -> int:
        return self._ended(Ending.TIMEOUT)

    @property
    def failed(self) -> int:
        return len(self.ends) - self.successful

    def _ended(self, ending: Ending) -> int:
        return sum(each.ending is ending for each in self.ends)


def summary_lines(summary: CycleSummary) -> list[str]:
    """The block that operators grep for."""
    lived = [each.lived_ms for each in summary.ends]
    average = f"{sum(lived) / len(lived):.0f}ms" if lived else "-"
    return [
        "Dispatch Summary:",
        *summary.notes,
        f"Pending jobs: {summary.pending}",
        f"Workers spawned: {len(summary.ends)}",
        f"Successful workers: {summary.successful}",
        f"Failed workers: {summary.failed}",
        f"Total duration: {summary.duration_ms}ms",
        f"Avg worker duration: {average}",
    ]


def summary_text(summary: CycleSummary, host: str) -> str:
    """The cycle in one line, for heartbeats."""
    return " ".join(f"{name}={value}" for name, value in figures_of(summary, host).items())


def figures_of(summary: CycleSummary, host: str) -> dict[str, str | int]:
    return {
        "cycle": summary.cycle_id,
        "host": host,
        "exit_code": summary.exit_code,
        "pending": summary.pending,
        "spawned": len(summary.ends),
        "successful": summary.successful,
        "failed": summary.failed,
        "duration_ms": summary.duration_ms,
    }


def lane_figures(summary: CycleSummary) -> list[dict[str, object]]:
    """One line per lane, every figure as key=value."""
    lanes = sorted({lane for lane, _, _ in summary.tally} | {each.lane for each in summary.ends})
    return [_figures(summary, lane) for lane in lanes]


def _figures(summary: CycleSummary, lane: str) -> dict[str, object]:
    counts = {key: count for key, count in summary.tally.items() if key[0] == lane}
    jobs: Counter[str] = Counter()
    for (_, _, outcome), count in counts.items():
        jobs[outcome.replace(" ", "_")] += count.jobs
    ends = Counter(each.ending.value for each in summary.ends if each.lane == lane)
    return {
        "cycle": summary.cycle_id,
        "lane": lane,
        "runners": sum(ends.values()),
        **{f"runners_{ending}": number for ending, number in sorted(ends.items())},
        **{name: jobs.get(name, 0) for name in ("done", "failed", "timed_out", "dead", "crashed")},
        **{name: jobs[name] for name in RARE if jobs[name]},
        "duration_p95_ms": _percentile(counts.values(), "durations"),
        "wait_p95_ms": _percentile(counts.values(), "waits"),
    }


def _percentile(counts: "Iterable[Count]", which: str) -> object:
    from mayfly.stats.histograms import percentile  # here: an idle minute has nothing to compute it from

    total: Counter[int] = Counter()
    for each in counts:
        total.update(getattr(each, which))
    found = percentile(total, 0.95)
    return "-" if found is None else found


def cycle_row(summary: CycleSummary) -> Mapping[str, Any]:
    return {
        "exit_code": summary.exit_code,
        "pending": int(summary.pending.rstrip("+")),
        "planned": summary.planned,
        "spawned": len(summary.ends),
        "successful": summary.successful,
        "failed": summary.failed,
        "timed_out": summary.timed_out,
        "rescued": summary.rescued,
        "repeated": summary.repeated,
        "pruned": summary.pruned,
        "note": "\n".join(summary.problems) or None,
        "duration_ms": summary.duration_ms,
    }


def trouble_paragraph(summary: CycleSummary, host: str, log: str) -> str:
    """For stderr, which cron mails: empty when all went well."""
    if summary.exit_code == exits.SUCCESS:
        return ""
    endings = Counter(each.ending.value for each in summary.ends if each.ending is not Ending.OK)
    runners = ", ".join(f"{number} {ending}" for ending, number in sorted(endings.items()))
    parts = [f"Mayfly's cycle {summary.cycle_id} on {host} ended with code {summary.exit_code}."]
    if runners:
        parts.append(f"Runners: {len(summary.ends)} started, of which {runners}.")
    parts += summary.problems
    parts.append(f"See {log}.")
    return "\n".join(parts)
