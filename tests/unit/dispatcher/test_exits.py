"""How a runner exited, and the outcome of each job that it held."""

import signal
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.rescue import Exit, KilledFor, dumped_stack, exit_of, judge, judge_lost
from dispatcher.summary import Ending
from mayfly.fleet.runners import Death
from mayfly.process import exits
from mayfly.process.status_page import RunnerStatus, RunningJob
from mayfly.queue import policy
from mayfly.queue.outcome import RELEASED, Outcome, OutcomeKind
from mayfly.queue.policy import Backoff, Interruption, RetryContext
from tests.factories import NOON, make_job

CONTEXT = RetryContext(NOON, Backoff())
WINDOW = 50.0
ENDED = 1000.0
RUNNING = 7  # the id of the job on the status page
BUSY = RunnerStatus((RunningJob(RUNNING, ENDED - 12.0, None),), hard_deadline=ENDED + 30)
OVERDUE = RunnerStatus((RunningJob(RUNNING, ENDED - 52.0, None),), hard_deadline=ENDED - 0.01)
IDLE = RunnerStatus(hard_deadline=ENDED + 30, done=23)
MEMORY = 180 << 20


def make_exit(code: int = 0, status: RunnerStatus = IDLE, **changes: Any) -> Exit:
    return Exit(code, status, ENDED, **{"peak_memory": MEMORY, **changes})


# --- how it exited ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "ending"),
    [
        (exits.SUCCESS, Ending.OK),
        (exits.ERROR, Ending.ERROR),
        (exits.TIMEOUT, Ending.TIMEOUT),
        (exits.USAGE, Ending.ERROR),
        (3, Ending.ERROR),
        (-signal.SIGKILL, Ending.CRASH),
        (-signal.SIGSEGV, Ending.CRASH),
        (-signal.SIGTERM, Ending.CRASH),
    ],
)
def test_without_a_running_job_the_exit_code_decides(code: int, ending: Ending) -> None:
    """A signal is a crash."""
    assert make_exit(code).ending is ending


@pytest.mark.parametrize("code", [0, 1, 2, 3, 64, -signal.SIGKILL, -signal.SIGSEGV, -signal.SIGABRT])
def test_a_runner_that_exits_during_a_job_has_crashed(code: int) -> None:
    """os._exit(0) inside a handler looks like success, and os._exit(2) like a timeout."""
    assert make_exit(code, BUSY).ending is Ending.CRASH


def test_an_exit_by_faulthandler_is_a_timeout() -> None:
    """Its exit code is that of an error; the passed deadline on the page identifies it."""
    assert make_exit(exits.ERROR, OVERDUE).ending is Ending.TIMEOUT


@pytest.mark.parametrize("code", [0, 2, -signal.SIGKILL, -signal.SIGSEGV])
def test_only_the_exit_code_of_faulthandler_identifies_it(code: int) -> None:
    """A runner killed after its deadline was still killed."""
    assert make_exit(code, OVERDUE).ending is Ending.CRASH


def test_a_page_without_a_deadline_is_not_a_timeout() -> None:
    """A runner that exited before its guard was armed was not ended by it."""
    unguarded = RunnerStatus((RunningJob(RUNNING, ENDED - 1, None),))

    assert make_exit(exits.ERROR, unguarded).ending is Ending.CRASH


@pytest.mark.parametrize("status", [IDLE, BUSY, OVERDUE])
@pytest.mark.parametrize("code", [0, 1, -signal.SIGTERM, -signal.SIGKILL])
def test_a_kill_for_time_is_a_timeout(status: RunnerStatus, code: int) -> None:
    """A KILL by the dispatcher is no crash, with any exit code."""
    assert make_exit(code, status, killed_for=KilledFor.TIME).ending is Ending.TIMEOUT


@pytest.mark.parametrize("status", [IDLE, BUSY, OVERDUE])
def test_a_kill_for_memory_is_a_crash(status: RunnerStatus) -> None:
    """More time would not help."""
    assert make_exit(-signal.SIGKILL, status, killed_for=KilledFor.MEMORY).ending is Ending.CRASH


@pytest.mark.parametrize(("code", "number"), [(-9, 9), (-11, 11), (0, None), (1, None), (64, None)])
def test_a_negative_code_is_a_signal(code: int, number: int | None) -> None:
    """As in Python's subprocess module."""
    assert make_exit(code).signal == number


