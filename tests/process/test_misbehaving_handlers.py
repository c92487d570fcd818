"""Handlers that misbehave: the cycle ends in time, the right job pays, and nobody else does."""

import re
import time
from collections.abc import Sequence
from subprocess import CompletedProcess
from typing import Any

import pytest
from sqlalchemy import select

from mayfly.process.timing import Timing
from mayfly.schema.metadata import runners
from tests.process.installation import DEADLINE_SECONDS, Installation

SOON = {"BACKOFF_BASE": "0.05"}
# A runner of a busy machine has begun its jobs when this window ends. The dispatcher's guard is far behind it.
WINDOW = {"WORKER_TIMEOUT": "5", "DISPATCH_TIMEOUT": "30"}
ONE_PLAN = Timing(min_window_seconds=60)  # what is left of a window is not used for another plan
A_MOMENT = '{"seconds": 0.6}'  # who comes after it has not the whole window, however slow the machine is
# Came late three times: an interruption costs an attempt, whatever window it had.
FOURTH: dict[str, Any] = {"interruptions": 3}


def mates(installation: Installation, lane: str, count: int = 2) -> list[int]:
    return installation.enqueue("noop", lane=lane, count=count)


def assert_unharmed(installation: Installation, ids: Sequence[int]) -> None:
    """Done at the first attempt."""
    for job_id in ids:
        job = installation.job(job_id)
        assert (job.status, job.attempts, job.crashes, job.interruptions) == ("done", 1, 0, 0), job


def assert_in_time(started: float) -> None:
    """Before cron starts the next one, though the handlers here would run for an hour."""
    assert time.monotonic() - started < 60


def seconds_until_timeout(job: Any) -> float:
    """From the reason of a job that has timed out."""
    found = re.match(r"timed out after ([\d.]+) s", job.last_error)
    assert found, job.last_error
    return float(found[1])


def assert_no_process_left(installation: Installation) -> None:
    assert [each.cmdline() for each in installation.processes()] == []


# --- time -------------------------------------------------------------------------------------------------


def test_a_handler_that_sleeps_through_the_guard_has_failed(installation: Installation) -> None:
    """Unless it came late: then it comes again, three times."""
    before = installation.enqueue("ledger", A_MOMENT, lane="late")
    late = installation.enqueue("oversleep", lane="late")[0]
    behind = mates(installation, "late")
    first = installation.enqueue("ledger", A_MOMENT, lane="fourth", interruptions=1)[0]  # its runner starts with this
    fourth = installation.enqueue("oversleep", lane="fourth", **FOURTH)[0]
    others = mates(installation, "other")
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
    assert_unharmed(installation, before + others)
    released = [installation.job(job_id) for job_id in behind]
    assert [(job.status, job.attempts, job.interruptions) for job in released] == [("pending", 0, 0)] * 2
    assert f"Time is up: interrupted job {late} (oversleep)" in installation.log
    assert "Exceeded" not in installation.log, "the dispatcher's guard had nothing to do"


def test_a_handler_that_had_the_whole_window_has_failed(embedded: Installation) -> None:
    """An attempt is spent, at the first time."""
    whole = embedded.enqueue("reluctant", '{"seconds": 4}')[0]
    embedded.timing = ONE_PLAN._replace(hard_exit_seconds=20)

    cycle = embedded.dispatch(WORKER_TIMEOUT="4", DISPATCH_TIMEOUT="30")

    assert cycle.returncode == 2
    job = embedded.job(whole)
    assert (job.status, job.attempts, job.interruptions) == ("pending", 1, 0)
    assert seconds_until_timeout(job) >= 4
    assert f"Time is up: interrupted job {whole} (reluctant)" in embedded.log


def test_a_handler_with_a_limit_of_its_own_fails_alone(installation: Installation) -> None:
    """Its runner goes on with the next job, and ends with 0: a job's failure is not the process's."""
    limited = installation.enqueue("limited")[0]
    behind = mates(installation, "default")

    cycle = installation.dispatch()

    assert (cycle.returncode, cycle.stderr) == (0, "")
    job = installation.job(limited)
    assert (job.status, job.attempts, job.interruptions) == ("pending", 1, 0)
    assert seconds_until_timeout(job) >= 1
    assert_unharmed(installation, behind)
    assert installation.rows("SELECT COUNT(*) FROM mayfly_runners") == [(1,)]


