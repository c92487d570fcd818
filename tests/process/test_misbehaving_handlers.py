"""Misbehaving handlers: the cycle ends in time, and no other job is affected."""

import re
import time
from collections.abc import Sequence
from subprocess import CompletedProcess
from typing import Any

import pytest
from sqlalchemy import select

from mayfly.process import Timing
from mayfly.schema.metadata import runners
from tests.process.installation import DEADLINE_SECONDS, Installation

SOON = {"BACKOFF_BASE": "0.05"}
# A runner on a busy machine has started its jobs before this window ends. The dispatcher's guard comes much later.
WINDOW = {"WORKER_TIMEOUT": "5", "DISPATCH_TIMEOUT": "30"}
ONE_PLAN = Timing(min_window_seconds=60)  # the rest of a window is not used for another plan
A_MOMENT = '{"seconds": 0.6}'  # a job after it does not get the whole window, however slow the machine is
# Interrupted three times: the next interruption uses an attempt, even if the job started late.
FOURTH: dict[str, Any] = {"interruptions": 3}


def enqueue_noops(installation: Installation, lane: str, count: int = 2) -> list[int]:
    return installation.enqueue("noop", lane=lane, count=count)


def assert_done_first_time(installation: Installation, ids: Sequence[int]) -> None:
    """Done on the first attempt."""
    for job_id in ids:
        job = installation.job(job_id)
        assert (job.status, job.attempts, job.crashes, job.interruptions) == ("done", 1, 0, 0), job


def assert_in_time(started: float) -> None:
    """Before cron starts the next cycle, although the handlers here would run for an hour."""
    assert time.monotonic() - started < 60


def seconds_until_timeout(job: Any) -> float:
    """From the error of a job that has timed out."""
    found = re.match(r"timed out after ([\d.]+) s", job.last_error)
    assert found, job.last_error
    return float(found[1])


def assert_ends_with_call(job: Any, function: str, line: str) -> None:
    """The traceback in its error shows this line of its handler last."""
    *_, place, source = job.last_error.splitlines()
    assert place.endswith(function), job.last_error
    assert source.strip() == line


def assert_no_process_left(installation: Installation) -> None:
    assert [each.cmdline() for each in installation.processes()] == []


# --- time -------------------------------------------------------------------------------------------------


def test_an_interrupted_handler_has_failed(installation: Installation) -> None:
    """Unless it started late: then it is released, up to three times."""
    before = installation.enqueue("record_run", A_MOMENT, lane="late")
    late = installation.enqueue("sleep_an_hour", lane="late")[0]
    behind = enqueue_noops(installation, "late")
    first = installation.enqueue("record_run", A_MOMENT, lane="fourth", interruptions=1)[
        0
    ]  # its runner starts with this
    fourth = installation.enqueue("sleep_an_hour", lane="fourth", **FOURTH)[0]
    others = enqueue_noops(installation, "other")
    installation.timing = ONE_PLAN
    started = time.monotonic()

    cycle = installation.dispatch(**WINDOW)

    assert (cycle.returncode, cycle.stdout) == (2, "")
    assert "ended with code 2" in cycle.stderr
    assert_in_time(started)
    job = installation.job(late)
    assert (job.status, job.attempts, job.interruptions, job.last_error) == ("pending", 0, 1, None)
    job = installation.job(fourth)
    assert (job.status, job.attempts, job.interruptions) == ("pending", 1, 3)
    assert job.last_error.startswith("timed out after ")
    assert installation.job(first).status == "done"
    assert_done_first_time(installation, before + others)
    released = [installation.job(job_id) for job_id in behind]
    assert [(job.status, job.attempts, job.interruptions) for job in released] == [("pending", 0, 0)] * 2
    assert f"Time is up: interrupted job {late} (sleep_an_hour)" in installation.log
    assert "Exceeded" not in installation.log, "the dispatcher's guard had nothing to do"


def test_a_handler_that_had_the_whole_window_has_failed(embedded: Installation) -> None:
    """It uses an attempt, at the first interruption."""
    whole = embedded.enqueue("delay_interrupt", '{"seconds": 4}')[0]
    embedded.timing = ONE_PLAN._replace(hard_exit_seconds=20)

    cycle = embedded.dispatch(WORKER_TIMEOUT="4", DISPATCH_TIMEOUT="30")

    assert cycle.returncode == 2
    job = embedded.job(whole)
    assert (job.status, job.attempts, job.interruptions) == ("pending", 1, 0)
    assert seconds_until_timeout(job) >= 4
    assert f"Time is up: interrupted job {whole} (delay_interrupt)" in embedded.log