@pytest.mark.parametrize(
    ("exit_", "again"),
    [
        (make_exit(exits.ERROR), True),  # a module that cannot be imported
        (make_exit(exits.USAGE), True),
        (make_exit(-signal.SIGSEGV, RunnerStatus()), True),  # before its first job
        (make_exit(-signal.SIGKILL, RunnerStatus(), killed_for=KilledFor.MEMORY), True),
        (make_exit(-signal.SIGSEGV, BUSY), False),  # during a job, which is a suspect now
        (make_exit(-signal.SIGSEGV, RunnerStatus(done=3)), False),
        (make_exit(-signal.SIGSEGV, RunnerStatus(failed=1)), False),
        (make_exit(exits.SUCCESS, RunnerStatus()), False),
        (make_exit(exits.TIMEOUT, RunnerStatus()), False),
    ],
)
def test_an_exit_that_is_no_jobs_fault_would_repeat(exit_: Exit, again: bool) -> None:
    """Another runner of this lane in this minute would exit the same way."""
    assert exit_.breaks_lane is again


# --- the reason -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("exit_", "reason"),
    [
        (make_exit(0, BUSY), "the runner exited with code 0 in the middle of the job, peak memory 180 MB"),
        (make_exit(3, BUSY), "the runner exited with code 3 in the middle of the job, peak memory 180 MB"),
        (make_exit(-9, BUSY), "the runner was killed by signal 9 (SIGKILL), peak memory 180 MB"),
        (make_exit(-11, BUSY), "the runner was killed by signal 11 (SIGSEGV), peak memory 180 MB"),
        (make_exit(-50, BUSY), "the runner was killed by signal 50 (unknown), peak memory 180 MB"),
        (
            make_exit(-9, BUSY, killed_for=KilledFor.MEMORY),
            "its memory grew above WORKER_MEMORY and the runner was killed, peak memory 180 MB",
        ),
    ],
)
def test_the_reason_names_signal_exit_code_and_memory(exit_: Exit, reason: str) -> None:
    """An operator can distinguish a bug in C from a host short of memory."""
    assert exit_.reason == reason


# --- the outcome of its jobs ------------------------------------------------------------------------------

ways_to_end = st.builds(
    make_exit,
    code=st.sampled_from([0, 1, 2, 3, 64, -6, -9, -11, -15]),
    status=st.sampled_from([IDLE, BUSY, OVERDUE]),
    killed_for=st.none() | st.sampled_from(KilledFor),
)


@given(ways_to_end)
def test_a_job_that_was_not_running_is_never_a_suspect(exit_: Exit) -> None:
    """However its runner exited, the job is released without using an attempt."""
    assert judge(make_job(id=RUNNING + 1), exit_, WINDOW, CONTEXT) == (RELEASED, None)


@given(ways_to_end)
def test_a_running_job_is_always_accounted_for(exit_: Exit) -> None:
    """Its outcome is a crash, a timeout, or an interruption that is counted."""
    outcome, duration_ms = judge(make_job(id=RUNNING), exit_, WINDOW, CONTEXT)

    if exit_.status.running:
        assert outcome.kind in (OutcomeKind.CRASHED, OutcomeKind.TIMED_OUT) or outcome.interrupted
        assert duration_ms is not None
    else:
        assert (outcome, duration_ms) == (RELEASED, None)


@pytest.mark.parametrize("code", [0, 1, -9, -11])
def test_the_running_job_of_a_crash_has_crashed(code: int) -> None:
    """With the reason of its runner's exit and its duration."""
    job, exit_ = make_job(id=RUNNING), make_exit(code, BUSY)

    assert judge(job, exit_, WINDOW, CONTEXT) == (policy.after_crash(job, exit_.reason, CONTEXT), 12_000)


def test_the_running_job_of_a_memory_kill_has_crashed() -> None:
    """The reason names the memory."""
    outcome, _ = judge(make_job(id=RUNNING), make_exit(-9, BUSY, killed_for=KilledFor.MEMORY), WINDOW, CONTEXT)

    assert outcome.kind is OutcomeKind.CRASHED
    assert "WORKER_MEMORY" in (outcome.error or "")


