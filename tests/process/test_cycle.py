"""One cycle, end to end, in real processes."""

import re
from collections import Counter
from datetime import timedelta
from itertools import pairwise

import pytest
from sqlalchemy import make_url, select

from mayfly import json_text
from mayfly.schema.metadata import attempts, cycles, runners
from tests.databases import Databases
from tests.factories import get_row
from tests.process.installation import Installation, most_at_once, wait_until

SUMMARY = re.compile(r"\[DISPATCHER\] (Pending jobs|Workers spawned|Successful workers|Failed workers): (\d+)$", re.M)


@pytest.mark.every_database
def test_a_cycle_drains_its_lane(installation: Installation) -> None:
    """23 pending jobs are run by five runners, each job once; the exit code is 0, and nothing is printed."""
    installation.enqueue("record_run", count=23)

    cycle = installation.dispatch()

    assert (cycle.returncode, cycle.stdout, cycle.stderr) == (0, "", "")
    assert installation.statuses() == {"done": 23}
    ran = [line.split()[0] for line in (installation.home / "recorded_runs").read_text().splitlines()]
    assert len(ran) == len(set(ran)) == 23
    assert "Calculated worker count: 5 (pending=23, batch=5, max=5)" in installation.log


def test_an_idle_cycle_spawns_no_runner_and_is_recorded(installation: Installation) -> None:
    """The exit code is 0, and log and cycle row show it."""
    installation.enqueue("noop", run_at=installation.now() + timedelta(hours=1))

    cycle = installation.dispatch()

    assert (cycle.returncode, cycle.stdout, cycle.stderr) == (0, "", "")
    assert "[DISPATCHER] No pending jobs, skipping worker spawn" in installation.log
    row = installation.rows(select(cycles))[0]
    assert (row.exit_code, row.pending, row.planned, row.spawned, row.note) == (0, 0, 0, 0, None)
    assert row.started_at <= row.finished_at
    assert installation.rows(select(runners)) == []


def test_the_summary_agrees_with_the_tables(installation: Installation) -> None:
    """Block, line per lane, cycle row, totals, runner rows and jobs have the same figures."""
    for type_name, number in {"noop": 7, "retry_later": 3, "cancel": 2, "give_up": 1, "snooze": 1}.items():
        installation.enqueue(type_name, count=number)
    installation.enqueue("noop", count=3, lane="mail")
    settled = {"done": 10, "failed": 3, "cancelled": 2, "dead": 1, "snoozed": 1}

    cycle = installation.dispatch(MAX_WORKERS="2")

    assert cycle.returncode == 0
    block = dict(SUMMARY.findall(installation.log.partition("Dispatch Summary:")[2]))
    assert block == {"Pending jobs": "17", "Workers spawned": "3", "Successful workers": "3", "Failed workers": "0"}
    row = installation.rows(select(cycles))[0]
    assert (row.pending, row.spawned, row.successful, row.failed, row.exit_code) == (17, 3, 3, 0, 0)
    totals = installation.rows("SELECT outcome, SUM(jobs) AS jobs FROM mayfly_totals GROUP BY outcome")
    assert {each.outcome: int(each.jobs) for each in totals} == settled
    logged: Counter[str] = Counter()
    for line in installation.lane_lines():
        logged.update({name: int(line[name]) for name in settled if name in line})
    assert logged == settled
    assert installation.statuses() == {"done": 10, "pending": 4, "cancelled": 2, "dead": 1}
    assert len(installation.rows("SELECT id FROM mayfly_attempts")) == settled["failed"] + settled["dead"]


def test_a_runner_row_is_complete(embedded: Installation) -> None:
    """It has exit, jobs, memory and CPU time."""
    embedded.enqueue("sleep", '{"seconds": 0.05}', count=2)
    embedded.enqueue("retry_later")

    embedded.dispatch()

    row = embedded.rows(select(runners))[0]
    assert (row.ending, row.exit_code, row.signal) == ("ok", 0, None)
    assert (row.jobs_done, row.jobs_failed) == (2, 1)
    assert row.planned_at <= row.heartbeat_at <= row.finished_at
    assert 50 / 3 <= row.average_ms < 5000
    assert 1 << 20 < row.peak_memory < 1 << 30
    assert 0 < row.cpu_ms < 10_000
    assert embedded.job(1).worker_id == row.worker_id


