"""How a runner ended, and what that means for each job it held."""

import signal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.exits import Exit, KilledFor, judge, judge_lost
from dispatcher.summary import Ending
from mayfly.process import exits
from mayfly.process.status_page import RunnerStatus, RunningJob
from mayfly.queue import policy
from mayfly.queue.outcome import RELEASED, Outcome, OutcomeKind
from mayfly.queue.policy import Backoff, Interruption, RetryContext
from tests.factories import NOON, make_job

CHANCES = RetryContext(NOON, Backoff())
WINDOW = 50.0
ENDED = 1000.0
RUNNING = 7  # the id of the job that stands on the page
BUSY = RunnerStatus((RunningJob(RUNNING, ENDED - 12.0, None),), hard_deadline=ENDED + 30)
OVERDUE = RunnerStatus((RunningJob(RUNNING, ENDED - 52.0, None),), hard_deadline=ENDED - 0.01)
IDLE = RunnerStatus(hard_deadline=ENDED + 30, done=23)
MEMORY = 180 << 20


def make_exit(code: int = 0, status: RunnerStatus = IDLE, **changes: Any) -> Exit:
    return Exit(code, status, ENDED, **{"peak_memory": MEMORY, **changes})


# --- how it ended -----------------------------------------------------------------------------------------


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
def test_without_a_running_job_the_exit_code_is_believed(code: int, ending: Ending) -> None:
    """Whoever had nothing in hand ended as it says; a signal is a crash."""
    assert make_exit(code).ending is ending


@pytest.mark.parametrize("code", [0, 1, 2, 3, 64, -signal.SIGKILL, -signal.SIGSEGV, -signal.SIGABRT])
def test_whoever_ends_in_the_middle_of_a_job_has_crashed(code: int) -> None:
    """os._exit(0) inside a handler looks like success, and os._exit(2) like a timeout."""
    assert make_exit(code, BUSY).ending is Ending.CRASH


def test_faulthandlers_end_is_a_timeout() -> None:
    """Its exit code is an error's; its mark is that the deadline on the page has passed."""
    assert make_exit(exits.ERROR, OVERDUE).ending is Ending.TIMEOUT


@pytest.mark.parametrize("code", [0, 2, -signal.SIGKILL, -signal.SIGSEGV])
def test_only_faulthandlers_own_code_is_its_mark(code: int) -> None:
    """Somebody who was killed after the deadline was killed all the same."""
    assert make_exit(code, OVERDUE).ending is Ending.CRASH


def test_a_page_without_a_deadline_marks_nothing() -> None:
    """A runner that ended before its guard was set was not ended by it."""
    unguarded = RunnerStatus((RunningJob(RUNNING, ENDED - 1, None),))

    assert make_exit(exits.ERROR, unguarded).ending is Ending.CRASH


@pytest.mark.parametrize("status", [IDLE, BUSY, OVERDUE])
@pytest.mark.parametrize("code", [0, 1, -signal.SIGTERM, -signal.SIGKILL])
def test_our_own_kill_for_time_is_a_timeout(status: RunnerStatus, code: int) -> None:
    """A KILL by the dispatcher is no crash, however the runner took it."""
    assert make_exit(code, status, killed_for=KilledFor.TIME).ending is Ending.TIMEOUT


@pytest.mark.parametrize("status", [IDLE, BUSY, OVERDUE])
def test_our_own_kill_for_memory_is_a_crash(status: RunnerStatus) -> None:
    """More time would not help it."""
    assert make_exit(-signal.SIGKILL, status, killed_for=KilledFor.MEMORY).ending is Ending.CRASH


@pytest.mark.parametrize(("code", "number"), [(-9, 9), (-11, 11), (0, None), (1, None), (64, None)])
def test_a_negative_code_is_a_signal(code: int, number: int | None) -> None:
    """As Python tells them."""
    assert make_exit(code).signal == number


