"""Concurrent jobs in one runner: limits, timeouts, crashes and fencing hold for tasks and threads too."""

import os
import re
import signal
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
from sqlalchemy import select

from mayfly import json_text
from mayfly.process import Timing
from mayfly.process.status_page import read_status_page
from mayfly.schema.metadata import runners
from tests.process.installation import Installation, handler_modules, most_at_once, wait_until

HANDLERS = {"HANDLERS": handler_modules("concurrent"), "MAX_WORKERS": "1"}
SOON = {"BACKOFF_BASE": "0.05"}
GATED = '{"gate": "go", "seconds": 0}'  # runs until `open_gate`
LONG_HARD_EXIT = Timing(hard_exit_seconds=20)  # for handlers that end eventually when they are interrupted
SHORT_HARD_EXIT = Timing(hard_exit_seconds=1, settle_seconds=10, overdue_seconds=20)  # for those that do not
KINDS = pytest.mark.parametrize("kind", ["async", "thread"])
# Both kinds on SQLite, and one kind on each server.
KINDS_AND_DATABASES = pytest.mark.parametrize(
    ("engine_name", "kind"),
    [("sqlite", "async"), ("sqlite", "thread"), ("mariadb", "thread"), ("postgres", "async")],
    indirect=["engine_name"],
)
SERVERS = pytest.mark.parametrize("engine_name", ["mariadb", "postgres"], indirect=True)


@pytest.fixture
def single(embedded: Installation) -> Installation:
    """On SQLite, with one runner at a time."""
    embedded.settings = HANDLERS
    return embedded


@pytest.fixture
def installed(migrated_url: str, tmp_path: Path) -> Iterator[Installation]:
    """The same on every database."""
    made = Installation(tmp_path, migrated_url, HANDLERS)
    made.execute("CREATE TABLE test_rows (job_id BIGINT)")
    yield made
    made.end()


def spans(installation: Installation) -> list[tuple[int, int, float, float]]:
    """Job, process, begin and end of each finished run."""
    path = installation.home / "spans"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(int(job), int(pid), float(began), float(ended)) for job, pid, began, ended in map(str.split, lines)]


def overlap(found: list[tuple[int, int, float, float]]) -> int:
    return most_at_once((began, ended) for _job, _pid, began, ended in found)  # type: ignore[misc]


def wait_until_running(installation: Installation, count: int) -> None:
    """By the status pages of the runners."""

    def running() -> int:
        pages = (read_status_page(path) for path in (installation.home / "state").rglob("*.page"))
        return sum(len(page.running) for page in pages if page is not None)

    wait_until(lambda: running() == count, f"{count} jobs run")


def facts(installation: Installation, ids: list[int]) -> list[tuple[Any, ...]]:
    jobs = [installation.job(job_id) for job_id in ids]
    return [(job.status, job.attempts, job.crashes, job.interruptions) for job in jobs]


def seconds_until_timeout(job: Any) -> float:
    """From its error."""
    found = re.match(r"timed out after ([\d.]+) s", job.last_error)
    assert found, job.last_error
    return float(found[1])


DONE_FIRST_TIME = ("done", 1, 0, 0)

# --- how many ---------------------------------------------------------------------------------------------


@KINDS
def test_waiting_jobs_run_concurrently(single: Installation, kind: str) -> None:
    """As many as the runner has slots for, although its first claim took five; all in one process."""
    ids = single.enqueue(f"wait_{kind}", '{"together": 20, "seconds": 0.3}', count=50)

    cycle = single.dispatch()

    assert (cycle.returncode, cycle.stderr) == (0, "")
    found = spans(single)
    assert sorted(job for job, *_ in found) == ids
    assert len({pid for _job, pid, *_ in found}) == 1
    assert 20 <= overlap(found) <= (50 if kind == "async" else 20)
    assert facts(single, ids) == [DONE_FIRST_TIME] * 50
    assert "Completed 50 jobs" in single.log


@KINDS
def test_the_concurrency_of_a_lane_is_not_exceeded(single: Installation, kind: str) -> None:
    """No more jobs are claimed than run: the others stay free for other runners."""
    single.enqueue(f"wait_{kind}", '{"together": 7, "seconds": 0.1}', count=30)
    most = 0
    cycle = single.start("dispatcher", LANES__DEFAULT__CONCURRENCY="7")
    while cycle.poll() is None:
        most = max(most, single.rows("SELECT COUNT(*) FROM mayfly_jobs WHERE status = 'processing'")[0][0])

    assert (cycle.returncode, single.statuses()) == (0, {"done": 30})
    assert overlap(spans(single)) == 7
    assert most <= 7


