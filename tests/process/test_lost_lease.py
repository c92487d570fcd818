"""Rescue on the same host by liveness, on other hosts by leases, and runners that come too late."""

import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import psutil
import pytest
from sqlalchemy import Row, select

from mayfly.schema.metadata import jobs, locks, runners
from tests.process.installation import Installation, StartedProcess, suspend_with_children, wait_until

GATED = '{"gate": "go"}'  # runs until `open_gate`
GATED_INSERT = '{"gate": "go", "insert": true}'
SOON = {"BACKOFF_BASE": "0.05"}
AT_ONCE = {"BACKOFF_BASE": "0.000001"}
SERVERS = pytest.mark.parametrize("engine_name", ["mariadb", "postgres"], indirect=True)


def runs(installation: Installation) -> list[str]:
    """One line for each run that has begun."""
    path = installation.home / "runs"
    return path.read_text().splitlines() if path.exists() else []


def has_begun(installation: Installation, times: int) -> bool:
    return len(runs(installation)) == times


def all_jobs(installation: Installation) -> Sequence[Row[Any]]:
    return installation.rows("SELECT * FROM mayfly_jobs ORDER BY id")


def process_group(process: StartedProcess) -> list[psutil.Process]:
    """A dispatcher, which is suspended, and its runners."""
    dispatcher, runners = suspend_with_children(process.pid)
    return [dispatcher, *runners]


@contextmanager
def stopped(process: StartedProcess) -> Iterator[None]:
    """Nothing of it runs within the block, and it does not notice."""
    members = process_group(process)
    for each in members:
        each.suspend()
    yield
    for each in reversed(members):
        each.resume()


def end_leases(installation: Installation) -> datetime:
    """Set their ends to the time of the claim, which is over; returns that time."""
    [claimed] = set(installation.rows(select(jobs.c.locked_at).where(jobs.c.status == "processing")))
    lease_until: datetime = claimed.locked_at
    for table in ("mayfly_jobs", "mayfly_runners"):
        at = f"{lease_until:%Y-%m-%d %H:%M:%S.%f}"
        installation.execute(f"UPDATE {table} SET lease_until = '{at}' WHERE lease_until IS NOT NULL")
    wait_until(lambda: installation.now() > lease_until, "the lease has run out")
    return lease_until


def finish_elsewhere(installation: Installation) -> None:
    """Cycles of another host until all jobs are done."""

    def is_done() -> bool:
        installation.dispatch(HOST_NAME="bert", **SOON)
        return installation.statuses().keys() == {"done"}

    wait_until(is_done, "bert has done everything")


# --- leases -----------------------------------------------------------------------------------------------


@pytest.mark.every_database
def test_a_runner_stopped_past_its_lease_changes_nothing(installation: Installation) -> None:
    """Another host has finished its job; when it resumes it changes no row, and logs `lost lease`."""
    installation.enqueue("locked_run", GATED)
    cycle = installation.start("dispatcher", HOST_NAME="anna")
    wait_until(lambda: runs(installation), "the job runs")

    with stopped(cycle):
        installation.open_gate()
        end_leases(installation)
        finish_elsewhere(installation)
        settled = all_jobs(installation)
    cycle.communicate(timeout=60)

    assert all_jobs(installation) == settled
    assert (settled[0].status, settled[0].attempts, settled[0].crashes, settled[0].claims) == ("done", 1, 0, 2)
    assert len(runs(installation)) == 2
    assert "lost lease" in installation.log
    assert installation.processes() == []


@SERVERS
def test_rows_of_a_stopped_runner_are_rolled_back(installation: Installation) -> None:
    """Not on SQLite, which has no other host: a runner stopped in a transaction locks the only file."""
    installation.execute("CREATE TABLE test_rows (job_id BIGINT)")
    job_id = installation.enqueue("locked_run", GATED_INSERT)[0]
    cycle = installation.start("dispatcher", HOST_NAME="anna")
    wait_until(lambda: runs(installation), "the job runs")

    with stopped(cycle):
        installation.open_gate()
        end_leases(installation)
        finish_elsewhere(installation)
        settled = all_jobs(installation)
    cycle.communicate(timeout=60)

    assert all_jobs(installation) == settled
    assert installation.rows("SELECT job_id FROM test_rows") == [(job_id,)]
    assert "lost lease" in installation.log