@pytest.mark.parametrize(
    "exit_", [make_exit(exits.ERROR, OVERDUE), make_exit(-9, OVERDUE, killed_for=KilledFor.TIME)]
)
def test_a_job_that_could_not_be_interrupted_has_timed_out(exit_: Exit) -> None:
    """Ended by faulthandler or by the dispatcher: it had a full window, uses an attempt and is no suspect."""
    outcome, duration_ms = judge(make_job(id=RUNNING), exit_, WINDOW, CONTEXT)

    reason = "timed out after 52.0 s, at the end of the runner's window of 50 s"
    assert (outcome.kind, outcome.error, duration_ms) == (OutcomeKind.TIMED_OUT, reason, 52_000)
    assert not outcome.suspect


DUMP = """something that the handler printed
Timeout (0:00:05)!
Thread 0x00007f1c2d7fa6c0 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 324 in wait

Thread 0x00007f1c31b9c740 (most recent call first):
  File "/srv/app/handlers/mail.py", line 12 in connect
  File "/srv/app/handlers/mail.py", line 7 in send
  File "/srv/mayfly/runner/invoke.py", line 160 in run
  File "/srv/mayfly/runner/batch.py", line 120 in run
"""


def test_a_job_that_could_not_be_interrupted_has_its_stack() -> None:
    """The calls inside the handler, the innermost last, from the dump that its runner printed at the end."""
    outcome, _ = judge(make_job(id=RUNNING), make_exit(exits.ERROR, OVERDUE, output_end=DUMP), WINDOW, CONTEXT)

    assert (outcome.error or "").splitlines()[1:] == [
        '  File "/srv/app/handlers/mail.py", line 7, in send',
        '  File "/srv/app/handlers/mail.py", line 12, in connect',
    ]


@pytest.mark.parametrize(
    "output", ["", "Timeout (", DUMP.replace("invoke", "execution"), DUMP.replace("Timeout", "")]
)
def test_output_without_a_dump_of_a_handler_has_no_stack(output: str) -> None:
    """Such as that of threads, whose jobs cannot be told apart."""
    assert dumped_stack(output) == ""


def test_a_job_that_started_late_is_released_by_a_kill() -> None:
    """It had neither its own timeout nor a window: no attempt is used, and the interruption is counted."""
    job, exit_ = make_job(id=RUNNING), make_exit(-9, BUSY, killed_for=KilledFor.TIME)
    outcome, _ = judge(job, exit_, WINDOW, CONTEXT)

    assert outcome == policy.after_interruption(job, Interruption(12.0, WINDOW), CONTEXT)
    assert outcome.interrupted


def test_the_timeout_of_a_job_is_read_from_the_page() -> None:
    """A job with a timeout of ten seconds that ran for twelve has timed out, in any window."""
    status = RunnerStatus((RunningJob(RUNNING, ENDED - 12.0, 10.0),), hard_deadline=ENDED - 0.01)
    outcome, _ = judge(make_job(id=RUNNING), make_exit(exits.ERROR, status), WINDOW, CONTEXT)

    assert outcome.kind is OutcomeKind.TIMED_OUT


def test_a_duration_is_never_negative() -> None:
    """The page may have been written under another clock."""
    status = RunnerStatus((RunningJob(RUNNING, ENDED + 5, None),), hard_deadline=ENDED + 30)

    assert judge(make_job(id=RUNNING), make_exit(-9, status), WINDOW, CONTEXT)[1] == 0


# --- a runner whose exit was not observed -----------------------------------------------------------------

DISAPPEARED = "the runner disappeared (its dispatcher or host died)"


@pytest.mark.parametrize("held", [1, 5])
def test_a_page_left_behind_names_the_running_job(held: int) -> None:
    """That job is released and counted; the others are released unchanged."""
    job = make_job(id=RUNNING)

    assert judge_lost(job, held, BUSY, CONTEXT) == (policy.after_lost_runner(job, DISAPPEARED, CONTEXT), None)
    assert judge_lost(make_job(id=RUNNING + 1), held, BUSY, CONTEXT) == (RELEASED, None)


def test_a_page_without_a_running_job_makes_no_suspects() -> None:
    """The runner died between two jobs."""
    assert judge_lost(make_job(), 1, IDLE, CONTEXT) == (RELEASED, None)