def test_the_threads_of_a_type_are_not_exceeded(single: Installation) -> None:
    """Beside other types of the lane with more slots."""
    few = single.enqueue("wait_few", '{"together": 3, "seconds": 0.1}', count=12)
    many = single.enqueue("wait_async", '{"together": 4, "seconds": 0.3}', count=12)

    cycle = single.dispatch()

    assert (cycle.returncode, single.statuses()) == (0, {"done": 24})
    found = spans(single)
    assert overlap([span for span in found if span[0] in few]) == 3
    assert overlap([span for span in found if span[0] in many]) > 3


def test_plain_jobs_have_the_runner_to_themselves(single: Installation) -> None:
    """In a mixed claim they run last, one after the other, while nothing else runs."""
    together = '{"group": "both", "together": 2, "seconds": 0.1}'
    payloads = {"plain": '{"seconds": 0.1}', "async": together, "thread": together}
    mixed = [single.enqueue(f"wait_{kind}", payloads[kind])[0] for kind in ("plain", "async", "plain", "thread")]

    cycle = single.dispatch()

    assert (cycle.returncode, single.statuses()) == (0, {"done": 4})
    found = spans(single)
    assert [job for job, *_ in found[2:]] == [mixed[0], mixed[2]]
    assert overlap(found) == 2
    assert overlap(found[1:]) == 1


@pytest.mark.parametrize("how", ["exec", "by hand"])
@KINDS
def test_jobs_run_concurrently_however_the_runner_was_started(single: Installation, kind: str, how: str) -> None:
    """In a new interpreter, or by hand."""
    single.enqueue(f"wait_{kind}", '{"together": 6}', count=12)
    ran = single.run("runner") if how == "by hand" else single.dispatch(SPAWN="exec")

    assert (ran.returncode, ran.stderr, single.statuses()) == (0, "", {"done": 12})
    assert overlap(spans(single)) > 5


@KINDS
def test_an_outcome_is_committed_before_its_slot_is_used_again(single: Installation, kind: str) -> None:
    """With one slot, at most one finished job is not settled yet."""
    single.enqueue(f"ack_each_{kind}", '{"seconds": 0.1}', count=5)
    cycle = single.start("dispatcher", CONCURRENCY="1")
    while cycle.poll() is None:
        ended = len(spans(single))
        assert single.statuses().get("done", 0) >= ended - 1

    assert (cycle.returncode, single.statuses()) == (0, {"done": 5})


# --- timeouts ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("type_name", ["limited_async", "limited_thread", "stubborn_async", "stubborn_thread"])
def test_a_job_past_its_timeout_is_interrupted(single: Installation, type_name: str) -> None:
    """Other jobs and the runner continue; a job that swallows the first interruption gets another."""
    kind = type_name.partition("_")[2]
    late = single.enqueue(type_name)[0]
    others = single.enqueue(f"wait_{kind}", '{"seconds": 2}', count=3)
    after = single.enqueue(f"wait_{kind}", count=30)
    single.timing = LONG_HARD_EXIT

    cycle = single.dispatch()

    assert (cycle.returncode, cycle.stderr) == (0, "")
    job = single.job(late)
    assert (job.status, job.attempts, job.crashes, job.interruptions) == ("pending", 1, 0, 0)
    message, *stack = job.last_error.splitlines()
    assert message.startswith("timed out after 1 s")
    assert ("; ended after " in message) or "limited" in type_name
    assert f"in {type_name}" in stack[0]
    assert (".sleep(AN_HOUR)" if kind == "async" else "time.sleep(0.01)") in job.last_error
    assert facts(single, others + after) == [DONE_FIRST_TIME] * 33
    assert len({pid for _job, pid, *_ in spans(single)}) == 1


