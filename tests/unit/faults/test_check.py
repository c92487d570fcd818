"""The checks of the torture test detect every kind of broken guarantee."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from scripts.faults.check import CHECKS, violations
from scripts.faults.evidence import (
    Bounds,
    Change,
    CycleRow,
    DispatcherExit,
    Evidence,
    JobState,
    RunnerChange,
    RunnerRow,
)
from scripts.faults.history import Event

BOUNDS = Bounds(
    limit=3, lane_workers=4, host_workers=6,
    worker_timeout=6, dispatch_timeout=8, cycle_seconds=15, aftermath_seconds=10,
)  # fmt: skip
JOB = JobState(1, "torture_ledger", "host1-1", "done", 4)
INSERTED = Change(1.5, 1, None, "pending", 0, 0, 0, 0, 4, None, 1.5)
CLAIMED = Change(2.5, 1, "pending", "processing", 0, 1, 0, 1, 4, "worker-1", 1.5)
SETTLED = Change(3.5, 1, "processing", "done", 1, 1, 0, 1, 4, "worker-1", 1.5)
RUNNER = RunnerRow("worker-1", 7, "ledger", "host1", 100, 2.1, 20.0, 4.0, "ok", 0, None)
CYCLE = CycleRow(7, "host1", 2.0, 5.0, 0, None)
DISPATCHER = DispatcherExit("host1", 99, 1.8, 5.1, 0)
OPENED, CLOSED = RunnerChange(2.1, "worker-1", True), RunnerChange(4.0, "worker-1", False)


def event(kind: str, at: float = 10.0, pid: int = 100, **facts: object) -> Event:
    return Event(at, kind, facts, pid)


HISTORY = (
    event("enqueue", 1, key="host1-1", type="torture_ledger"),
    event("acknowledged", 2, key="host1-1", job=1),
    event("start", 3, job=1, token=1, host="host1"),
)
GOOD = Evidence(
    bounds=BOUNDS,
    history=HISTORY,
    jobs=(JOB,),
    audit=(INSERTED, CLAIMED, SETTLED),
    ledger={1: 1},
    totals={("torture_ledger", "done"): 1},
    runners=(RUNNER,),
    runner_audit=(OPENED, CLOSED),
    timed_out=frozenset(),
    crashed=frozenset(),
    cycles=(CYCLE,),
    exits=(DISPATCHER,),
    free_slots=3,
    leftovers=(),
)


def with_change(change: Change) -> Evidence:
    return replace(GOOD, audit=(*GOOD.audit, change))


def with_events(*events: Event) -> Evidence:
    return replace(GOOD, history=(*HISTORY, *events))


def with_runner(**changes: object) -> Evidence:
    return replace(GOOD, runners=(RUNNER._replace(**changes),))  # type: ignore[arg-type]


def with_cycle(**changes: object) -> Evidence:
    return replace(GOOD, cycles=(CYCLE._replace(**changes),))  # type: ignore[arg-type]


def with_exit_code(code: int) -> Evidence:
    return replace(GOOD, exits=(DISPATCHER._replace(exit_code=code),))


def fault(name: str, at: float, ended_at: float, host: str | None = None) -> tuple[Event, Event]:
    return (
        event("fault", at, number=at, name=name, host=host),
        event("fault_over", ended_at, number=at, missed=False),
    )


def limited(job: int, enter: float, leave: float) -> tuple[Event, Event]:
    return event("enter", enter, job=job, token=1, dispatcher=99), event("leave", leave, job=job, token=1)


def scheduled(*due_times: float) -> Evidence:
    numbers = range(2, 2 + len(due_times))
    return replace(
        GOOD,
        jobs=(JOB, *(JobState(each, "torture_plain", None, "done", 4, "schedule:minutely") for each in numbers)),
        audit=(
            *GOOD.audit,
            *(
                INSERTED._replace(job_id=number, at=due, run_at=due)
                for number, due in zip(numbers, due_times, strict=True)
            ),
        ),
        totals={("torture_ledger", "done"): 1, ("torture_plain", "done"): len(due_times)},
        cycles=(CYCLE, CYCLE._replace(id=8, started_at=70.0, finished_at=72.0)),
        exits=(DISPATCHER, DISPATCHER._replace(started_at=69.0, ended_at=73.0)),
    )


def runners_at_once(number: int) -> Evidence:
    names = [f"worker-{each}" for each in range(number)]
    return replace(
        GOOD,
        runners=[RUNNER._replace(worker_id=name) for name in names],
        runner_audit=[OPENED._replace(worker_id=name) for name in names],
    )


BROKEN: dict[str, Evidence] = {
    "no_job_is_lost": with_events(event("enqueue", key="host1-2"), event("acknowledged", key="host1-2", job=2)),
    "every_job_was_enqueued": replace(GOOD, jobs=(JOB, JOB._replace(id=2, key="host9-1", type="torture_plain"))),
    "no_job_exists_twice": replace(GOOD, jobs=(JOB, JOB._replace(id=2)), ledger={1: 1, 2: 1}),
    "everything_is_terminal": replace(GOOD, jobs=(JOB._replace(status="pending"),)),
    "one_effect_per_job": replace(GOOD, ledger={1: 2}),
    "changes_are_legal": with_change(SETTLED._replace(old_status="done", new_status="pending")),
    "one_start_per_claim": with_events(event("start", job=1, token=1, host="host1")),
    "attempts_are_within_bounds": with_change(SETTLED._replace(attempts=5)),
    "nothing_starts_before_it_is_due": with_change(CLAIMED._replace(run_at=CLAIMED.at + 1)),
    "repeated_runs_are_explained": with_events(event("start", job=1, token=2, host="host2")),
    "limits_are_never_exceeded": with_events(*(each for job in range(4) for each in limited(job, 1 + job / 10, 5))),
    "slots_are_not_lost": replace(GOOD, free_slots=2),
    "caps_are_never_exceeded": runners_at_once(5),
    "totals_equal_the_table": replace(GOOD, totals={("torture_thread", "done"): 1}),
    "schedules_fire_once_per_due_time": scheduled(6.0, 6.0),
    "cycles_end_in_time": replace(GOOD, exits=(DISPATCHER._replace(ended_at=30.0),)),
    "exit_codes_of_runners_fit": with_runner(exit_code=1),
    "exit_codes_of_cycles_fit": with_cycle(exit_code=2),
    "exit_codes_of_dispatchers_fit": with_exit_code(-11),
    "nothing_is_left": replace(GOOD, leftovers=("process 7",)),
}


def found_by(name: str, evidence: Evidence) -> bool:
    return any(each.startswith(f"{name}: ") for each in violations(evidence))


def test_a_run_without_violations_passes() -> None:
    """The other tests change this evidence."""
    assert violations(GOOD) == []


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_each_violation_is_found(check: Callable[..., object]) -> None:
    """It is found by the check that is named after the guarantee."""
    assert found_by(check.__name__, BROKEN[check.__name__])


def test_a_claim_must_increase_the_fencing_token() -> None:
    """No other event may increase it."""
    kept = with_change(CLAIMED._replace(new_claims=0))
    raised = with_change(SETTLED._replace(new_claims=2))

    assert [found_by("changes_are_legal", evidence) for evidence in (kept, raised)] == [True, True]


@pytest.mark.parametrize(
    "explanation",
    [(event("failure", 4, job=1, token=1),), fault("kill_runner", 5, 5, "host1"), fault("restart_server", 5, 8)],
)
def test_a_repeated_run_can_have_an_explanation(explanation: tuple[Event, ...]) -> None:
    """A failure of the handler, or a fault on its host or of the database."""
    evidence = with_events(*explanation, event("start", 20, job=1, token=2, host="host2"))

    assert not found_by("repeated_runs_are_explained", evidence)


def test_a_fault_on_another_host_explains_no_repeated_run() -> None:
    """Nor does a fault that ended long before."""
    elsewhere = with_events(*fault("kill_runner", 5, 5, "host2"), event("start", 20, job=1, token=2, host="host2"))
    long_before = with_events(
        *fault("restart_server", 5, 6), event("start", 50, job=1, token=2, host="host1"),
        event("start", 60, job=1, token=3, host="host1"),
    )  # fmt: skip

    assert found_by("repeated_runs_are_explained", elsewhere)
    assert found_by("repeated_runs_are_explained", long_before)


def test_a_killed_run_holds_its_slot_until_its_kill() -> None:
    """Afterwards the slot may be used again."""
    killed = [event("enter", 1 + job / 10, job=job, token=1, dispatcher=99) for job in range(4)]
    signal = event("signal", 2, process=100, signal="SIGKILL")

    assert found_by("limits_are_never_exceeded", with_events(*killed, signal))
    assert not found_by("limits_are_never_exceeded", with_events(*killed))


def test_a_due_time_without_a_job_is_found() -> None:
    """If a successful cycle could have fired it."""
    assert found_by("schedules_fire_once_per_due_time", scheduled(6.0, 126.0))
    assert not found_by("schedules_fire_once_per_due_time", scheduled(6.0, 66.0, 126.0))


@pytest.mark.parametrize(
    "evidence",
    [
        with_runner(ending="error", exit_code=1),  # without a fault
        with_runner(ending="timeout", exit_code=2),  # nothing was interrupted
        with_runner(ending="crash", exit_code=None, signal=9),  # not killed by the fault injector
        with_runner(ending="timeout", exit_code=None, signal=9),  # long before its deadline
        with_runner(ending="lost", exit_code=None),
        replace(GOOD, crashed=frozenset({"worker-1"})),  # and it exited with 0
    ],
)
def test_a_runner_must_have_a_reason_for_its_exit_code(evidence: Evidence) -> None:
    """In its jobs or in the history of faults."""
    assert found_by("exit_codes_of_runners_fit", evidence)


@pytest.mark.parametrize(("lived", "is_broken"), [(7.9, True), (8.1, False)])
def test_a_database_may_be_slow_on_a_busy_machine(lived: float, is_broken: bool) -> None:
    """The dispatcher reached its timeout."""
    note, ended_at = "The database did not answer in time.", DISPATCHER.started_at + lived
    slow = replace(with_cycle(exit_code=1, note=note), exits=(DISPATCHER._replace(ended_at=ended_at, exit_code=1),))

    assert found_by("exit_codes_of_cycles_fit", slow) is is_broken


@pytest.mark.parametrize(("lived", "is_broken"), [(7.9, True), (8.1, False)])
def test_a_dispatcher_that_reached_its_timeout_may_have_no_row(lived: float, is_broken: bool) -> None:
    """Nor may it have started its runners, which are lost then."""
    slow = replace(
        with_runner(ending="lost", exit_code=None),
        cycles=(),
        exits=(DISPATCHER._replace(ended_at=DISPATCHER.started_at + lived, exit_code=1),),
    )

    assert found_by("exit_codes_of_dispatchers_fit", slow) is is_broken
    assert found_by("exit_codes_of_runners_fit", slow) is is_broken


def test_a_runner_killed_by_the_fault_injector_is_accepted() -> None:
    """Its cycle ended with 1."""
    killed = with_events(
        *fault("kill_runner", 3.5, 3.5, "host1"), event("signal", 3.5, process=100, signal="SIGKILL")
    )
    evidence = replace(
        killed,
        runners=(RUNNER._replace(ending="crash", exit_code=None, signal=9),),
        cycles=(CYCLE._replace(exit_code=1),),
        exits=(DISPATCHER._replace(exit_code=1),),
    )

    assert not [each for each in violations(evidence) if each.startswith("exit_codes")]


@pytest.mark.parametrize(
    "changes", [{"finished_at": None, "exit_code": None}, {"exit_code": 1, "note": "no database"}]
)
def test_a_cycle_must_have_a_reason_to_fail(changes: dict[str, object]) -> None:
    """A fault of the database is one."""
    evidence = with_cycle(**changes)
    explained = replace(evidence, history=(*HISTORY, *fault("restart_server", 3, 4)))

    assert found_by("exit_codes_of_cycles_fit", evidence)
    assert not found_by("exit_codes_of_cycles_fit", explained)


@pytest.mark.parametrize("code", [-9, 1, 2, 64])
def test_a_dispatcher_exits_with_the_code_in_its_row(code: int) -> None:
    """It is ended by a signal only if the fault injector sent it."""
    assert found_by("exit_codes_of_dispatchers_fit", with_exit_code(code))
