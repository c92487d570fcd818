"""The input of the checks: the history, the tables, and how each process ended.

All times are seconds of CLOCK_MONOTONIC; `scripts.faults.collect` converts those of the database.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from scripts.faults.history import Event

# Faults of the database or the network, after which a process may exit with 1. A suspended process may hold a lock.
RECOVERY = "recovery"  # the end of all faults
DATABASE_FAULTS = frozenset(
    {
        RECOVERY,
        "restart_server", "freeze_server", "kill_sessions", "cancel_statements", "fill_disk", "cut_network",
        "drop_replies", "freeze_runner", "freeze_dispatcher",
    }
)  # fmt: skip


class JobState(NamedTuple):
    id: int
    type: str
    key: str | None
    status: str
    max_attempts: int
    schedule: str | None = None


class Change(NamedTuple):
    """One row of the audit of jobs."""

    at: float
    job_id: int
    old_status: str | None
    new_status: str
    old_claims: int
    new_claims: int
    interrupted: int  # 1 if the guard interrupted it before its own timeout
    attempts: int
    max_attempts: int
    worker_id: str | None
    run_at: float

    @property
    def is_claim(self) -> bool:
        return self.old_status == "pending" and self.new_status == "processing"


class RunnerRow(NamedTuple):
    worker_id: str
    cycle_id: int
    lane: str
    host: str
    pid: int  # of its dispatcher until the first claim
    planned_at: float
    lease_until: float
    finished_at: float | None
    ending: str | None
    exit_code: int | None
    signal: int | None


class RunnerChange(NamedTuple):
    """One row of the audit of runners."""

    at: float
    worker_id: str
    is_open: bool


class CycleRow(NamedTuple):
    id: int
    host: str
    started_at: float
    finished_at: float | None
    exit_code: int | None
    note: str | None


class DispatcherExit(NamedTuple):
    """One dispatcher process."""

    host: str
    pid: int
    started_at: float
    ended_at: float
    exit_code: int

    def lived_at(self, at: float) -> bool:
        return self.started_at <= at <= self.ended_at


class Fault(NamedTuple):
    name: str
    host: str | None  # None: all hosts
    at: float
    ended_at: float

    def concerns(self, host: str) -> bool:
        return self.host in (None, host)


class Bounds(NamedTuple):
    """The bounds that the settings of this run guarantee."""

    limit: int
    lane_workers: int
    host_workers: int
    worker_timeout: float
    dispatch_timeout: float
    cycle_seconds: float
    aftermath_seconds: float  # how long a fault that has ended may still have consequences


@dataclass(frozen=True)
class Evidence:
    bounds: Bounds
    history: Sequence[Event]
    jobs: Sequence[JobState]
    audit: Sequence[Change]
    ledger: Mapping[int, int]  # job id → rows
    totals: Mapping[tuple[str, str], int]  # type, outcome → jobs, by the counters of the fleet
    runners: Sequence[RunnerRow]
    runner_audit: Sequence[RunnerChange]
    timed_out: frozenset[str]  # runners in which an attempt timed out
    crashed: frozenset[str]  # runners in which an attempt crashed
    cycles: Sequence[CycleRow]
    exits: Sequence[DispatcherExit]
    free_slots: int  # of the limit, after the last runner has ended
    leftovers: Sequence[str]

    def events(self, kind: str) -> list[Event]:
        return [each for each in self.history if each.kind == kind]

    @cached_property
    def faults(self) -> list[Fault]:
        ends = {event["number"]: event for event in self.events("fault_over")}
        last = self.history[-1].at if self.history else 0.0
        return [
            Fault(each["name"], each["host"], each.at, ends[each["number"]].at if each["number"] in ends else last)
            for each in self.events("fault")
            if not (each["number"] in ends and ends[each["number"]]["missed"])
        ]

    def faults_between(self, begin: float, end: float, host: str, names: frozenset[str] | None = None) -> bool:
        """Whether a fault on this host, or its consequences, overlapped with that time."""
        return any(
            each.concerns(host) and each.at <= end and begin <= each.ended_at + self.bounds.aftermath_seconds
            for each in self.faults
            if names is None or each.name in names
        )

    def signals(self, name: str) -> Iterator[Event]:
        """Signals sent by the nemesis: SIGKILL, SIGSTOP."""
        return (each for each in self.events("signal") if each["signal"] == name)