@KINDS
def test_a_job_that_cannot_be_interrupted_is_abandoned(single: Installation, kind: str) -> None:
    """It has timed out; its runner claims no more jobs and exits with 2, and another one runs the rest."""
    single.timing = SHORT_HARD_EXIT
    blocked = single.enqueue(f"blocked_{kind}", max_attempts=1)[0]
    others = single.enqueue("wait_thread", GATED, count=3)
    wait_for_it = single.enqueue("noop", lane="other")

    cycle = single.start("dispatcher", CONCURRENCY="4")
    wait_until(lambda: single.job(blocked).status == "dead", "it is abandoned")
    settled = single.job(blocked)
    later = single.enqueue(f"wait_{kind}", count=5)
    single.open_gate()
    _, stderr = cycle.communicate(timeout=60)

    assert (settled.attempts, settled.crashes) == (1, 0)
    limit, _, ended = settled.last_error.splitlines()[0].partition("; ended after ")
    assert limit == "timed out after 1 s"
    assert 1 + SHORT_HARD_EXIT.hard_exit_seconds <= float(ended.removesuffix(" s")) < 20
    assert settled.last_error.splitlines()[1].endswith(f"in blocked_{kind}")
    assert settled.last_error.splitlines()[2].strip() == "time.sleep(AN_HOUR)"
    assert (cycle.returncode, "ended with code 2" in stderr) == (2, True)
    assert facts(single, others + later + wait_for_it) == [DONE_FIRST_TIME] * 9
    pids = {job: pid for job, pid, *_ in spans(single)}
    assert {pids[job] for job in others}.isdisjoint(pids[job] for job in later), "the runner was replaced"
    assert f"blocked_{kind}" in single.log.partition("printed:")[2], "its stack is logged"
    assert single.processes() == []


@pytest.mark.parametrize("how", ["exec", "by hand"])
@pytest.mark.parametrize(("type_name", "code"), [("blocked_thread", 2), ("delegated_async", 0)])
def test_a_runner_does_not_wait_for_a_blocked_thread(
    single: Installation, type_name: str, code: int, how: str
) -> None:
    """Not even where the interpreter would join its threads: it would not end before the test's deadline."""
    single.enqueue(type_name, max_attempts=1)
    ran = single.run("runner") if how == "by hand" else single.dispatch(SPAWN="exec")

    assert ran.returncode == code
    assert single.statuses() == {"dead": 1}


def test_only_the_job_that_blocks_the_loop_times_out(single: Installation) -> None:
    """The others are released without using an attempt, even past their own timeout, and run in the next runner."""
    blocked = single.enqueue("blocked_async", max_attempts=1)[0]
    limited = single.enqueue("brief_async", max_attempts=1, count=20)
    waiting = single.enqueue("wait_async", '{"seconds": 1}', count=3)
    single.timing = SHORT_HARD_EXIT

    cycle = single.dispatch(BATCH_SIZE="30")

    assert cycle.returncode == 2
    assert facts(single, [blocked]) == [("dead", 1, 0, 0)]
    assert single.job(blocked).last_error.startswith("timed out after ")
    assert facts(single, limited + waiting) == [DONE_FIRST_TIME] * 23


@KINDS
def test_a_result_returned_after_the_interruption_counts(single: Installation, kind: str) -> None:
    """As with plain functions: a handler that returns is done."""
    job_id = single.enqueue(f"slow_answer_{kind}")[0]

    single.dispatch()

    assert (single.job(job_id).status, json_text.decode(single.job(job_id).result)) == ("done", "just in time")


# --- the guard, and stopping ------------------------------------------------------------------------------


@KINDS
def test_the_guard_interrupts_all_running_jobs(single: Installation, kind: str) -> None:
    """Those that had the whole window have timed out, later ones run again, and no claimed job is kept."""
    single.timing = LONG_HARD_EXIT._replace(min_window_seconds=60)  # no second plan
    # They get the whole window even if they start up to three seconds late.
    early = single.enqueue(f"cleanup_{kind}", '{"cleanup_seconds": 3}', count=3)
    cycle = single.start("dispatcher", WORKER_TIMEOUT="5", DISPATCH_TIMEOUT="30", CONCURRENCY="5")
    wait_until_running(single, 3)
    [runner] = single.rows(select(runners))
    wait_until(
        lambda: single.now() > runner.planned_at + timedelta(seconds=1), "no job gets the whole window any more"
    )
    late = single.enqueue(f"endless_{kind}", count=2)
    wait_until_running(single, 5)
    single.enqueue("noop", count=3)
    cycle.communicate(timeout=60)

    assert cycle.returncode == 2
    assert facts(single, early) == [("pending", 1, 0, 0)] * 3
    assert facts(single, late) == [("pending", 0, 0, 1)] * 2
    assert "Time is up: interrupted job" in single.log


