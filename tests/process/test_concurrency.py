"""Jobs side by side in one runner: limits, time-outs, crashes and fencing hold for tasks and threads too."""

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
from mayfly.process.status_page import read_status_page
from mayfly.process.timing import Timing
from mayfly.schema.metadata import runners
from tests.process.installation import Installation, handler_modules, most_at_once, wait_until

HANDLERS = {"HANDLERS": handler_modules("concurrent"), "MAX_WORKERS": "1"}
SOON = {"BACKOFF_BASE": "0.05"}
GATED = '{"gate": "go", "seconds": 0}'  # runs until `release_latch`
PATIENT = Timing(hard_exit_seconds=20)  # for handlers that end, sooner or later, when they are interrupted
ROUGH = Timing(hard_exit_seconds=1, settle_seconds=10, overdue_seconds=20)  # for those that do not
KINDS = pytest.mark.parametrize("kind", ["async", "thread"])
# Both kinds on SQLite, and one kind on each server.
KINDS_AND_DATABASES = pytest.mark.parametrize(
    ("engine_name", "kind"),
    [("sqlite", "async"), ("sqlite", "thread"), ("mariadb", "thread"), ("postgres", "async")],
    indirect=["engine_name"],
)
SERVERS = pytest.mark.parametrize("engine_name", ["mariadb", "postgres"], indirect=True)


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Installation]:
    """On SQLite, with one runner at a time."""
    made = Installation(tmp_path, f"sqlite:///{tmp_path}/mayfly.db", HANDLERS)
    yield made
    made.end()


@pytest.fixture
def each(migrated_url: str, tmp_path: Path) -> Iterator[Installation]:
    """The same on every database."""
    made = Installation(tmp_path, migrated_url, HANDLERS)
    made.execute("CREATE TABLE test_ledger (job_id BIGINT)")
    yield made
    made.end()


def spans(installation: Installation) -> list[tuple[int, int, float, float]]:
    """Job, process, begin and end of each run that came to its end."""
    path = installation.home / "spans"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(int(job), int(pid), float(began), float(ended)) for job, pid, began, ended in map(str.split, lines)]


def overlap(found: list[tuple[int, int, float, float]]) -> int:
    return most_at_once((began, ended) for _job, _pid, began, ended in found)  # type: ignore[misc]


def wait_until_running(installation: Installation, count: int) -> None:
    """So many are on the pages of runners."""

    def running() -> int:
        pages = (read_status_page(path) for path in (installation.home / "state").rglob("*.page"))
        return sum(len(page.running) for page in pages if page is not None)

    wait_until(lambda: running() == count, f"{count} jobs run")


def facts(installation: Installation, ids: list[int]) -> list[tuple[Any, ...]]:
    jobs = [installation.job(job_id) for job_id in ids]
    return [(job.status, job.attempts, job.crashes, job.interruptions) for job in jobs]


def seconds_until_time_out(job: Any) -> float:
    """As its error says."""
    found = re.match(r"timed out after ([\d.]+) s", job.last_error)
    assert found, job.last_error
    return float(found[1])


UNHARMED = ("done", 1, 0, 0)

# --- how many ---------------------------------------------------------------------------------------------


@KINDS
def test_jobs_that_wait_run_side_by_side(one: Installation, kind: str) -> None:
    """All that one runner has slots for, though its first claim was of five; and all of them in one process."""
    ids = one.enqueue(f"wait_{kind}", '{"together": 20, "seconds": 0.3}', count=50)

    cycle = one.dispatch()

    assert (cycle.returncode, cycle.stderr) == (0, "")
    found = spans(one)
    assert sorted(job for job, *_ in found) == ids
    assert len({pid for _job, pid, *_ in found}) == 1
    assert 20 <= overlap(found) <= (50 if kind == "async" else 20)
    assert facts(one, ids) == [UNHARMED] * 50
    assert "Completed 50 jobs" in one.log