def test_a_handler_that_cannot_be_interrupted_is_ended(embedded: Installation) -> None:
    """Deaf to signals, or blocked in C with the GIL: it is ended from C, its traceback is kept, its mates go back."""
    deaf, deafs_mates = embedded.enqueue("deaf", lane="deaf", **FOURTH)[0], mates(embedded, "deaf")
    blocked = embedded.enqueue("blocked", lane="blocked", **FOURTH)[0]
    blockeds_mates = mates(embedded, "blocked")
    others = mates(embedded, "other")
    embedded.timing = ONE_PLAN._replace(hard_exit_seconds=0.5, overdue_seconds=20)
    started = time.monotonic()

    cycle = embedded.dispatch(**WINDOW)

    assert cycle.returncode == 2
    assert_in_time(started)
    for job_id in (deaf, blocked):
        job = embedded.job(job_id)
        assert (job.status, job.attempts, job.crashes) == ("pending", 1, 0)
        assert job.last_error.startswith("timed out after ")
    for job_id in deafs_mates + blockeds_mates:
        job = embedded.job(job_id)
        assert (job.status, job.attempts, job.crashes, job.suspect) == ("pending", 0, 0, 0)
    assert_unharmed(embedded, others)
    assert "printed: Timeout (" in embedded.log
    assert "in deaf" in embedded.log
    assert "in blocked" in embedded.log
    assert "Exceeded" not in embedded.log
    assert_no_process_left(embedded)


def test_the_dispatchers_guard_ends_what_is_left(installation: Installation) -> None:
    """Even a runner that was stopped, and so cannot end itself, is gone when the dispatcher is."""
    stopped = installation.enqueue("stopped", lane="stopped", **FOURTH)[0]
    others = mates(installation, "other")
    installation.timing = ONE_PLAN._replace(overdue_seconds=60, kill_seconds=0.1)
    started = time.monotonic()

    cycle = installation.dispatch(WORKER_TIMEOUT="5", DISPATCH_TIMEOUT="6")

    assert cycle.returncode == 2
    assert_in_time(started)
    job = installation.job(stopped)
    assert (job.status, job.attempts, job.crashes) == ("pending", 1, 0)
    assert job.last_error.startswith("timed out after ")
    assert_unharmed(installation, others)
    assert "Exceeded 6s timeout: ending 1 worker" in installation.log
    assert_no_process_left(installation)


# --- processes --------------------------------------------------------------------------------------------


def test_no_child_of_a_handler_is_left(embedded: Installation) -> None:
    """Neither one that ignores SIGTERM nor one that left for a session of its own outlives the cycle."""
    parent = embedded.enqueue("parent", lane="parent")[0]
    stubborn = embedded.enqueue("stubborn_parent", lane="stubborn", **FOURTH)[0]
    daemonised = embedded.enqueue("daemonise", lane="daemon") + mates(embedded, "daemon")
    embedded.timing = ONE_PLAN._replace(hard_exit_seconds=0.5)

    cycle = embedded.dispatch(**WINDOW)

    assert cycle.returncode == 2
    assert_no_process_left(embedded)
    for job_id in (parent, stubborn):
        job = embedded.job(job_id)
        assert (job.status, job.crashes) == ("pending", 0)
    assert embedded.job(stubborn).last_error.startswith("timed out after ")
    assert_unharmed(embedded, daemonised)


def test_a_handler_may_use_processes(embedded: Installation) -> None:
    """A SIGTERM for a process it has just forked ends that one: it neither inherits our patience nor loses it."""
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
def test_a_handler_that_ends_its_process_is_dead_after_three_times(installation: Installation) -> None:
    """Each time in a runner of its own, without an attempt spent; its mates lose nothing, nor do other lanes."""
    crashing = {
        installation.enqueue("crash", payload, lane=f"crash-{number}")[0]: reason
        for number, (payload, reason) in enumerate(CRASHES.items())
    }
    others = [job_id for number in range(len(CRASHES)) for job_id in mates(installation, f"crash-{number}", count=4)]
    others += mates(installation, "other")

    cycles = cycles_until_settled(installation, **SOON)

    assert cycles[0].returncode == 1
    for job_id, reason in crashing.items():
        job = installation.job(job_id)
        assert (job.status, job.attempts, job.crashes, job.claims) == ("dead", 0, 3, 3)
        assert job.last_error.startswith(f"crashed 3 times, at last: {reason}")
        assert alone(installation, job_id)
    assert_unharmed(installation, others)
    assert_no_process_left(installation)