def test_the_guard_ends_jobs_that_cannot_be_interrupted(single: Installation) -> None:
    """Before the dispatcher has to."""
    single.timing = SHORT_HARD_EXIT._replace(min_window_seconds=60)  # no second plan
    stuck = single.enqueue("stuck_thread", count=2, interruptions=3)  # so the next one uses an attempt

    cycle = single.dispatch(WORKER_TIMEOUT="4", DISPATCH_TIMEOUT="30")

    assert cycle.returncode == 2
    assert facts(single, stuck) == [("pending", 1, 0, 3)] * 2
    assert "past its deadline" not in single.log
    assert "Exceeded" not in single.log


@KINDS
def test_a_stopped_runner_lets_its_jobs_finish(single: Installation, kind: str) -> None:
    """It starts no other job; those run in another runner."""
    running = single.enqueue(f"wait_{kind}", GATED, count=5)
    cycle = single.start("dispatcher")
    wait_until_running(single, 5)

    os.kill(single.runner_pids()[0], signal.SIGTERM)
    [later] = single.enqueue(f"wait_{kind}", GATED)
    single.open_gate()
    cycle.communicate(timeout=60)

    assert facts(single, [*running, later]) == [DONE_FIRST_TIME] * 6
    pids = {job: pid for job, pid, *_ in spans(single)}
    assert pids.pop(later) not in set(pids.values())
    assert "Received SIGTERM: claiming no more jobs" in single.log


# --- crashes ----------------------------------------------------------------------------------------------


@KINDS
def test_the_crashing_job_is_found_among_many(single: Installation, kind: str) -> None:
    """Each is run again alone: the others lose nothing, the poison job is dead after three crashes."""
    others = single.enqueue(f"wait_{kind}", count=6)
    poison = single.enqueue(f"poison_{kind}")[0]
    others += single.enqueue(f"wait_{kind}", count=5)

    def is_over() -> bool:
        single.dispatch(BATCH_SIZE="12", BACKOFF_BASE="0.001")
        return "pending" not in single.statuses()

    wait_until(is_over, "all jobs are settled", seconds=120)

    assert facts(single, others) == [DONE_FIRST_TIME] * 11
    job = single.job(poison)
    assert (job.status, job.attempts, job.crashes) == ("dead", 0, 3)
    assert "the runner exited with code 3" in job.last_error


@KINDS_AND_DATABASES
def test_a_killed_runner_loses_nothing(installed: Installation, kind: str) -> None:
    """All running jobs are on its status page: each is run again, alone, and no attempt is used."""
    ids = installed.enqueue(f"wait_{kind}", GATED, count=8)
    cycle = installed.start("dispatcher", BATCH_SIZE="8", **SOON)
    wait_until_running(installed, 8)

    psutil.Process(installed.runner_pids()[0]).kill()
    installed.open_gate()
    cycle.communicate(timeout=60)

    assert facts(installed, ids) == [DONE_FIRST_TIME] * 8
    assert {installed.job(job_id).suspect for job_id in ids} == {1}


@KINDS
def test_no_job_is_blamed_for_a_database_error(single: Installation, kind: str) -> None:
    """A runner that cannot settle exits: its jobs run again, with no attempt used and no suspicion."""
    ids = single.enqueue(f"wait_{kind}", '{"gate": "first"}') + single.enqueue(f"wait_{kind}", GATED, count=2)
    cycle = single.start("dispatcher", CONCURRENCY="3")
    wait_until_running(single, 3)
    single.execute("ALTER TABLE mayfly_totals RENAME TO hidden")
    (single.home / "first").touch()
    cycle.communicate(timeout=60)
    single.execute("ALTER TABLE hidden RENAME TO mayfly_totals")
    single.open_gate()

    single.dispatch()

    assert cycle.returncode == 1
    assert facts(single, ids) == [DONE_FIRST_TIME] * 3
    assert {single.job(job_id).suspect for job_id in ids} == {0}


# --- fencing ----------------------------------------------------------------------------------------------