def test_a_failed_job_waits_for_its_backoff_and_is_done(installation: Installation) -> None:
    """One failure uses one attempt and waits 2 × base; the next cycle after that runs the job."""
    job_id = installation.enqueue("fail", '{"times": 1}')[0]
    first = installation.dispatch(BACKOFF_BASE="1")
    failed = get_row(installation.database, job_id)
    wait_until(lambda: installation.now() > failed.run_at, "the job is due again")

    second = installation.dispatch()

    assert (first.returncode, failed.status, failed.attempts) == (0, "pending", 1)
    assert failed.last_error.startswith("RuntimeError: failing as asked")
    attempt = installation.rows(select(attempts))[0]
    assert 1.1 < (failed.run_at - attempt.finished_at).total_seconds() <= 2.2
    job = get_row(installation.database, job_id)
    assert (second.returncode, job.status, job.attempts) == (0, "done", 2)
    assert job.started_at >= failed.run_at
    assert json_text.decode(job.result) == {"succeeded_at_attempt": 2}


def test_a_job_that_keeps_failing_is_dead(embedded: Installation) -> None:
    """After max_attempts (5) failures, with its last error and one row per attempt."""
    job_id = embedded.enqueue("always_fail", priority=0)[0]
    embedded.enqueue("sleep", '{"seconds": 0.1}', count=12)  # keeps a runner busy until the job is due again

    cycle = embedded.dispatch(BATCH_SIZE="1", MAX_WORKERS="1")

    job = embedded.job(job_id)
    assert (cycle.returncode, job.status, job.attempts) == (0, "dead", 5)
    assert job.last_error.startswith("RuntimeError: failed at attempt 5")
    history = embedded.rows(select(attempts).order_by(attempts.c.id))
    assert [(each.attempt, each.outcome) for each in history] == [(number, "failed") for number in range(1, 6)]
    assert len({each.fingerprint for each in history}) == 1


def test_a_handler_chooses_its_outcome(installation: Installation) -> None:
    """Result, Snooze, Cancel, Dead, Retry and a payload that does not fit the model, in one batch."""
    endings = {
        "answer": ("done", 1),
        "snooze": ("pending", 0),
        "cancel": ("cancelled", 1),
        "give_up": ("dead", 1),
        "retry_later": ("pending", 1),
        "sleep": ("dead", 1),
    }
    reasons = {
        "cancel": "no longer wanted",
        "give_up": "no such customer",
        "retry_later": "the other side is busy",
        "sleep": "the payload does not match tests.basic_handlers.sleep: seconds: Input should be a valid number",
    }
    ids = {name: installation.enqueue(name, '{"seconds": "soon"}')[0] for name in endings}

    cycle = installation.dispatch(BATCH_SIZE="10")

    assert (cycle.returncode, cycle.stderr) == (0, "")
    jobs = {name: get_row(installation.database, job_id) for name, job_id in ids.items()}
    assert {name: (job.status, job.attempts) for name, job in jobs.items()} == endings
    errors = {name: (job.last_error or "").partition(", unable")[0] for name, job in jobs.items() if job.last_error}
    assert errors == reasons
    assert json_text.decode(jobs["answer"].result) == {"answer": 42}
    for name in ("snooze", "retry_later"):
        assert 3590 < (jobs[name].run_at - installation.now()).total_seconds() < 3601


def test_a_handler_enqueues_through_its_runners_connection(embedded: Installation) -> None:
    """`enqueue` in a handler needs no settings, no second connection and no transaction."""
    job_id = embedded.enqueue("enqueue_child")[0]

    cycle = embedded.dispatch()

    assert (cycle.returncode, embedded.job(job_id).status) == (0, "done")
    child = embedded.rows("SELECT * FROM mayfly_jobs WHERE group_key = :key", key=f"child of {job_id}")[0]
    assert (child.type, child.status, child.lane) == ("noop", "pending", "default")


def test_a_retried_job_enqueues_its_children_once(installation: Installation) -> None:
    """Jobs enqueued by failed attempts are rolled back."""
    ids = installation.enqueue("enqueue_until_third", count=10)

    wait_until(lambda: installation.dispatch() and installation.statuses().get("done") == 10, "all are done")

    children = [row.group_key for row in installation.rows("SELECT group_key FROM mayfly_jobs WHERE type = 'noop'")]
    assert sorted(children) == sorted(f"child of {job_id}" for job_id in [*ids, *ids])