@pytest.mark.parametrize(
    ("exit_", "again"),
    [
        (make_exit(exits.ERROR), True),  # a module that cannot be imported
        (make_exit(exits.USAGE), True),
        (make_exit(-signal.SIGSEGV, RunnerStatus()), True),  # before its first job
        (make_exit(-signal.SIGKILL, RunnerStatus(), killed_for=KilledFor.MEMORY), True),
        (make_exit(-signal.SIGSEGV, BUSY), False),  # over a job, which is now a suspect
        (make_exit(-signal.SIGSEGV, RunnerStatus(done=3)), False),
        (make_exit(-signal.SIGSEGV, RunnerStatus(failed=1)), False),
        (make_exit(exits.SUCCESS, RunnerStatus()), False),
        (make_exit(exits.TIMEOUT, RunnerStatus()), False),
    ],
)
def test_an_end_that_no_job_is_to_blame_for_would_come_again(exit_: Exit, again: bool) -> None:
    """Another runner in this lane and minute would fare the same."""
    assert exit_.breaks_lane is again


# --- why --------------------------------------------------------------------------------------------------


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
def test_the_reason_names_signal_code_and_memory(exit_: Exit, reason: str) -> None:
    """What an operator needs to tell a bug in C from a host short of memory."""
    assert exit_.reason == reason


# --- what becomes of its jobs -----------------------------------------------------------------------------

ways_to_end = st.builds(
    make_exit,
    code=st.sampled_from([0, 1, 2, 3, 64, -6, -9, -11, -15]),
    status=st.sampled_from([IDLE, BUSY, OVERDUE]),
    killed_for=st.none() | st.sampled_from(KilledFor),
)


@given(ways_to_end)
def test_a_batch_mate_is_never_blamed(exit_: Exit) -> None:
    """However its runner ended, a job that was not running goes back unspent and unsuspected."""
    assert judge(make_job(id=RUNNING + 1), exit_, WINDOW, CHANCES) == (RELEASED, None)


@given(ways_to_end)
def test_a_running_job_never_goes_unnoticed(exit_: Exit) -> None:
    """If it stands on the page, its outcome is a crash or a timeout, or an interruption that is counted."""
    outcome, duration_ms = judge(make_job(id=RUNNING), exit_, WINDOW, CHANCES)

    if exit_.status.running:
        assert outcome.kind in (OutcomeKind.CRASHED, OutcomeKind.TIMED_OUT) or outcome.interrupted
        assert duration_ms is not None
    else:
        assert (outcome, duration_ms) == (RELEASED, None)


@pytest.mark.parametrize("code", [0, 1, -9, -11])
def test_the_running_job_of_a_crash_has_crashed(code: int) -> None:
    """With the reason of its runner's end, and how long it had run."""
    job, exit_ = make_job(id=RUNNING), make_exit(code, BUSY)

    assert judge(job, exit_, WINDOW, CHANCES) == (policy.after_crash(job, exit_.reason, CHANCES), 12_000)


def test_the_running_job_of_a_memory_kill_has_crashed() -> None:
    """And the reason says that it was the memory."""
    outcome, _ = judge(make_job(id=RUNNING), make_exit(-9, BUSY, killed_for=KilledFor.MEMORY), WINDOW, CHANCES)

    assert outcome.kind is OutcomeKind.CRASHED
    assert "WORKER_MEMORY" in (outcome.error or "")


@pytest.mark.parametrize(
    "exit_", [make_exit(exits.ERROR, OVERDUE), make_exit(-9, OVERDUE, killed_for=KilledFor.TIME)]
)
def test_a_job_that_could_not_be_interrupted_has_timed_out(exit_: Exit) -> None:
    """Ended from C or by us: it had a whole window, an attempt is spent, and it is no suspect."""
    outcome, duration_ms = judge(make_job(id=RUNNING), exit_, WINDOW, CHANCES)

    assert (outcome.kind, outcome.error, duration_ms) == (OutcomeKind.TIMED_OUT, "timed out after 52.0 s", 52_000)
    assert not outcome.suspect


def test_a_job_that_came_late_is_released_by_our_kill() -> None:
    """It had neither its own time nor a window: unspent, and counted as an interruption."""
    job, exit_ = make_job(id=RUNNING), make_exit(-9, BUSY, killed_for=KilledFor.TIME)
    outcome, _ = judge(job, exit_, WINDOW, CHANCES)

    assert outcome == policy.after_interruption(job, Interruption(12.0, WINDOW), CHANCES)
    assert outcome.interrupted