@KINDS
def test_no_more_than_the_lanes_limit_run_at_a_time(one: Installation, kind: str) -> None:
    """Nor are more claimed than run: the rest is for other runners."""
    one.enqueue(f"wait_{kind}", '{"together": 7, "seconds": 0.1}', count=30)
    most = 0
    cycle = one.start("dispatcher", LANES__DEFAULT__CONCURRENCY="7")
    while cycle.poll() is None:
        most = max(most, one.rows("SELECT COUNT(*) FROM mayfly_jobs WHERE status = 'processing'")[0][0])

    assert (cycle.returncode, one.statuses()) == (0, {"done": 30})
    assert overlap(spans(one)) == 7
    assert most <= 7


def test_no_more_than_its_threads_run_of_a_type(one: Installation) -> None:
    """Beside others in the same lane, whose slots are more."""
    few = one.enqueue("wait_few", '{"together": 3, "seconds": 0.1}', count=12)
    many = one.enqueue("wait_async", '{"together": 4, "seconds": 0.3}', count=12)

    cycle = one.dispatch()

    assert (cycle.returncode, one.statuses()) == (0, {"done": 24})
    found = spans(one)
    assert overlap([span for span in found if span[0] in few]) == 3
    assert overlap([span for span in found if span[0] in many]) > 3


def test_plain_jobs_have_the_runner_to_themselves(one: Installation) -> None:
    """Of a mixed claim they come last, one after the other, while nothing else runs."""
    meeting = '{"party": "both", "together": 2, "seconds": 0.1}'
    payloads = {"plain": '{"seconds": 0.1}', "async": meeting, "thread": meeting}
    mixed = [one.enqueue(f"wait_{kind}", payloads[kind])[0] for kind in ("plain", "async", "plain", "thread")]

    cycle = one.dispatch()

    assert (cycle.returncode, one.statuses()) == (0, {"done": 4})
    found = spans(one)
    assert [job for job, *_ in found[2:]] == [mixed[0], mixed[2]]
    assert overlap(found) == 2
    assert overlap(found[1:]) == 1


@pytest.mark.parametrize("how", ["exec", "by hand"])
@KINDS
def test_however_the_runner_was_started(one: Installation, kind: str, how: str) -> None:
    """In an interpreter of its own, and by a person."""
    one.enqueue(f"wait_{kind}", '{"together": 6}', count=12)
    ran = one.run("runner") if how == "by hand" else one.dispatch(SPAWN="exec")

    assert (ran.returncode, ran.stderr, one.statuses()) == (0, "", {"done": 12})
    assert overlap(spans(one)) > 5


@KINDS
def test_an_outcome_is_committed_before_its_slot_is_used_again(one: Installation, kind: str) -> None:
    """With one slot, at any moment at most one job is neither untouched nor settled."""
    one.enqueue(f"paid_{kind}", '{"seconds": 0.1}', count=5)
    cycle = one.start("dispatcher", CONCURRENCY="1")
    while cycle.poll() is None:
        ended = len(spans(one))
        assert one.statuses().get("done", 0) >= ended - 1

    assert (cycle.returncode, one.statuses()) == (0, {"done": 5})


# --- time-outs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("type_name", ["limited_async", "limited_thread", "deaf_async", "deaf_thread"])
def test_a_job_past_its_limit_is_interrupted(one: Installation, type_name: str) -> None:
    """Its mates are not harmed and the runner goes on; one that swallows the first interruption gets another."""
    kind = type_name.partition("_")[2]
    late = one.enqueue(type_name)[0]
    mates = one.enqueue(f"wait_{kind}", '{"seconds": 2}', count=3)
    after = one.enqueue(f"wait_{kind}", count=30)
    one.timing = PATIENT

    cycle = one.dispatch()

    assert (cycle.returncode, cycle.stderr) == (0, "")
    job = one.job(late)
    assert (job.status, job.attempts, job.crashes, job.interruptions) == ("pending", 1, 0, 0)
    assert 1 <= seconds_until_time_out(job) < 20
    assert facts(one, mates + after) == [UNHARMED] * 33
    assert len({pid for _job, pid, *_ in spans(one)}) == 1