@KINDS_AND_DATABASES
def test_an_outcome_after_the_lease_is_not_written(installed: Installation, kind: str) -> None:
    """Another host has rescued and finished the jobs; the late runner changes no row, and logs it."""
    ids = installed.enqueue(f"wait_{kind}", GATED, count=5)
    runner = installed.start("runner", HOST_NAME="anna", CONCURRENCY="5")
    wait_until_running(installed, 5)
    stopped = psutil.Process(runner.pid)
    stopped.suspend()
    expire_leases(installed)
    installed.open_gate()
    wait_until(lambda: finished(installed, ids), "bert has done everything")
    settled = installed.rows("SELECT * FROM mayfly_jobs ORDER BY id")
    stopped.resume()
    runner.communicate(timeout=60)

    assert installed.rows("SELECT * FROM mayfly_jobs ORDER BY id") == settled
    assert installed.log.count("lost lease, nothing was changed") == 5
    assert len(spans(installed)) == 10
    assert facts(installed, ids) == [DONE_FIRST_TIME] * 5


@SERVERS
def test_rows_of_a_thread_are_rolled_back_after_the_lease(installed: Installation) -> None:
    """Its handler returned, but only the rows of the other host are committed."""
    ids = installed.enqueue("insert_thread", GATED, count=3)
    runner = installed.start("runner", HOST_NAME="anna", CONCURRENCY="3")
    wait_until_running(installed, 3)
    stopped = psutil.Process(runner.pid)
    stopped.suspend()
    expire_leases(installed)
    installed.open_gate()
    wait_until(lambda: finished(installed, ids), "bert has done everything")
    stopped.resume()
    _, stderr = runner.communicate(timeout=60)

    assert (runner.returncode, stderr) == (0, "")
    assert sorted(row.job_id for row in installed.rows("SELECT job_id FROM test_rows")) == ids
    assert installed.log.count("lost lease, nothing was changed") == 3


def expire_leases(installation: Installation) -> None:
    installation.execute("UPDATE mayfly_jobs SET lease_until = created_at WHERE lease_until IS NOT NULL")
    installation.execute("UPDATE mayfly_runners SET lease_until = planned_at")


def finished(installation: Installation, ids: list[int]) -> bool:
    installation.dispatch(HOST_NAME="bert", **SOON)
    return {installation.job(job_id).status for job_id in ids} == {"done"}


# --- endings ----------------------------------------------------------------------------------------------


@KINDS
def test_every_outcome_is_that_of_a_plain_function(single: Installation, kind: str) -> None:
    """Results, Snooze and the like, errors, payload models; an exception that would end a process fails the job."""
    endings = {
        "well": ("done", 1, None),
        "snooze": ("pending", 0, None),
        "cancel": ("cancelled", 1, "no longer wanted"),
        "give up": ("dead", 1, "no such customer"),
        "come back": ("pending", 1, "the other side is busy"),
        "fail": ("pending", 1, "RuntimeError: failed"),
        "quit": ("pending", 1, "SystemExit: 3"),
        "interrupt": ("pending", 1, "KeyboardInterrupt"),
        "cancelled": ("pending", 1, "CancelledError: by itself"),
    }
    ids = {name: single.enqueue(f"ending_{kind}", json_text.encode({"ending": name}))[0] for name in endings}
    misfit = single.enqueue(f"ending_{kind}", '{"ending": 3}')[0]

    cycle = single.dispatch(BATCH_SIZE="3", BACKOFF_BASE="100")

    assert (cycle.returncode, cycle.stderr) == (0, "")
    for name, (status, attempts, error) in endings.items():
        job = single.job(ids[name])
        assert (name, job.status, job.attempts) == (name, status, attempts)
        assert (job.last_error or "").partition("\n")[0] == (error or "")
    assert json_text.decode(single.job(ids["well"]).result) == {"ending": "well"}
    trace = single.job(ids["fail"]).last_error
    assert f"ending_{kind}" in trace.splitlines()[1]
    assert single.job(misfit).status == "dead"
    assert "the payload does not match" in single.job(misfit).last_error
    assert "Completed 1 job" in single.log
    assert len(single.rows("SELECT worker_id FROM mayfly_runners")) == 1