def test_the_jobs_own_timeout_is_read_from_the_page() -> None:
    """A job of ten seconds that had twelve has timed out, in whatever window."""
    status = RunnerStatus((RunningJob(RUNNING, ENDED - 12.0, 10.0),), hard_deadline=ENDED - 0.01)
    outcome, _ = judge(make_job(id=RUNNING), make_exit(exits.ERROR, status), WINDOW, CHANCES)

    assert outcome.kind is OutcomeKind.TIMED_OUT


def test_a_clock_that_ran_backwards_gives_no_negative_duration() -> None:
    """A page may be read by another clock than wrote it."""
    status = RunnerStatus((RunningJob(RUNNING, ENDED + 5, None),), hard_deadline=ENDED + 30)

    assert judge(make_job(id=RUNNING), make_exit(-9, status), WINDOW, CHANCES)[1] == 0


# --- a runner whose end nobody saw ------------------------------------------------------------------------

DISAPPEARED = "the runner disappeared (its dispatcher or host died)"


@pytest.mark.parametrize("held", [1, 5])
def test_a_page_left_behind_tells_who_was_running(held: int) -> None:
    """The running job is released and counted as such, its mates are released as they were."""
    job = make_job(id=RUNNING)

    assert judge_lost(job, held, BUSY, CHANCES) == (policy.after_lost_runner(job, DISAPPEARED, CHANCES), None)
    assert judge_lost(make_job(id=RUNNING + 1), held, BUSY, CHANCES) == (RELEASED, None)


def test_a_page_that_names_nobody_acquits_all() -> None:
    """The runner died between two jobs."""
    assert judge_lost(make_job(), 1, IDLE, CHANCES) == (RELEASED, None)


@pytest.mark.parametrize("held", [1, 2, 1000])
def test_without_a_page_the_number_held_decides(held: int) -> None:
    """On another host: a single job surely was running, of several any may have been, and is run alone."""
    job = make_job()
    alone = Outcome(OutcomeKind.RELEASED, keeps_attempt=True, suspect=True)

    outcome, _ = judge_lost(job, held, None, CHANCES)

    assert outcome == (policy.after_lost_runner(job, DISAPPEARED, CHANCES) if held == 1 else alone)


@pytest.mark.parametrize("held", [1, 2])
def test_a_crash_that_no_dispatcher_saw_is_the_jobs(held: int) -> None:
    """In a long lane, whose runners outlive their dispatcher, and of external workers."""
    job = make_job()

    assert judge_lost(job, held, None, CHANCES, "gone") == (
        policy.after_crash_among(held, job, "gone", CHANCES),
        None,
    )


# --- several at once --------------------------------------------------------------------------------------

SEVERAL = RunnerStatus(
    (RunningJob(RUNNING, ENDED - 12.0, 10.0), RunningJob(8, ENDED - 1.0, None)), hard_deadline=ENDED + 30
)


@pytest.mark.parametrize("killed_for", [None, KilledFor.MEMORY])
def test_a_crash_over_several_jobs_accuses_none_of_them(killed_for: KilledFor | None) -> None:
    """Any may be the culprit: each is run again alone, nothing is spent; the third crash of one is still to come."""
    exit_ = make_exit(-signal.SIGKILL, SEVERAL, killed_for=killed_for)
    outcome, duration_ms = judge(make_job(id=RUNNING, crashes=2), exit_, WINDOW, CHANCES)

    assert outcome == Outcome(OutcomeKind.RELEASED, keeps_attempt=True, suspect=True)
    assert duration_ms == 12_000
    assert judge_lost(make_job(id=RUNNING), 5, SEVERAL, CHANCES, "gone")[0] == outcome


def test_whoever_was_not_among_several_is_no_suspect() -> None:
    """It had not begun, or had ended."""
    assert judge(make_job(id=9), make_exit(-signal.SIGKILL, SEVERAL), WINDOW, CHANCES) == (RELEASED, None)


def test_a_timeout_over_several_jobs_judges_each_by_its_own_limit() -> None:
    """The one that was past it has timed out, the other comes again."""
    exit_ = make_exit(-signal.SIGKILL, SEVERAL, killed_for=KilledFor.TIME)
    kinds = [judge(make_job(id=each), exit_, WINDOW, CHANCES)[0].kind for each in (RUNNING, 8)]

    assert kinds == [OutcomeKind.TIMED_OUT, OutcomeKind.RELEASED]