@KINDS
def test_a_job_that_cannot_be_interrupted_is_left_behind(one: Installation, kind: str) -> None:
    """It has timed out, its runner claims no more and ends with 2, and another one does the rest."""
    one.timing = ROUGH
    blocked = one.enqueue(f"blocked_{kind}", max_attempts=1)[0]
    mates = one.enqueue("wait_thread", GATED, count=3)
    wait_for_it = one.enqueue("noop", lane="other")

    cycle = one.start("dispatcher", CONCURRENCY="4")
    wait_until(lambda: one.job(blocked).status == "dead", "it is left behind")
    settled = one.job(blocked)
    later = one.enqueue(f"wait_{kind}", count=5)
    one.release_latch()
    _, complained = cycle.communicate(timeout=60)

    assert (settled.attempts, settled.crashes) == (1, 0)
    assert 1 + ROUGH.hard_exit_seconds <= seconds_until_time_out(settled) < 20
    assert (cycle.returncode, "ended with code 2" in complained) == (2, True)
    assert facts(one, mates + later + wait_for_it) == [UNHARMED] * 9
    pids = {job: pid for job, pid, *_ in spans(one)}
    assert {pids[job] for job in mates}.isdisjoint(pids[job] for job in later), "the runner was replaced"
    assert f"blocked_{kind}" in one.log.partition("printed:")[2], "its stack is told"
    assert one.processes() == []


@pytest.mark.parametrize("how", ["exec", "by hand"])
@pytest.mark.parametrize(("type_name", "code"), [("blocked_thread", 2), ("delegated_async", 0)])
def test_a_runner_does_not_wait_for_a_thread_that_is_blocked(
    one: Installation, type_name: str, code: int, how: str
) -> None:
    """Not even where the interpreter would join its threads: then it would not end within the test's deadline."""
    one.enqueue(type_name, max_attempts=1)
    ran = one.run("runner") if how == "by hand" else one.dispatch(SPAWN="exec")

    assert ran.returncode == code
    assert one.statuses() == {"dead": 1}


def test_only_the_job_that_blocks_the_loop_pays_for_it(one: Installation) -> None:
    """The others are released without an attempt, even past their own timeout, and the next runner does them."""
    blocked = one.enqueue("blocked_async", max_attempts=1)[0]
    limited = one.enqueue("brief_async", max_attempts=1, count=20)
    waiting = one.enqueue("wait_async", '{"seconds": 1}', count=3)
    one.timing = ROUGH

    cycle = one.dispatch(BATCH_SIZE="30")

    assert cycle.returncode == 2
    assert facts(one, [blocked]) == [("dead", 1, 0, 0)]
    assert one.job(blocked).last_error.startswith("timed out after ")
    assert facts(one, limited + waiting) == [UNHARMED] * 23


@KINDS
def test_an_answer_to_the_interruption_is_an_answer(one: Installation, kind: str) -> None:
    """As with plain functions: who returns has done its work."""
    job_id = one.enqueue(f"slow_answer_{kind}")[0]

    one.dispatch()

    assert (one.job(job_id).status, json_text.decode(one.job(job_id).result)) == ("done", "just in time")


# --- the guard, and being asked to stop -------------------------------------------------------------------


@KINDS
def test_the_guard_interrupts_all_of_them(one: Installation, kind: str) -> None:
    """Those that had the whole window have timed out; the late ones come again; nothing is left in hand."""
    one.timing = PATIENT._replace(min_window_seconds=60)  # nothing is started a second time
    whole = one.enqueue(f"tidy_{kind}", '{"tidying": 3}', count=3)  # so much they may begin late
    cycle = one.start("dispatcher", WORKER_TIMEOUT="5", DISPATCH_TIMEOUT="30", CONCURRENCY="5")
    wait_until_running(one, 3)
    [runner] = one.rows(select(runners))
    wait_until(lambda: one.now() > runner.planned_at + timedelta(seconds=1), "nobody gets the whole window any more")
    late = one.enqueue(f"endless_{kind}", count=2)
    wait_until_running(one, 5)
    one.enqueue("noop", count=3)
    cycle.communicate(timeout=60)

    assert cycle.returncode == 2
    assert facts(one, whole) == [("pending", 1, 0, 0)] * 3
    assert facts(one, late) == [("pending", 0, 0, 1)] * 2
    assert "Time is up: interrupted job" in one.log