@pytest.mark.every_database
def test_a_runner_suspended_past_its_lease_reports_it(installation: Installation) -> None:
    """As on a suspended machine, clocks included: it does not settle a job that another host runs now."""
    job_id = installation.enqueue("locked_run", GATED)[0]
    runner = installation.start("runner", HOST_NAME="anna")
    wait_until(lambda: runs(installation), "the job runs")

    with ExitStack() as elsewhere:
        with stopped(runner):
            end_leases(installation)
            cycle = installation.start("dispatcher", HOST_NAME="bert", **AT_ONCE)
            wait_until(lambda: len(runs(installation)) == 2, "the job runs elsewhere")
            elsewhere.enter_context(stopped(cycle))
            installation.open_gate()
        _, stderr = runner.communicate(timeout=60)
        meanwhile = installation.job(job_id)
    cycle.communicate(timeout=60)

    assert (runner.returncode, stderr) == (0, "")
    assert f"Job {job_id} (locked_run): lost lease, nothing was changed" in installation.log
    counted = installation.rows("SELECT type, jobs FROM mayfly_totals WHERE outcome = 'lease lost'")
    assert [tuple(row) for row in counted] == [("locked_run", 1)]
    assert (meanwhile.status, meanwhile.claims, meanwhile.attempts) == ("processing", 2, 1)
    job = installation.job(job_id)
    assert (job.status, job.worker_id, job.claims, job.attempts) == ("done", meanwhile.worker_id, 2, 1)
    assert (cycle.returncode, len(runs(installation))) == (0, 2)


@SERVERS
def test_rows_of_a_late_runner_are_rolled_back(installation: Installation) -> None:
    """Its handler returned, but neither its rows nor its `done` are committed: only those of the other host."""
    installation.execute("CREATE TABLE test_rows (job_id BIGINT)")
    job_id = installation.enqueue("locked_run", GATED_INSERT)[0]
    runner = installation.start("runner", HOST_NAME="anna")
    wait_until(lambda: runs(installation), "the job runs")

    with stopped(runner):
        installation.open_gate()
        end_leases(installation)
        finish_elsewhere(installation)
        settled = all_jobs(installation)
    _, stderr = runner.communicate(timeout=60)

    assert all_jobs(installation) == settled
    assert (runner.returncode, stderr) == (0, "")
    assert installation.rows("SELECT job_id FROM test_rows") == [(job_id,)]
    assert f"Job {job_id} (locked_run): lost lease, nothing was changed" in installation.log


# --- liveness ---------------------------------------------------------------------------------------------


def kill_cycle(installation: Installation, cycle: StartedProcess) -> None:
    """Kill a dispatcher with its runners; a later dispatcher must not find one of them still dying."""
    for each in process_group(cycle):
        each.kill()
    cycle.communicate()
    wait_until(lambda: installation.processes() == [], "the killed processes are gone")


def kill_in_the_middle(installation: Installation, **settings: str) -> None:
    """A cycle whose dispatcher and runners are killed while the second of three jobs runs."""
    cycle = installation.start("dispatcher", HOST_NAME="anna", MAX_WORKERS="1", **settings)
    wait_until(lambda: len(runs(installation)) == 2, "the second job runs")
    kill_cycle(installation, cycle)
    installation.open_gate()


def enqueue_three(installation: Installation) -> list[int]:
    """The second one runs until the gate opens."""
    return [installation.enqueue("locked_run", payload)[0] for payload in ('{"seconds": 0.1}', GATED, GATED)]


@pytest.mark.every_database
def test_a_host_rescues_its_own_jobs_immediately(installation: Installation) -> None:
    """It sees that the processes are gone, and which job ran by the status page; it waits for no lease."""
    ids = enqueue_three(installation)
    kill_in_the_middle(installation)
    [lease_until] = {installation.job(job_id).lease_until for job_id in ids[1:]}

    cycle = installation.dispatch(HOST_NAME="anna", **AT_ONCE)

    assert cycle.returncode == 0
    found = [installation.job(job_id) for job_id in ids]
    assert max(job.finished_at for job in found) < lease_until
    assert [(job.status, job.attempts) for job in found] == [("done", 1)] * 3
    assert [(job.crashes, job.releases, job.suspect) for job in found] == [(0, 0, 0), (0, 1, 1), (0, 0, 0)]
    assert [run.split()[0] for run in runs(installation)].count(str(ids[1])) == 2


def test_a_job_survives_reboots(embedded: Installation) -> None:
    """Five killed dispatchers with their runners cost it neither a crash nor an attempt."""
    [job_id] = embedded.enqueue("locked_run", GATED, max_attempts=1)
    for number in range(1, 6):
        cycle = embedded.start("dispatcher", **AT_ONCE)
        wait_until(partial(has_begun, embedded, number), "the job runs")
        kill_cycle(embedded, cycle)
    embedded.open_gate()

    cycle = embedded.start("dispatcher", **AT_ONCE)
    cycle.communicate(timeout=60)

    job = embedded.job(job_id)
    assert (job.status, job.attempts, job.crashes, job.releases) == ("done", 1, 0, 5)