def test_only_the_handler_with_a_timeout_of_its_own_fails(installation: Installation) -> None:
    """Its runner continues with the next job, and exits with 0."""
    limited = installation.enqueue("limited")[0]
    behind = enqueue_noops(installation, "default")

    cycle = installation.dispatch()

    assert (cycle.returncode, cycle.stderr) == (0, "")
    job = installation.job(limited)
    assert (job.status, job.attempts, job.interruptions) == ("pending", 1, 0)
    assert job.last_error.startswith("timed out after 1 s")
    assert_ends_with_call(job, "in limited", "time.sleep(3600)")
    assert_done_first_time(installation, behind)
    assert installation.rows("SELECT COUNT(*) FROM mayfly_runners") == [(1,)]


def test_a_handler_that_ends_long_after_its_timeout_has_both_times(embedded: Installation) -> None:
    """Its traceback shows where it was at the timeout, not where its clean-up was interrupted again."""
    slow = embedded.enqueue("slow_cleanup", max_attempts=1)[0]
    embedded.timing = Timing(hard_exit_seconds=20)

    embedded.dispatch()

    job = embedded.job(slow)
    limit, _, ended = job.last_error.splitlines()[0].partition("; ended after ")
    assert (job.status, limit) == ("dead", "timed out after 1 s")
    assert 2 <= float(ended.removesuffix(" s")) < 20
    assert job.duration_ms >= 2000
    assert_ends_with_call(job, "in slow_cleanup", "time.sleep(3600)")


def test_a_handler_that_cannot_be_interrupted_is_ended(embedded: Installation) -> None:
    """By C code, if it ignores signals or holds the GIL; its traceback is logged, and the other jobs are released."""
    uninterruptible = embedded.enqueue("uninterruptible", lane="uninterruptible", **FOURTH)[0]
    behind_it = enqueue_noops(embedded, "uninterruptible")
    blocked = embedded.enqueue("blocked", lane="blocked", **FOURTH)[0]
    behind_blocked = enqueue_noops(embedded, "blocked")
    others = enqueue_noops(embedded, "other")
    embedded.timing = ONE_PLAN._replace(hard_exit_seconds=0.5, overdue_seconds=20)
    started = time.monotonic()

    cycle = embedded.dispatch(**WINDOW)

    assert cycle.returncode == 2
    assert_in_time(started)
    for job_id in (uninterruptible, blocked):
        job = embedded.job(job_id)
        assert (job.status, job.attempts, job.crashes) == ("pending", 1, 0)
        assert job.last_error.startswith("timed out after ")
    assert_ends_with_call(embedded.job(uninterruptible), "in uninterruptible", "time.sleep(3600)")
    assert_ends_with_call(embedded.job(blocked), "in blocked", "libc.pthread_mutex_lock(mutex)")
    for job_id in behind_it + behind_blocked:
        job = embedded.job(job_id)
        assert (job.status, job.attempts, job.crashes, job.suspect) == ("pending", 0, 0, 0)
    assert_done_first_time(embedded, others)
    assert "printed: Timeout (" in embedded.log
    assert "in uninterruptible" in embedded.log
    assert "in blocked" in embedded.log
    assert "Exceeded" not in embedded.log
    assert_no_process_left(embedded)


def test_the_dispatchers_guard_ends_the_remaining_runners(installation: Installation) -> None:
    """Even a stopped runner, which cannot end itself, is gone when the dispatcher exits."""
    stopped = installation.enqueue("stopped", lane="stopped", **FOURTH)[0]
    others = enqueue_noops(installation, "other")
    installation.timing = ONE_PLAN._replace(overdue_seconds=60, kill_seconds=0.1)
    started = time.monotonic()

    cycle = installation.dispatch(WORKER_TIMEOUT="5", DISPATCH_TIMEOUT="6")

    assert cycle.returncode == 2
    assert_in_time(started)
    job = installation.job(stopped)
    assert (job.status, job.attempts, job.crashes) == ("pending", 1, 0)
    assert job.last_error.startswith("timed out after ")
    assert_done_first_time(installation, others)
    assert "Exceeded 6s timeout: ending 1 worker" in installation.log
    assert_no_process_left(installation)