def test_the_guard_ends_who_cannot_be_interrupted(one: Installation) -> None:
    """Before the dispatcher has to."""
    one.timing = ROUGH._replace(min_window_seconds=60)  # nothing is started a second time
    stuck = one.enqueue("stuck_thread", count=2, interruptions=3)  # so that the next one costs an attempt

    cycle = one.dispatch(WORKER_TIMEOUT="4", DISPATCH_TIMEOUT="30")

    assert cycle.returncode == 2
    assert facts(one, stuck) == [("pending", 1, 0, 3)] * 2
    assert "past its deadline" not in one.log
    assert "Exceeded" not in one.log


@KINDS
def test_a_runner_that_is_told_to_stop_lets_them_finish(one: Installation, kind: str) -> None:
    """What runs ends well; it starts nothing else: what comes then is for another one."""
    running = one.enqueue(f"wait_{kind}", GATED, count=5)
    cycle = one.start("dispatcher")
    wait_until_running(one, 5)

    os.kill(one.runner_pids()[0], signal.SIGTERM)
    [later] = one.enqueue(f"wait_{kind}", GATED)
    one.release_latch()
    cycle.communicate(timeout=60)

    assert facts(one, [*running, later]) == [UNHARMED] * 6
    pids = {job: pid for job, pid, *_ in spans(one)}
    assert pids.pop(later) not in set(pids.values())
    assert "Received SIGTERM: claiming no more jobs" in one.log


# --- crashes ----------------------------------------------------------------------------------------------


@KINDS
def test_of_many_running_the_culprit_is_found(one: Installation, kind: str) -> None:
    """Each is run again alone: the innocent lose nothing, the poison is dead after its three crashes."""
    innocent = one.enqueue(f"wait_{kind}", count=6)
    poison = one.enqueue(f"poison_{kind}")[0]
    innocent += one.enqueue(f"wait_{kind}", count=5)

    def is_over() -> bool:
        one.dispatch(BATCH_SIZE="12", BACKOFF_BASE="0.001")
        return "pending" not in one.statuses()

    wait_until(is_over, "all is settled", seconds=120)

    assert facts(one, innocent) == [UNHARMED] * 11
    job = one.job(poison)
    assert (job.status, job.attempts, job.crashes) == ("dead", 0, 3)
    assert "the runner exited with code 3" in job.last_error


@KINDS_AND_DATABASES
def test_a_killed_runner_loses_nothing(each: Installation, kind: str) -> None:
    """All that ran are on its page: each is run again, alone, and no attempt is spent."""
    ids = each.enqueue(f"wait_{kind}", GATED, count=8)
    cycle = each.start("dispatcher", BATCH_SIZE="8", **SOON)
    wait_until_running(each, 8)

    psutil.Process(each.runner_pids()[0]).kill()
    each.release_latch()
    cycle.communicate(timeout=60)

    assert facts(each, ids) == [UNHARMED] * 8
    assert {each.job(job_id).suspect for job_id in ids} == {1}


@KINDS
def test_nobody_is_to_blame_for_the_database(one: Installation, kind: str) -> None:
    """A runner that cannot settle ends in the middle of its jobs: they come again, unspent and unsuspected."""
    ids = one.enqueue(f"wait_{kind}", '{"gate": "first"}') + one.enqueue(f"wait_{kind}", GATED, count=2)
    cycle = one.start("dispatcher", CONCURRENCY="3")
    wait_until_running(one, 3)
    one.execute("ALTER TABLE mayfly_totals RENAME TO hidden")
    (one.home / "first").touch()
    cycle.communicate(timeout=60)
    one.execute("ALTER TABLE hidden RENAME TO mayfly_totals")
    one.release_latch()

    one.dispatch()

    assert cycle.returncode == 1
    assert facts(one, ids) == [UNHARMED] * 3
    assert {one.job(job_id).suspect for job_id in ids} == {0}


# --- fencing ----------------------------------------------------------------------------------------------