@pytest.mark.parametrize("held", [1, 2, 1000])
def test_without_a_page_the_number_of_jobs_decides(held: int) -> None:
    """On another host a single job was running; of several each may have been and is run alone."""
    job = make_job()
    alone = Outcome(OutcomeKind.RELEASED, error=DISAPPEARED, keeps_attempt=True, suspect=True)

    outcome, _ = judge_lost(job, held, None, CONTEXT)

    assert outcome == (policy.after_lost_runner(job, DISAPPEARED, CONTEXT) if held == 1 else alone)


@pytest.mark.parametrize("held", [1, 2])
def test_a_crash_without_a_dispatcher_counts_for_the_job(held: int) -> None:
    """In a long lane, whose runners outlive their dispatcher, and for external workers."""
    job = make_job()

    assert judge_lost(job, held, None, CONTEXT, "gone") == (
        policy.after_crash_among(held, job, "gone", CONTEXT),
        None,
    )


# --- concurrent jobs --------------------------------------------------------------------------------------

SEVERAL = RunnerStatus(
    (RunningJob(RUNNING, ENDED - 12.0, 10.0), RunningJob(8, ENDED - 1.0, None)), hard_deadline=ENDED + 30
)


@pytest.mark.parametrize("killed_for", [None, KilledFor.MEMORY])
def test_a_crash_with_several_running_jobs_is_counted_for_none(killed_for: KilledFor | None) -> None:
    """Each is run again alone and no attempt is used, since any of them may be the culprit."""
    exit_ = make_exit(-signal.SIGKILL, SEVERAL, killed_for=killed_for)
    outcome, duration_ms = judge(make_job(id=RUNNING, crashes=2), exit_, WINDOW, CONTEXT)

    assert outcome == Outcome(OutcomeKind.RELEASED, error=exit_.reason, keeps_attempt=True, suspect=True)
    assert duration_ms == 12_000
    assert judge_lost(make_job(id=RUNNING), 5, SEVERAL, CONTEXT, exit_.reason)[0] == outcome


def test_a_job_that_was_not_among_the_running_ones_is_no_suspect() -> None:
    """It had not started, or had ended."""
    assert judge(make_job(id=9), make_exit(-signal.SIGKILL, SEVERAL), WINDOW, CONTEXT) == (RELEASED, None)


def test_a_timeout_with_several_running_jobs_applies_to_each_by_its_timeout() -> None:
    """The one past its timeout has timed out, the other is released."""
    exit_ = make_exit(-signal.SIGKILL, SEVERAL, killed_for=KilledFor.TIME)
    kinds = [judge(make_job(id=each), exit_, WINDOW, CONTEXT)[0].kind for each in (RUNNING, 8)]

    assert kinds == [OutcomeKind.TIMED_OUT, OutcomeKind.RELEASED]


# --- submitted runners ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("exit_code", "killed_by", "how"),
    [
        (0, None, "exited with code 0 in the middle of the job"),
        (3, None, "exited with code 3 in the middle of the job"),
        (None, signal.SIGSEGV, "was killed by signal 11 (SIGSEGV)"),
    ],
)
def test_a_noted_death_is_a_crash_of_its_job(exit_code: int | None, killed_by: int | None, how: str) -> None:
    """With the exit code or signal that the lease keeper has seen; the peak memory is unknown."""
    death = Death("crash", exit_code, killed_by, {RUNNING: NOON - timedelta(seconds=12)})

    outcome, duration_ms = judge(make_job(id=RUNNING), exit_of(death, NOON), WINDOW, CONTEXT)

    assert outcome == policy.after_crash(make_job(id=RUNNING), f"the runner {how}", CONTEXT)
    assert duration_ms == pytest.approx(12_000, abs=1)


def test_the_error_of_a_job_names_the_cause_of_its_engine() -> None:
    """If it is known when the job is settled."""
    death = Death("crash", None, signal.SIGKILL, {RUNNING: NOON})

    crashed, _ = judge(make_job(id=RUNNING), exit_of(death, NOON, "out of memory"), WINDOW, CONTEXT)
    released, _ = judge_lost(make_job(), 1, None, CONTEXT, cause="node failed")

    assert crashed.error == "crashed: the runner was killed by signal 9 (SIGKILL): out of memory"
    assert released.error == f"{DISAPPEARED}: node failed"