# --- processes --------------------------------------------------------------------------------------------


def test_no_child_of_a_handler_outlives_the_cycle(embedded: Installation) -> None:
    """Neither one that ignores SIGTERM nor one in another session."""
    parent = embedded.enqueue("parent", lane="parent")[0]
    stubborn = embedded.enqueue("stubborn_parent", lane="stubborn", **FOURTH)[0]
    daemonised = embedded.enqueue("daemonise", lane="daemon") + enqueue_noops(embedded, "daemon")
    embedded.timing = ONE_PLAN._replace(hard_exit_seconds=0.5)

    cycle = embedded.dispatch(**WINDOW)

    assert cycle.returncode == 2
    assert_no_process_left(embedded)
    for job_id in (parent, stubborn):
        job = embedded.job(job_id)
        assert (job.status, job.crashes) == ("pending", 0)
    assert embedded.job(stubborn).last_error.startswith("timed out after ")
    assert_done_first_time(embedded, daemonised)


def test_a_handler_may_use_processes(embedded: Installation) -> None:
    """SIGTERM ends a process that it has just forked: our signal handling is not inherited."""
    terminating = embedded.enqueue("terminating")[0]

    cycle = embedded.dispatch()

    assert (cycle.returncode, cycle.stderr) == (0, "")
    assert (embedded.job(terminating).status, embedded.job(terminating).result) == ("done", "[-15]")


# --- crashes ----------------------------------------------------------------------------------------------

CRASHES = {
    '{"how": "exit", "code": 0}': "the runner exited with code 0 in the middle of the job, peak memory ",
    '{"how": "segfault"}': "the runner was killed by signal 11 (SIGSEGV), peak memory ",
    '{"how": "kill"}': "the runner was killed by signal 9 (SIGKILL), peak memory ",
}


@pytest.mark.every_database
def test_a_crashing_handler_is_dead_after_three_crashes(installation: Installation) -> None:
    """Each in its own runner, with no attempt used; other jobs and lanes are not affected."""
    crashing = {
        installation.enqueue("crash", payload, lane=f"crash-{number}")[0]: reason
        for number, (payload, reason) in enumerate(CRASHES.items())
    }
    others = [
        job_id for number in range(len(CRASHES)) for job_id in enqueue_noops(installation, f"crash-{number}", count=4)
    ]
    others += enqueue_noops(installation, "other")

    cycles = cycles_until_settled(installation, **SOON)

    assert cycles[0].returncode == 1
    for job_id, reason in crashing.items():
        job = installation.job(job_id)
        assert (job.status, job.attempts, job.crashes, job.claims) == ("dead", 0, 3, 3)
        assert job.last_error.startswith(f"crashed 3 times, last: {reason}")
        assert alone(installation, job_id)
    assert_done_first_time(installation, others)
    assert_no_process_left(installation)


def test_a_crash_in_a_new_interpreter_is_recognised(embedded: Installation) -> None:
    """With SPAWN=exec too, the dispatcher gets status page, exit code and signal."""
    crashing = embedded.enqueue("crash", '{"how": "kill"}')[0]
    behind = enqueue_noops(embedded, "default")

    cycles = cycles_until_settled(embedded, SPAWN="exec", **SOON)

    assert cycles[0].returncode == 1
    job = embedded.job(crashing)
    assert (job.status, job.attempts, job.crashes) == ("dead", 0, 3)
    assert job.last_error.startswith("crashed 3 times, last: the runner was killed by signal 9 (SIGKILL)")
    assert_done_first_time(embedded, behind)


def test_a_handler_that_uses_too_much_memory_is_ended(embedded: Installation) -> None:
    """Above WORKER_MEMORY its runner is killed, and the error has the reason."""
    allocate = embedded.enqueue("allocate", lane="allocate")[0]
    behind, others = enqueue_noops(embedded, "allocate"), enqueue_noops(embedded, "other")

    cycles = cycles_until_settled(embedded, WORKER_MEMORY="300M", **SOON)

    assert cycles[0].returncode == 1
    job = embedded.job(allocate)
    assert (job.status, job.attempts, job.crashes) == ("dead", 0, 3)
    assert "last: its memory grew above WORKER_MEMORY and the runner was killed, peak memory " in job.last_error
    assert_done_first_time(embedded, behind + others)
    assert "above WORKER_MEMORY 300 MB: killing it" in embedded.log