@KINDS_AND_DATABASES
def test_an_outcome_that_comes_after_the_lease_writes_nothing(each: Installation, kind: str) -> None:
    """Another host has taken over and finished; the late runner changes no row, and says so."""
    ids = each.enqueue(f"wait_{kind}", GATED, count=5)
    runner = each.start("runner", HOST_NAME="anna", CONCURRENCY="5")
    wait_until_running(each, 5)
    stopped = psutil.Process(runner.pid)
    stopped.suspend()
    expire_leases(each)
    each.release_latch()
    wait_until(lambda: finished(each, ids), "bert has done everything")
    settled = each.rows("SELECT * FROM mayfly_jobs ORDER BY id")
    stopped.resume()
    runner.communicate(timeout=60)

    assert each.rows("SELECT * FROM mayfly_jobs ORDER BY id") == settled
    assert each.log.count("lost lease, nothing was changed") == 5
    assert len(spans(each)) == 10
    assert facts(each, ids) == [UNHARMED] * 5


@SERVERS
def test_a_threads_rows_go_with_its_lease(each: Installation) -> None:
    """The handler came to its end, and yet its rows are undone: only the other one's are there."""
    ids = each.enqueue("book_thread", GATED, count=3)
    runner = each.start("runner", HOST_NAME="anna", CONCURRENCY="3")
    wait_until_running(each, 3)
    stopped = psutil.Process(runner.pid)
    stopped.suspend()
    expire_leases(each)
    each.release_latch()
    wait_until(lambda: finished(each, ids), "bert has done everything")
    stopped.resume()
    _, complained = runner.communicate(timeout=60)

    assert (runner.returncode, complained) == (0, "")
    assert sorted(row.job_id for row in each.rows("SELECT job_id FROM test_ledger")) == ids
    assert each.log.count("lost lease, nothing was changed") == 3


def expire_leases(installation: Installation) -> None:
    installation.execute("UPDATE mayfly_jobs SET lease_until = created_at WHERE lease_until IS NOT NULL")
    installation.execute("UPDATE mayfly_runners SET lease_until = planned_at")


def finished(installation: Installation, ids: list[int]) -> bool:
    installation.dispatch(HOST_NAME="bert", **SOON)
    return {installation.job(job_id).status for job_id in ids} == {"done"}


# --- endings ----------------------------------------------------------------------------------------------


@KINDS
def test_every_ending_is_that_of_a_plain_function(one: Installation, kind: str) -> None:
    """Results, steering, errors and payload models; what would end a process or a task is the job's failure."""
    endings = {
        "well": ("done", 1, None),
        "snooze": ("pending", 0, None),
        "cancel": ("cancelled", 1, "nobody wants it any more"),
        "give up": ("dead", 1, "no such customer"),
        "come back": ("pending", 1, "the other side is busy"),
        "fail": ("pending", 1, "RuntimeError: stumbled"),
        "quit": ("pending", 1, "SystemExit: 3"),
        "interrupt": ("pending", 1, "KeyboardInterrupt"),
        "cancelled": ("pending", 1, "CancelledError: by itself"),
    }
    ids = {name: one.enqueue(f"wish_{kind}", json_text.encode({"ending": name}))[0] for name in endings}
    misfit = one.enqueue(f"wish_{kind}", '{"ending": 3}')[0]

    cycle = one.dispatch(BATCH_SIZE="3", BACKOFF_BASE="100")

    assert (cycle.returncode, cycle.stderr) == (0, "")
    for name, (status, attempts, error) in endings.items():
        job = one.job(ids[name])
        assert (name, job.status, job.attempts) == (name, status, attempts)
        assert (job.last_error or "").partition("\n")[0] == (error or "")
    assert json_text.decode(one.job(ids["well"]).result) == {"ending": "well"}
    trace = one.job(ids["fail"]).last_error
    assert f"wish_{kind}" in trace.splitlines()[1]
    assert one.job(misfit).status == "dead"
    assert "the payload does not fit" in one.job(misfit).last_error
    assert "Completed 1 job" in one.log
    assert len(one.rows("SELECT worker_id FROM mayfly_runners")) == 1