@pytest.mark.every_database
def test_another_host_waits_for_the_lease(installation: Installation) -> None:
    """It sees neither processes nor status page: after the lease all jobs run again, each in its own claim."""
    ids = enqueue_three(installation)
    kill_in_the_middle(installation)

    installation.dispatch(HOST_NAME="bert", **SOON)
    untouched = [installation.job(job_id).status for job_id in ids]
    lease_until = end_leases(installation)
    finish_elsewhere(installation)

    assert untouched == ["done", "processing", "processing"]
    found = [installation.job(job_id) for job_id in ids]
    assert [(job.status, job.attempts, job.crashes, job.suspect) for job in found] == [
        ("done", 1, 0, 0),
        ("done", 1, 0, 1),
        ("done", 1, 0, 1),
    ]
    [first, second] = installation.rows(select(jobs.c.locked_at).where(jobs.c.id.in_(ids[1:])))
    assert lease_until < first.locked_at != second.locked_at > lease_until


def test_a_live_runner_is_not_rescued(installation: Installation) -> None:
    """A runner started by hand is no child of a dispatcher, yet no cycle of any host takes its job."""
    installation.enqueue("locked_run", GATED)
    runner = installation.start("runner", HOST_NAME="anna")
    wait_until(lambda: runs(installation), "the job runs")

    cycles = [installation.dispatch(HOST_NAME=host) for host in ("anna", "bert")]
    installation.open_gate()
    _, stderr = runner.communicate(timeout=60)

    assert [cycle.returncode for cycle in cycles] == [0, 0]
    assert (runner.returncode, stderr) == (0, "")
    assert len(runs(installation)) == 1
    assert [(job.status, job.claims, job.crashes) for job in all_jobs(installation)] == [("done", 1, 0)]


@pytest.mark.parametrize("spawn", ["fork", "exec"])
def test_runners_die_with_their_dispatcher(embedded: Installation, spawn: str) -> None:
    """Otherwise nothing would end them in time: the kernel kills them, however they were started."""
    embedded.enqueue("sleep_an_hour")
    cycle = embedded.start("dispatcher", SPAWN=spawn)
    wait_until(embedded.runner_pids, "a runner works")

    cycle.kill()
    cycle.communicate()

    wait_until(lambda: embedded.processes() == [], "nothing is left")


def test_children_of_a_handler_do_not_outlive_a_killed_cycle(embedded: Installation) -> None:
    """The kernel kills the runners of a dead dispatcher; the next cycle ends their children."""
    embedded.enqueue("parent")
    cycle = embedded.start("dispatcher")
    wait_until(lambda: len(embedded.processes()) == 3, "dispatcher, runner and the handler's child")
    cycle.kill()
    cycle.communicate()
    wait_until(lambda: len(embedded.processes()) == 1, "the runner is gone, and the child is not")

    embedded.execute("UPDATE mayfly_jobs SET status = 'cancelled'")
    cycle = embedded.start("dispatcher")
    cycle.communicate(timeout=60)

    assert embedded.processes() == []


TAKE_THE_LOCK_AND_DIE = """
import os, signal
from mayfly.fleet.plan_lock import planning
from mayfly.schema import open_database
from mayfly.settings import load_settings

settings = load_settings()
with planning(open_database(settings), settings.host_name):
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.every_database
def test_a_dead_planner_does_not_delay_its_host(installation: Installation) -> None:
    """Its host sees that it is dead, and plans immediately."""
    die_planning(installation)
    end_lock(installation, installation.now() + timedelta(hours=1))
    job_id = installation.enqueue("noop")[0]

    cycle = installation.dispatch(HOST_NAME="anna")

    assert (cycle.returncode, installation.job(job_id).status) == (0, "done")


def test_another_host_waits_for_the_lease_of_the_lock(embedded: Installation) -> None:
    """It cannot see whether the planner lives; the lease is short enough to leave most of the minute."""
    die_planning(embedded)
    [lock] = embedded.rows(select(locks).where(locks.c.name == "plan"))
    lease_left = lock.lease_until - embedded.now()
    job_id = embedded.enqueue("noop")[0]
    lease_until = embedded.now() + timedelta(seconds=3)
    end_lock(embedded, lease_until)

    cycle = embedded.dispatch(HOST_NAME="bert")

    assert lease_left < timedelta(seconds=20)
    assert (cycle.returncode, embedded.job(job_id).status) == (0, "done")
    assert [each.planned_at > lease_until for each in embedded.rows(select(runners))] == [True]


def die_planning(installation: Installation) -> None:
    environment = installation.environment(HOST_NAME="anna")
    planner = subprocess.run([sys.executable, "-c", TAKE_THE_LOCK_AND_DIE], env=environment, check=False)
    assert planner.returncode == -signal.SIGKILL


def end_lock(installation: Installation, lease_until: datetime) -> None:
    """Set the end of the planner's lease."""
    installation.execute(f"UPDATE mayfly_locks SET lease_until = '{lease_until:%Y-%m-%d %H:%M:%S.%f}'")