def test_a_lane_may_use_more_memory_than_the_others(embedded: Installation) -> None:
    """LANES__NAME__WORKER_MEMORY overrides WORKER_MEMORY in its lane."""
    for lane in ("heavy", "light"):
        embedded.enqueue("allocate", lane=lane)

    embedded.dispatch(WORKER_MEMORY="250M", LANES__HEAVY__WORKER_MEMORY="400M", BACKOFF_BASE="60")

    killed = dict(re.findall(r"\[DISPATCHER\] .*Worker (\S+) uses .* above WORKER_MEMORY (\d+) MB", embedded.log))
    lanes = {each.worker_id: each.lane for each in embedded.rows("SELECT worker_id, lane FROM mayfly_runners")}
    assert {lanes[worker_id]: limit for worker_id, limit in killed.items()} == {"heavy": "400", "light": "250"}


def cycles_until_settled(installation: Installation, **settings: str) -> list[CompletedProcess[str]]:
    """One cycle after the other, as cron would start them, until all jobs are settled."""
    cycles: list[CompletedProcess[str]] = []
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not cycles or not installation.statuses().keys() <= {"done", "dead"}:
        assert time.monotonic() < deadline, installation.statuses()
        cycles.append(installation.dispatch(**settings))
    return cycles


def alone(installation: Installation, job_id: int) -> bool:
    """Whether the second and third runners of the job ran nothing else."""
    attempts = installation.rows("SELECT worker_id FROM mayfly_attempts WHERE job_id = :id ORDER BY id", id=job_id)
    runners = [
        installation.rows("SELECT * FROM mayfly_runners WHERE worker_id = :id", id=each.worker_id)[0]
        for each in attempts
    ]
    return [(each.jobs_done, each.jobs_failed, each.ending) for each in runners][1:] == [(0, 0, "crash")] * 2


# --- errors and output ------------------------------------------------------------------------------------


def test_any_exception_of_a_handler_fails_its_job(installation: Installation) -> None:
    """SystemExit, KeyboardInterrupt, text that no database accepts: the runner continues, and the error is stored."""
    reasons = {
        "system_exit": "SystemExit: 3",
        "keyboard_interrupt": "KeyboardInterrupt",
        "unprintable": r"ValueError: NUL \x00, an astronaut 🚀, a lone surrogate \ud800",
    }
    failing = {installation.enqueue(type_name)[0]: reason for type_name, reason in reasons.items()}
    behind = enqueue_noops(installation, "default")

    cycle = installation.dispatch()

    assert (cycle.returncode, cycle.stderr) == (0, "")
    for job_id, reason in failing.items():
        job = installation.job(job_id)
        assert (job.status, job.attempts) == ("pending", 1)
        assert job.last_error.partition("\n")[0] == reason
    assert_done_first_time(installation, behind)


def test_an_error_with_a_slow_str_is_stored(embedded: Installation) -> None:
    """The handler has ended when its error is formatted: the guard must not interrupt the runner itself."""
    slow = embedded.enqueue("slow_error")[0]
    behind = enqueue_noops(embedded, "default")

    cycle = embedded.dispatch()

    assert (cycle.returncode, cycle.stderr) == (0, "")
    job = embedded.job(slow)
    assert (job.status, job.attempts) == ("pending", 1)
    assert job.last_error.startswith("SlowError: at last\n")
    assert_done_first_time(embedded, behind)


def test_an_error_in_a_payload_model_fails_its_job(embedded: Installation) -> None:
    """A model that hangs times out, one that raises fails; the runner survives both."""
    hanging = embedded.enqueue("slow_model", '{"how": "sleep"}')[0]
    breaking = embedded.enqueue("slow_model", '{"how": "raise"}')[0]
    behind = enqueue_noops(embedded, "default")

    cycle = embedded.dispatch(MAX_WORKERS="1")

    assert (cycle.returncode, cycle.stderr) == (0, "")
    assert seconds_until_timeout(embedded.job(hanging)) >= 1
    assert embedded.job(breaking).last_error.startswith("RuntimeError: the model itself is broken")
    for job_id in (hanging, breaking):
        job = embedded.job(job_id)
        assert (job.status, job.attempts) == ("pending", 1)
    assert_done_first_time(embedded, behind)