def test_a_task_that_quits_does_not_end_the_loop(one: Installation) -> None:
    """asyncio lets SystemExit through to whoever turns the loop; the job that awaits the task has failed."""
    parent = one.enqueue("parent_async")[0]
    mates = one.enqueue("wait_async", count=3)

    cycle = one.dispatch(BACKOFF_BASE="100")

    assert cycle.returncode == 0
    assert one.job(parent).last_error.startswith("SystemExit: 3")
    assert facts(one, mates) == [UNHARMED] * 3


def test_what_a_job_leaves_in_its_context_does_not_haunt_the_next(one: Installation) -> None:
    """Though the thread is the same."""
    ids = one.enqueue("haunted_thread", count=3)

    one.dispatch()

    assert [json_text.decode(one.job(each).result) for each in ids] == [0, 0, 0]


def test_what_nobody_awaited_is_not_done(one: Installation) -> None:
    """A plain wrapper around an `async def` returns a promise of work, not work."""
    job_id = one.enqueue("wrapped")[0]

    one.dispatch(BACKOFF_BASE="100")

    assert one.job(job_id).status == "pending"
    assert "declare the handler itself as `async def`" in one.job(job_id).last_error


# --- the database -----------------------------------------------------------------------------------------


@KINDS
def test_jobs_side_by_side_can_enqueue(each: Installation, kind: str) -> None:
    """On connections of their own, all at the same time."""
    ids = each.enqueue(f"breed_{kind}", count=12)

    cycle = each.dispatch(BATCH_SIZE="12")

    assert (cycle.returncode, cycle.stderr) == (0, "")
    assert facts(each, ids) == [UNHARMED] * 12
    children = each.rows("SELECT group_key FROM mayfly_jobs WHERE group_key IS NOT NULL")
    assert {row.group_key for row in children} == {f"child of {job_id}" for job_id in ids}
    assert len(children) == 12


@pytest.mark.every_database
def test_a_threads_rows_commit_with_its_job(each: Installation) -> None:
    """Rows, jobs that were enqueued in the block, result and `done` are there together, or none of them is."""
    good = each.enqueue("book_thread", count=6)
    bad = each.enqueue("book_thread", '{"fail": true}', count=3)

    cycle = each.dispatch(BATCH_SIZE="12", BACKOFF_BASE="100")

    assert (cycle.returncode, cycle.stderr) == (0, "")
    assert facts(each, good) == [UNHARMED] * 6
    assert [json_text.decode(each.job(job_id).result) for job_id in good] == [{"booked": job_id} for job_id in good]
    assert facts(each, bad) == [("pending", 1, 0, 0)] * 3
    assert sorted(row.job_id for row in each.rows("SELECT job_id FROM test_ledger")) == good
    children = each.rows("SELECT group_key FROM mayfly_jobs WHERE group_key IS NOT NULL")
    assert sorted(row.group_key for row in children) == sorted(f"child of {job_id}" for job_id in good)
    counted = each.rows("SELECT SUM(jobs) AS jobs FROM mayfly_totals WHERE outcome = 'done'")
    assert int(counted[0].jobs) == 6


@SERVERS
def test_a_threads_rows_go_with_its_time(each: Installation) -> None:
    """Interrupted within the block; on SQLite, where it holds the only file, its runner is ended over it."""
    each.timing = PATIENT
    late = each.enqueue("book_limited", count=2)
    mates = each.enqueue("book_thread", count=2)

    cycle = each.dispatch(BACKOFF_BASE="100")

    assert (cycle.returncode, cycle.stderr) == (0, "")
    assert facts(each, late + mates) == [("pending", 1, 0, 0)] * 2 + [UNHARMED] * 2
    assert 1 <= seconds_until_time_out(each.job(late[0])) < 20
    assert sorted(row.job_id for row in each.rows("SELECT job_id FROM test_ledger")) == mates


def test_a_task_gets_no_transaction(one: Installation) -> None:
    """It would hold up every other job on the loop; the error says what to do instead."""
    job_id = one.enqueue("book_async")[0]

    one.dispatch(BACKOFF_BASE="100")

    assert one.job(job_id).status == "pending"
    assert "with threads=" in one.job(job_id).last_error
