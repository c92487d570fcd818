"""The torture test notices every kind of broken guarantee."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from scripts.faults.check import CHECKS, Change, Cycle, Evidence, JobState, violations
from scripts.faults.history import Event

NOW = datetime(2026, 11, 18, tzinfo=UTC)
JOB = JobState(1, "torture_ledger", "host1-1", "done", 1, 4, 1, None)
INSERTED = Change(NOW, 1, None, "pending", 0, 0, 0, 0, 4, NOW)
CLAIMED = Change(NOW, 1, "pending", "processing", 0, 1, 0, 1, 4, NOW)
SETTLED = Change(NOW, 1, "processing", "done", 1, 1, 0, 1, 4, NOW)


def event(kind: str, at: float = 10.0, **facts: object) -> Event:
    return Event(at, kind, facts)


HISTORY = (
    event("enqueue", 1, key="host1-1", type="torture_ledger"),
    event("acknowledged", 2, key="host1-1", job=1),
    event("start", 3, job=1, token=1),
)
GOOD = Evidence(HISTORY, (JOB,), (INSERTED, CLAIMED, SETTLED), {1: 1}, 1, (Cycle("host1", 5, 0, False),), (), 10)


def with_change(change: Change) -> Evidence:
    return replace(GOOD, audit=(*GOOD.audit, change))


def with_events(*events: Event) -> Evidence:
    return replace(GOOD, history=(*HISTORY, *events))


def limited(job: int, enter: float, leave: float) -> tuple[Event, Event]:
    return event("enter", enter, job=job, token=1), event("leave", leave, job=job, token=1)


BROKEN: dict[str, Evidence] = {
    "no_job_is_lost": with_events(event("enqueue", key="host1-2"), event("acknowledged", key="host1-2", job=2)),
    "no_job_from_nowhere": replace(GOOD, jobs=(JOB, JOB._replace(id=2, key="host9-1", type="torture_plain"))),
    "unknown_enqueues_are_there_at_most_once": replace(GOOD, jobs=(JOB, JOB._replace(id=2)), ledger={1: 1, 2: 1}),
    "everything_is_terminal": replace(GOOD, jobs=(JOB._replace(status="pending"),)),
    "one_effect_per_job": replace(GOOD, ledger={1: 2}),
    "changes_are_legal": with_change(Change(NOW, 1, "done", "pending", 1, 1, 0, 1, 4, NOW)),
    "one_start_per_claim": with_events(event("start", job=1, token=1), event("failure", job=1)),
    "attempts_are_within_bounds": with_change(SETTLED._replace(attempts=5)),
    "nothing_starts_before_it_is_due": with_change(CLAIMED._replace(run_at=NOW + timedelta(seconds=1))),
    "repeated_runs_are_explained": with_events(event("start", job=1, token=2)),
    "limits_are_never_exceeded": with_events(*(each for job in range(4) for each in limited(job, 1 + job / 10, 5))),
    "totals_equal_the_table": replace(GOOD, counted_done=2),
    "schedules_fire_once_per_due_time": replace(
        GOOD,
        jobs=tuple(JOB._replace(id=each, key=None, type="torture_plain", schedule_slot="x 12:00") for each in (1, 2)),
        ledger={},
        counted_done=2,
        history=(),
    ),
    "cycles_end_in_time": replace(GOOD, cycles=(Cycle("host1", 11, 0, False),)),
    "exit_codes_are_known": replace(GOOD, cycles=(Cycle("host1", 5, -11, False),)),
    "nothing_is_left": replace(GOOD, leftovers=("process 7",)),
}


def test_a_run_without_violations_passes() -> None:
    """What everything below starts from is in order."""
    assert violations(GOOD) == []


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_each_violation_is_found(check: Callable[..., object]) -> None:
    """By the check that is named after the guarantee."""
    found = violations(BROKEN[check.__name__])

    assert any(each.startswith(f"{check.__name__}: ") for each in found)


def test_a_claim_must_raise_the_fencing_token() -> None:
    """And nothing else may."""
    kept = with_change(CLAIMED._replace(new_claims=0))
    raised = with_change(SETTLED._replace(new_claims=2))

    assert [any("claims" in each for each in violations(evidence)) for evidence in (kept, raised)] == [True, True]


@pytest.mark.parametrize(
    "explanation",
    [
        event("failure", 4, job=1),
        event("fault", 5, name="kill_runner", host="host1", until=60.0),
    ],
)
def test_a_repeated_run_may_be_explained(explanation: Event) -> None:
    """By a failure of the handler, or by a fault between the two runs."""
    evidence = with_events(explanation, event("start", 20, job=1, token=2))

    assert not any(each.startswith("repeated_runs") for each in violations(evidence))


def test_a_run_without_an_end_takes_no_slot() -> None:
    """Its process was killed; when exactly is not known."""
    endless = [event("enter", 1 + job / 10, job=job, token=1) for job in range(9)]

    assert not any(each.startswith("limits") for each in violations(with_events(*endless)))
