"""Check every guarantee from the history, the audit and the tables. Pure: what was recorded in, violations out."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from scripts.faults.history import Event
from scripts.faults.jobs import IN_LEDGER, LIMIT

FINAL = {"done", "dead", "cancelled"}
LEGAL = {
    (None, "pending"),
    ("pending", "pending"),  # a retry or a release moves run_at only
    ("pending", "processing"),
    ("pending", "cancelled"),
    ("pending", "dead"),
    *(("processing", status) for status in ("pending", "done", "dead", "cancelled")),
}
CLOCK_RESOLUTION = timedelta(milliseconds=2)  # SQLite's triggers know milliseconds


class JobState(NamedTuple):
    id: int
    type: str
    key: str | None
    status: str
    attempts: int
    max_attempts: int
    claims: int
    schedule_slot: str | None


class Change(NamedTuple):
    """One row of the audit."""

    at: datetime
    job_id: int
    old_status: str | None
    new_status: str
    old_claims: int
    new_claims: int
    interrupted: int  # 1 if the guard interrupted it before its own timeout
    attempts: int
    max_attempts: int
    run_at: datetime


class Cycle(NamedTuple):
    """One dispatcher process."""

    host: str
    seconds: float
    exit_code: int
    was_disturbed: bool  # killed or frozen


@dataclass(frozen=True)
class Evidence:
    history: Sequence[Event]
    jobs: Sequence[JobState]
    audit: Sequence[Change]
    ledger: Mapping[int, int]  # job id → rows
    counted_done: int  # by the counters of the fleet
    cycles: Sequence[Cycle]
    leftovers: Sequence[str]
    max_cycle_seconds: float

    def events(self, kind: str) -> list[Event]:
        return [each for each in self.history if each.kind == kind]


def violations(evidence: Evidence) -> list[str]:
    return [f"{check.__name__}: {text}" for check in CHECKS for text in check(evidence)]


def no_job_is_lost(evidence: Evidence) -> Iterator[str]:
    """Every acknowledged enqueue is a row."""
    known = {each.key for each in evidence.jobs}
    for event in evidence.events("acknowledged"):
        if event["key"] not in known:
            yield f"job {event['job']} ({event['key']}) was acknowledged and is gone"


def no_job_from_nowhere(evidence: Evidence) -> Iterator[str]:
    asked = {event["key"] for event in evidence.events("enqueue")}
    for job in evidence.jobs:
        if job.key is not None and job.key not in asked:
            yield f"job {job.id} ({job.key}) was never enqueued"


def unknown_enqueues_are_there_at_most_once(evidence: Evidence) -> Iterator[str]:
    counts = Counter(each.key for each in evidence.jobs if each.key is not None)
    yield from (f"{key} is there {number} times" for key, number in counts.items() if number > 1)


def everything_is_terminal(evidence: Evidence) -> Iterator[str]:
    for job in evidence.jobs:
        if job.status not in FINAL:
            yield f"job {job.id} ({job.type}) is {job.status}"


def one_effect_per_job(evidence: Evidence) -> Iterator[str]:
    """The ledger row and `done` commit together."""
    for job in evidence.jobs:
        rows = evidence.ledger.get(job.id, 0)
        expected = 1 if job.type in IN_LEDGER and job.status == "done" else 0
        if rows != expected:
            yield f"job {job.id} ({job.type}, {job.status}) has {rows} rows in the ledger"


def changes_are_legal(evidence: Evidence) -> Iterator[str]:
    for each in evidence.audit:
        if (each.old_status, each.new_status) not in LEGAL:
            yield f"job {each.job_id} went from {each.old_status} to {each.new_status}"
        claimed = each.old_status == "pending" and each.new_status == "processing"
        if each.new_claims - each.old_claims != int(claimed):
            yield f"job {each.job_id} changed claims from {each.old_claims} to {each.new_claims}"


def one_start_per_claim(evidence: Evidence) -> Iterator[str]:
    starts = Counter((event["job"], event["token"]) for event in evidence.events("start"))
    yield from (f"job {job} started {n} times with token {token}" for (job, token), n in starts.items() if n > 1)


def attempts_are_within_bounds(evidence: Evidence) -> Iterator[str]:
    for each in evidence.audit:
        if each.attempts > each.max_attempts:
            yield f"job {each.job_id} had {each.attempts} of {each.max_attempts} attempts"


def nothing_starts_before_it_is_due(evidence: Evidence) -> Iterator[str]:
    """By the database's clock."""
    for each in evidence.audit:
        claimed = each.old_status == "pending" and each.new_status == "processing"
        if claimed and each.at < each.run_at - CLOCK_RESOLUTION:
            yield f"job {each.job_id} was claimed {each.run_at - each.at} early"