def test_output_of_a_handler_is_bounded(embedded: Installation) -> None:
    """Of ten megabytes a few pages are kept and the rest is counted; no process waits for a full pipe."""
    print_much = embedded.enqueue("print_much") + enqueue_noops(embedded, "default")

    cycle = embedded.dispatch()

    assert (cycle.returncode, cycle.stderr) == (0, "")
    assert_done_first_time(embedded, print_much)
    assert "more bytes, which were dropped" in embedded.log
    assert 64 << 10 < len(embedded.log) < 128 << 10


def test_a_handler_that_prints_endlessly_is_ended_in_time(embedded: Installation) -> None:
    """A pipe that is never empty does not stop the dispatcher from its other work."""
    print_endlessly = embedded.enqueue("print_endlessly", lane="print_endlessly")[0]
    [other] = embedded.enqueue("limited", lane="other")
    embedded.timing = ONE_PLAN
    started = time.monotonic()

    cycle = embedded.dispatch(**WINDOW)

    assert cycle.returncode == 2
    assert_in_time(started)
    assert embedded.job(print_endlessly).status == "pending"
    assert seconds_until_timeout(embedded.job(other)) >= 1
    endings = {row.lane: row.ending for row in embedded.rows(select(runners))}
    assert endings == {"print_endlessly": "timeout", "other": "ok"}
    assert len(embedded.log) < 256 << 10
    assert_no_process_left(embedded)


# --- modules ----------------------------------------------------------------------------------------------


def test_a_broken_module_kills_no_job(installation: Installation) -> None:
    """Jobs of its types are released and the runner exits with 1; others are done."""
    (installation.home / "broken_deploy.py").write_text("raise RuntimeError('half a deploy')\n")
    unknown = installation.enqueue("only_in_there", lane="broken", count=2)
    known, others = enqueue_noops(installation, "broken"), enqueue_noops(installation, "other")

    cycle = installation.dispatch(HANDLERS="tests.basic_handlers,broken_deploy")

    assert cycle.returncode == 1
    for job_id in unknown:
        job = installation.job(job_id)
        assert (job.status, job.attempts, job.last_error) == ("pending", 0, None)
    assert_done_first_time(installation, known + others)
    assert "Handler module broken_deploy cannot be imported: RuntimeError: half a deploy" in installation.log
    assert installation.rows("SELECT COUNT(*) FROM mayfly_runners WHERE lane = 'broken'") == [(1,)]


def test_a_module_that_crashes_the_process_kills_no_job(installation: Installation) -> None:
    """A crash before the first claim is counted for no job, and is not repeated within the cycle."""
    (installation.home / "deadly_import.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    waiting = enqueue_noops(installation, "default")

    cycle = installation.dispatch(HANDLERS="tests.basic_handlers,deadly_import")

    assert cycle.returncode == 1
    for job_id in waiting:
        job = installation.job(job_id)
        assert (job.status, job.attempts, job.crashes, job.suspect) == ("pending", 0, 0, 0)
    assert installation.rows("SELECT COUNT(*) FROM mayfly_runners") == [(1,)]


def test_every_death_has_the_same_phrase(embedded: Installation) -> None:
    """In the log, whether a runner, its guard or the dispatcher settles the job."""
    embedded.timing = ONE_PLAN
    gave_up = embedded.enqueue("give_up")[0]
    crashed = embedded.enqueue("die_always", lane="crash", crashes=2)[0]
    interrupted = embedded.enqueue("sleep_an_hour", lane="guard", max_attempts=1, **FOURTH)[0]

    embedded.dispatch(**WINDOW)

    assert embedded.statuses() == {"dead": 3}
    assert f"Job {gave_up} (give_up) attempt 1/5: dead: no such customer" in embedded.log
    assert f"Job {crashed} (die_always) attempt 1/5: dead: crashed 3 times, last: " in embedded.log
    assert f"Job {interrupted} (sleep_an_hour) attempt 1/1: dead: timed out after " in embedded.log
