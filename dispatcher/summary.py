"""Summarize a cycle: exit code, lines for the log, text for cron's mail. Pure.

Idle cycles import this module: NamedTuples instead of dataclasses, and no heavy imports.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from mayfly.process import exits

if TYPE_CHECKING:
    from mayfly.stats.histograms import Tally


class Ending(StrEnum):
    """How a runner ended."""

    OK = "ok"
    ERROR = "error"
    TIMEOUT = "timeout"
    CRASH = "crash"


class RunnerEnd(NamedTuple):
    lane: str  # the last one that it served
    ending: Ending
    lived_ms: int
    first_lane: str  # the one that it was started for


class CycleSummary(NamedTuple):
    cycle_id: int
    duration_ms: int
    pending: int = 0
    is_capped: bool = False  # there may be more pending jobs: the count stopped here
    planned: int = 0
    ends: Sequence[RunnerEnd] = ()
    tally: "Tally" = MappingProxyType({})
    rescued: int = 0
    repeated: int = 0  # transactions that were repeated after deadlocks and the like
    pruned: int = 0
    notes: tuple[str, ...] = ()  # lines of the cycle's optional steps
    problems: tuple[str, ...] = ()  # errors other than those of runners
    guard_fired: bool = False

    @property
    def exit_code(self) -> int:
        """An error takes precedence over a timeout: it does not go away by itself."""
        endings = {each.ending for each in self.ends}
        if self.problems or endings & {Ending.ERROR, Ending.CRASH}:
            return exits.ERROR
        return exits.TIMEOUT if self.guard_fired or Ending.TIMEOUT in endings else exits.SUCCESS

    @property
    def pending_text(self) -> str:
        return f"{self.pending}+" if self.is_capped else str(self.pending)

    @property
    def successful(self) -> int:
        return len(self.ends) - self.failed

    @property
    def failed(self) -> int:
        return sum(each.ending is not Ending.OK for each in self.ends)


def summary_lines(summary: CycleSummary) -> list[str]:
    """The block that operators grep for."""
    lived = [each.lived_ms for each in summary.ends]
    average = f"{sum(lived) / len(lived):.0f}ms" if lived else "-"
    return [
        "Dispatch Summary:",
        *summary.notes,
        f"Pending jobs: {summary.pending_text}",
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
    return {"cycle": summary.cycle_id, "host": host, **_figures(summary)}


def _figures(summary: CycleSummary) -> dict[str, int]:
    return {
        "exit_code": summary.exit_code,
        "pending": summary.pending,
        "spawned": len(summary.ends),
        "successful": summary.successful,
        "failed": summary.failed,
        "duration_ms": summary.duration_ms,
    }


def cycle_row(summary: CycleSummary) -> Mapping[str, Any]:
    return {
        **_figures(summary),
        "planned": summary.planned,
        "timed_out": sum(each.ending is Ending.TIMEOUT for each in summary.ends),
        "rescued": summary.rescued,
        "repeated": summary.repeated,
        "pruned": summary.pruned,
        "note": "\n".join(summary.problems) or None,
    }


def failure_text(summary: CycleSummary, host: str, log: str) -> str:
    """For stderr, which cron mails; empty if the cycle succeeded."""
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