@pytest.mark.parametrize("engine_name", ["mariadb", "postgres"], indirect=True)
def test_a_runner_has_one_connection_and_an_idle_host_none(
    installation: Installation, engine_name: str, databases: Databases
) -> None:
    """A cycle has one session per runner and one for the dispatcher; none is left afterwards."""
    installation.enqueue("enqueue_child", count=3)
    installation.enqueue("gated", count=12)
    installation.database.close()
    name = make_url(installation.url).database
    server = databases.server(engine_name)
    table, column = (
        ("pg_stat_activity", "datname") if server.is_postgres else ("information_schema.processlist", "db")
    )

    def sessions() -> int:
        return int(server.execute(f"SELECT COUNT(*) FROM {table} WHERE {column} = '{name}'")[0][0])

    of_fixtures = sessions()
    seen = [0]

    def are_all_open() -> bool:
        seen.append(sessions() - of_fixtures)
        return max(seen) >= 3

    cycle = installation.start("dispatcher")
    wait_until(are_all_open, "three sessions are open")
    installation.open_gate()
    while cycle.poll() is None:
        seen.append(sessions() - of_fixtures)
    wait_until(lambda: sessions() == of_fixtures, "no session is left")

    assert cycle.communicate() == ("", "")
    assert cycle.returncode == 0
    assert max(seen) <= 4


def test_a_free_slot_goes_to_the_next_lane(installation: Installation) -> None:
    """With one slot on the host, one cycle serves three new lanes with different settings, one after the other."""
    for lane in ("first", "second", "third"):
        installation.enqueue("noop", count=3, lane=lane)

    cycle = installation.dispatch(HOST_MAX_WORKERS="1", LANES__FIRST__BATCH_SIZE="4", LANES__SECOND__BATCH_SIZE="3")

    assert (cycle.returncode, installation.statuses()) == (0, {"done": 9})
    ended = installation.rows(select(runners).order_by(runners.c.planned_at))
    assert sorted(each.lane for each in ended) == ["first", "second", "third"]
    assert all(earlier.finished_at <= later.planned_at for earlier, later in pairwise(ended))


def test_waiting_lanes_are_served_in_turn(embedded: Installation) -> None:
    """One slot and three lanes with more work than a window: each is served within three cycles."""
    for lane in ("first", "second", "third"):
        embedded.enqueue("sleep", '{"seconds": 0.3}', count=20, lane=lane)

    for _ in range(3):
        embedded.dispatch(HOST_MAX_WORKERS="1", WORKER_TIMEOUT="1.5", DISPATCH_TIMEOUT="4")

    ended = embedded.rows(select(runners).order_by(runners.c.planned_at))
    assert [each.lane for each in ended] == ["first", "second", "third"]
    assert embedded.statuses()["pending"] > 40


def test_lanes_of_a_pool_share_its_cap(embedded: Installation) -> None:
    """Two lanes with five batches each start one of the two runners of their pool; an external lane starts none."""
    for lane in ("mail", "digest", "outside"):
        embedded.enqueue("sleep", '{"seconds": 0.05}', count=25, lane=lane)

    cycle = embedded.dispatch(
        POOLS__EMAIL="2",
        LANES__MAIL__POOL="email",
        LANES__DIGEST__POOL="email",
        LANES__DIGEST__RANK="1",
        LANES__OUTSIDE__EXTERNAL="true",
    )

    assert cycle.returncode == 0
    assert embedded.statuses() == {"done": 50, "pending": 25}
    ended = embedded.rows(select(runners))
    assert most_at_once([(each.planned_at, each.finished_at) for each in ended]) == 2
    first_ended_at = min(each.finished_at for each in ended)
    assert {each.lane for each in ended if each.planned_at < first_ended_at} == {"mail", "digest"}
    assert "cut by external" in embedded.log


def test_a_cycle_is_skipped_while_the_previous_one_runs(embedded: Installation) -> None:
    """The second dispatcher of a host and database exits with 0, and the log has the reason."""
    embedded.enqueue("gated")
    running = embedded.start("dispatcher")
    embedded.wait_for_gate()

    second = embedded.dispatch()

    assert running.poll() is None
    assert (second.returncode, second.stdout, second.stderr) == (0, "", "")
    assert "Skipped: the previous cycle of this host still holds the lock" in embedded.log
    embedded.open_gate()
    assert (running.communicate(), running.returncode) == (("", ""), 0)
    assert len(embedded.rows(select(cycles))) == 1


def test_two_installations_on_one_host_do_not_block_each_other(embedded: Installation) -> None:
    """The lock is named after the database: cycles of two databases run concurrently in one STATE_DIR."""
    neighbour = Installation(embedded.home, f"sqlite:///{embedded.home}/neighbour.db")
    neighbour.enqueue("noop")
    embedded.enqueue("gated")
    running = embedded.start("dispatcher")
    embedded.wait_for_gate()

    cycle = neighbour.dispatch()

    assert running.poll() is None
    assert (cycle.returncode, neighbour.statuses()) == (0, {"done": 1})
    neighbour.database.close()
    embedded.open_gate()
    assert (running.communicate(), running.returncode) == (("", ""), 0)