def test_a_crash_in_an_interpreter_of_its_own_is_known_too(embedded: Installation) -> None:
    """With SPAWN=exec the page, the exit code and the signal reach the dispatcher all the same."""
    crashing = embedded.enqueue("crash", '{"how": "kill"}')[0]
    behind = mates(embedded, "default")

    cycles = cycles_until_settled(embedded, SPAWN="exec", **SOON)

    assert cycles[0].returncode == 1
    job = embedded.job(crashing)
    assert (job.status, job.attempts, job.crashes) == ("dead", 0, 3)
    assert job.last_error.startswith("crashed 3 times, at last: the runner was killed by signal 9 (SIGKILL)")
    assert_unharmed(embedded, behind)


def test_a_handler_that_takes_all_memory_is_ended(embedded: Installation) -> None:
    """Above WORKER_MEMORY its runner is killed, and the reason says so."""
    glutton = embedded.enqueue("glutton", lane="glutton")[0]
    behind, others = mates(embedded, "glutton"), mates(embedded, "other")

    cycles = cycles_until_settled(embedded, WORKER_MEMORY="300M", **SOON)

    assert cycles[0].returncode == 1
    job = embedded.job(glutton)
    assert (job.status, job.attempts, job.crashes) == ("dead", 0, 3)
    assert "at last: its memory grew above WORKER_MEMORY and the runner was killed, peak memory " in job.last_error
    assert_unharmed(embedded, behind + others)
    assert "above WORKER_MEMORY 300 MB: killing it" in embedded.log


def cycles_until_settled(installation: Installation, **settings: str) -> list[CompletedProcess[str]]:
    """One minute after the other, as cron would, until nothing is left to do."""
    cycles: list[CompletedProcess[str]] = []
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not cycles or not installation.statuses().keys() <= {"done", "dead"}:
        assert time.monotonic() < deadline, installation.statuses()
        cycles.append(installation.dispatch(**settings))
    return cycles


def alone(installation: Installation, job_id: int) -> bool:
    """Whether the job's second and third runners ran nothing else."""
    attempts = installation.rows("SELECT worker_id FROM mayfly_attempts WHERE job_id = :id ORDER BY id", id=job_id)
    runners = [
        installation.rows("SELECT * FROM mayfly_runners WHERE worker_id = :id", id=each.worker_id)[0]
        for each in attempts
    ]
    return [(each.jobs_done, each.jobs_failed, each.ending) for each in runners][1:] == [(0, 0, "crash")] * 2


# --- what is raised and printed ---------------------------------------------------------------------------


def test_whatever_a_handler_raises_is_its_jobs_failure(installation: Installation) -> None:
    """SystemExit, KeyboardInterrupt, a text that no database takes: the runner goes on, and the reason is kept."""
    reasons = {
        "quitter": "SystemExit: 3",
        "interrupting": "KeyboardInterrupt",
        "unprintable": r"ValueError: NUL \x00, an astronaut 🚀, a lone surrogate \ud800",
    }
    failing = {installation.enqueue(type_name)[0]: reason for type_name, reason in reasons.items()}
    behind = mates(installation, "default")

    cycle = installation.dispatch()

    assert (cycle.returncode, cycle.stderr) == (0, "")
    for job_id, reason in failing.items():
        job = installation.job(job_id)
        assert (job.status, job.attempts) == ("pending", 1)
        assert job.last_error.partition("\n")[0] == reason
    assert_unharmed(installation, behind)