def test_a_task_that_exits_does_not_end_the_loop(single: Installation) -> None:
    """asyncio passes SystemExit on to the caller of the loop; only the job that awaits the task fails."""
    parent = single.enqueue("parent_async")[0]
    others = single.enqueue("wait_async", count=3)

    cycle = single.dispatch(BACKOFF_BASE="100")

    assert cycle.returncode == 0
    assert single.job(parent).last_error.startswith("SystemExit: 3")
    assert facts(single, others) == [DONE_FIRST_TIME] * 3


def test_context_variables_do_not_leak_into_the_next_job(single: Installation) -> None:
    """Although it runs in the same thread."""
    ids = single.enqueue("leftover_thread", count=3)

    single.dispatch()

    assert [json_text.decode(single.job(job_id).result) for job_id in ids] == [0, 0, 0]


def test_a_coroutine_that_was_not_awaited_is_a_failure(single: Installation) -> None:
    """A plain wrapper around an `async def` returns a coroutine that never ran."""
    job_id = single.enqueue("wrapped")[0]

    single.dispatch(BACKOFF_BASE="100")

    assert single.job(job_id).status == "pending"
    assert "declare the handler itself as `async def`" in single.job(job_id).last_error


# --- the database -----------------------------------------------------------------------------------------


@KINDS
def test_concurrent_jobs_can_enqueue(installed: Installation, kind: str) -> None:
    """On separate connections, all at the same time."""
    ids = installed.enqueue(f"enqueue_{kind}", count=12)

    cycle = installed.dispatch(BATCH_SIZE="12")

    assert (cycle.returncode, cycle.stderr) == (0, "")
    assert facts(installed, ids) == [DONE_FIRST_TIME] * 12
    children = installed.rows("SELECT group_key FROM mayfly_jobs WHERE group_key IS NOT NULL")
    assert {row.group_key for row in children} == {f"child of {job_id}" for job_id in ids}
    assert len(children) == 12


@pytest.mark.every_database
def test_rows_of_a_thread_commit_with_its_job(installed: Installation) -> None:
    """Rows, enqueued jobs, result and `done` are committed together, or none of them."""
    good = installed.enqueue("insert_thread", count=6)
    bad = installed.enqueue("insert_thread", '{"fail": true}', count=3)

    cycle = installed.dispatch(BATCH_SIZE="12", BACKOFF_BASE="100")

    assert (cycle.returncode, cycle.stderr) == (0, "")
    assert facts(installed, good) == [DONE_FIRST_TIME] * 6
    assert [json_text.decode(installed.job(job_id).result) for job_id in good] == [
        {"inserted": job_id} for job_id in good
    ]
    assert facts(installed, bad) == [("pending", 1, 0, 0)] * 3
    assert sorted(row.job_id for row in installed.rows("SELECT job_id FROM test_rows")) == good
    children = installed.rows("SELECT group_key FROM mayfly_jobs WHERE group_key IS NOT NULL")
    assert sorted(row.group_key for row in children) == sorted(f"child of {job_id}" for job_id in good)
    counted = installed.rows("SELECT SUM(jobs) AS jobs FROM mayfly_totals WHERE outcome = 'done'")
    assert int(counted[0].jobs) == 6


@SERVERS
def test_rows_of_a_thread_are_rolled_back_after_its_timeout(installed: Installation) -> None:
    """It is interrupted in the block; on SQLite, where it holds the only file, its runner is ended instead."""
    installed.timing = LONG_HARD_EXIT
    late = installed.enqueue("insert_limited", count=2)
    others = installed.enqueue("insert_thread", count=2)

    cycle = installed.dispatch(BACKOFF_BASE="100")

    assert (cycle.returncode, cycle.stderr) == (0, "")
    assert facts(installed, late + others) == [("pending", 1, 0, 0)] * 2 + [DONE_FIRST_TIME] * 2
    assert 1 <= seconds_until_timeout(installed.job(late[0])) < 20
    assert sorted(row.job_id for row in installed.rows("SELECT job_id FROM test_rows")) == others


def test_a_task_gets_no_transaction(single: Installation) -> None:
    """It would block every other job on the loop; the error explains what to do instead."""
    job_id = single.enqueue("insert_async")[0]

    single.dispatch(BACKOFF_BASE="100")

    assert single.job(job_id).status == "pending"
    assert "with threads=" in single.job(job_id).last_error