def repeated_runs_are_explained(evidence: Evidence) -> Iterator[str]:
    """By a recorded failure, by the guard, or by a fault that was injected around that time."""
    faults = [(event.at, event["until"]) for event in evidence.events("fault")]
    expected = Counter(event["job"] for event in evidence.events("failure"))
    expected += Counter(change.job_id for change in evidence.audit if change.interrupted > 0)
    starts: dict[int, list[float]] = defaultdict(list)
    for event in evidence.events("start"):
        starts[event["job"]].append(event.at)
    for job, times in starts.items():
        during_fault = any(at <= times[-1] and until >= times[0] for at, until in faults)
        if len(times) > 1 + expected[job] and not during_fault:
            yield f"job {job} ran {len(times)} times with {expected[job]} failures or interruptions and no fault"


def limits_are_never_exceeded(evidence: Evidence) -> Iterator[str]:
    """A run without an end was killed: it counts at its start only."""
    left = {(event["job"], event["token"]): event.at for event in evidence.events("leave")}
    changes = []
    for event in evidence.events("enter"):
        end = left.get((event["job"], event["token"]))
        if end is not None:
            changes += [(event.at, 1), (end, -1)]
    running = 0
    for at, change in sorted(changes, key=lambda each: (each[0], each[1])):
        running += change
        if running > LIMIT:
            yield f"{running} jobs ran at {at:.3f} with a limit of {LIMIT}"


def totals_equal_the_table(evidence: Evidence) -> Iterator[str]:
    done = sum(each.status == "done" for each in evidence.jobs)
    if evidence.counted_done != done:
        yield f"{done} jobs are done, {evidence.counted_done} were counted"


def schedules_fire_once_per_due_time(evidence: Evidence) -> Iterator[str]:
    slots = Counter(each.schedule_slot for each in evidence.jobs if each.schedule_slot is not None)
    yield from (f"schedule {slot} fired {number} times" for slot, number in slots.items() if number > 1)


def cycles_end_in_time(evidence: Evidence) -> Iterator[str]:
    for each in evidence.cycles:
        if not each.was_disturbed and each.seconds > evidence.max_cycle_seconds:
            yield f"a cycle on {each.host} took {each.seconds:.1f} s"


def exit_codes_are_known(evidence: Evidence) -> Iterator[str]:
    for each in evidence.cycles:
        if not each.was_disturbed and each.exit_code not in (0, 1, 2):
            yield f"a dispatcher on {each.host} exited with {each.exit_code}"


def nothing_is_left(evidence: Evidence) -> Iterator[str]:
    yield from evidence.leftovers


CHECKS = (
    no_job_is_lost,
    no_job_from_nowhere,
    unknown_enqueues_are_there_at_most_once,
    everything_is_terminal,
    one_effect_per_job,
    changes_are_legal,
    one_start_per_claim,
    attempts_are_within_bounds,
    nothing_starts_before_it_is_due,
    repeated_runs_are_explained,
    limits_are_never_exceeded,
    totals_equal_the_table,
    schedules_fire_once_per_due_time,
    cycles_end_in_time,
    exit_codes_are_known,
    nothing_is_left,
)