def test_an_error_that_is_slow_to_tell_is_told(embedded: Installation) -> None:
    """The handler has ended when its error is asked for its text: no alarm of the guard may hit the runner itself."""
    slow = embedded.enqueue("slow_to_tell")[0]
    behind = mates(embedded, "default")

    cycle = embedded.dispatch()

    assert (cycle.returncode, cycle.stderr) == (0, "")
    job = embedded.job(slow)
    assert (job.status, job.attempts) == ("pending", 1)
    assert job.last_error.startswith("SlowToTell: at last\n")
    assert_unharmed(embedded, behind)


def test_a_payloads_model_is_foreign_code_too(embedded: Installation) -> None:
    """One that hangs is timed out, one that breaks has failed; neither takes its runner along."""
    hanging = embedded.enqueue("sleepy", '{"how": "sleep"}')[0]
    breaking = embedded.enqueue("sleepy", '{"how": "raise"}')[0]
    behind = mates(embedded, "default")

    cycle = embedded.dispatch(MAX_WORKERS="1")

    assert (cycle.returncode, cycle.stderr) == (0, "")
    assert seconds_until_timeout(embedded.job(hanging)) >= 1
    assert embedded.job(breaking).last_error.startswith("RuntimeError: the model itself is broken")
    for job_id in (hanging, breaking):
        job = embedded.job(job_id)
        assert (job.status, job.attempts) == ("pending", 1)
    assert_unharmed(embedded, behind)


def test_what_a_handler_prints_is_bounded(embedded: Installation) -> None:
    """Ten megabytes are kept to a few pages, the rest is counted; nobody waits for a full pipe."""
    chatter = embedded.enqueue("chatter") + mates(embedded, "default")

    cycle = embedded.dispatch()

    assert (cycle.returncode, cycle.stderr) == (0, "")
    assert_unharmed(embedded, chatter)
    assert "more bytes, which were dropped" in embedded.log
    assert 64 << 10 < len(embedded.log) < 128 << 10


def test_a_handler_that_prints_for_ever_is_ended_in_time(embedded: Installation) -> None:
    """A pipe that is never empty does not keep the dispatcher from its other work."""
    torrent = embedded.enqueue("torrent", lane="torrent")[0]
    [other] = embedded.enqueue("limited", lane="other")
    embedded.timing = ONE_PLAN
    started = time.monotonic()

    cycle = embedded.dispatch(**WINDOW)

    assert cycle.returncode == 2
    assert_in_time(started)
    assert embedded.job(torrent).status == "pending"
    assert seconds_until_timeout(embedded.job(other)) >= 1
    endings = {row.lane: row.ending for row in embedded.rows(select(runners))}
    assert endings == {"torrent": "timeout", "other": "ok"}
    assert len(embedded.log) < 256 << 10
    assert_no_process_left(embedded)


# --- modules ----------------------------------------------------------------------------------------------


def test_a_broken_module_kills_no_job(installation: Installation) -> None:
    """While a module cannot be imported, its types are given back and the runner ends with 1; others are done."""
    (installation.home / "broken_deploy.py").write_text("raise RuntimeError('half a deploy')\n")
    unknown = installation.enqueue("only_in_there", lane="broken", count=2)
    known, others = mates(installation, "broken"), mates(installation, "other")

    cycle = installation.dispatch(HANDLERS="tests.basic_handlers,broken_deploy")

    assert cycle.returncode == 1
    for job_id in unknown:
        job = installation.job(job_id)
        assert (job.status, job.attempts, job.last_error) == ("pending", 0, None)
    assert_unharmed(installation, known + others)
    assert "Handler module broken_deploy cannot be imported: RuntimeError: half a deploy" in installation.log
    assert installation.rows("SELECT COUNT(*) FROM mayfly_runners WHERE lane = 'broken'") == [(1,)]


def test_a_module_that_ends_the_process_kills_no_job(installation: Installation) -> None:
    """A crash before anything was claimed accuses nobody, and is not tried again within the minute."""
    (installation.home / "deadly_import.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    waiting = mates(installation, "default")

    cycle = installation.dispatch(HANDLERS="tests.basic_handlers,deadly_import")

    assert cycle.returncode == 1
    for job_id in waiting:
        job = installation.job(job_id)
        assert (job.status, job.attempts, job.crashes, job.suspect) == ("pending", 0, 0, 0)
    assert installation.rows("SELECT COUNT(*) FROM mayfly_runners") == [(1,)]
