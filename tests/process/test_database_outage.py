"""The database goes away in the middle of a cycle: the cycle reports it, and the next one finishes all jobs."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url
from sqlalchemy.exc import DBAPIError

from mayfly import json_text
from tests.process.installation import Installation, wait_until
from tests.servers import PrivateServer

SOON = {"BACKOFF_BASE": "0.000001"}  # a job in its transaction fails with its session, and is due again immediately
GATED = '{"gate": "go"}'  # runs until `open_gate`


@pytest.fixture
def installed(restartable_url: str, tmp_path: Path) -> Iterator[Installation]:
    """On a server that may be killed."""
    made = Installation(tmp_path, restartable_url)
    made.execute("CREATE TABLE test_rows (job_id BIGINT)")
    yield made
    made.end()


def runs_begun(installation: Installation) -> int:
    """How many runs have begun."""
    runs = installation.home / "runs"
    return len(runs.read_text().splitlines()) if runs.exists() else 0


def finish(installation: Installation) -> None:
    """Run cycles until everything is settled."""

    def settles() -> bool:
        installation.dispatch(**SOON)
        return installation.statuses().keys() <= {"done", "dead"}

    wait_until(settles, "all jobs are settled")


def assert_done_once(installation: Installation, ids: list[int]) -> None:
    """No job is lost, uses a second attempt or is suspected of a crash, and each row is inserted once."""
    jobs = installation.rows("SELECT * FROM mayfly_jobs ORDER BY id")
    assert [job.id for job in jobs] == ids
    assert {(job.status, job.attempts, job.crashes, job.suspect) for job in jobs} == {("done", 1, 0, 0)}
    inserted = [row.job_id for row in installation.rows("SELECT job_id FROM test_rows ORDER BY job_id")]
    assert inserted == [job.id for job in jobs if json_text.decode(job.payload).get("insert")]


def test_a_killed_database_ends_the_cycle_and_loses_nothing(
    installed: Installation, restartable_server: PrivateServer
) -> None:
    """Exit code 1 and an error message before the guard's deadline; the next cycle finishes all jobs."""
    ids = [*enqueue_pairs(installed), *enqueue_pairs(installed, lane="insert", insert=True)]
    cycle = installed.start("dispatcher", BATCH_SIZE="2")
    wait_until(lambda: runs_begun(installed) == 16, "all jobs of both lanes have begun, and half have ended")

    restartable_server.kill()
    installed.open_gate()
    _, stderr = cycle.communicate(timeout=60)
    restartable_server.start()
    finish(installed)

    assert cycle.returncode == 1
    assert "Exceeded" not in installed.log, "the dispatcher's guard had nothing to do"
    assert "can't be reached: " in stderr
    assert "Cycle failed: The database " in installed.log
    assert "Traceback" not in stderr + installed.log
    assert_done_once(installed, ids)
    assert installed.rows("SELECT worker_id FROM mayfly_runners WHERE finished_at IS NULL") == []
    assert installed.processes() == []


def enqueue_pairs(installation: Installation, insert: bool = False, **columns: Any) -> list[int]:
    """For each of four runners a short job, and one that runs until the gate opens."""
    payloads = [{"seconds": 0.1, "insert": insert}, {"gate": "go", "insert": insert}] * 4
    return [installation.enqueue("locked_run", json_text.encode(each), **columns)[0] for each in payloads]


def test_a_short_outage_goes_unnoticed(installed: Installation, restartable_server: PrivateServer) -> None:
    """A runner that was busy during the outage continues with a new connection; all jobs are done in the cycle."""
    ids = installed.enqueue("locked_run", GATED, count=4)
    cycle = installed.start("dispatcher", BATCH_SIZE="1")
    wait_until(lambda: runs_begun(installed) == 4, "all jobs run")

    restartable_server.kill()
    restartable_server.start()
    installed.open_gate()
    _, stderr = cycle.communicate(timeout=60)

    assert (cycle.returncode, stderr) == (0, "")
    assert_done_once(installed, ids)


def test_a_restart_uses_no_attempt_of_a_job_in_its_transaction(
    installed: Installation, restartable_server: PrivateServer
) -> None:
    """The lost transaction is not the handler's failure: the job is released and runs again."""
    gated_insert = '{"gate": "go", "insert": true}'
    ids = installed.enqueue("locked_run", gated_insert, count=2, max_attempts=1)
    cycle = installed.start("dispatcher", BATCH_SIZE="1", **SOON)
    wait_until(lambda: len(list(installed.home.glob("inserted-*"))) == 2, "both jobs are in their transactions")

    restartable_server.kill()
    restartable_server.start()
    installed.open_gate()
    cycle.communicate(timeout=60)
    finish(installed)

    assert_done_once(installed, ids)
    assert installed.rows("SELECT id FROM mayfly_attempts WHERE outcome <> 'released'") == []


def test_an_unreachable_database_is_an_error_message(
    installed: Installation, restartable_server: PrivateServer
) -> None:
    """The exit code is 1, and the mail of cron explains what to check."""
    ids = installed.enqueue("locked_run", '{"seconds": 0}')
    restartable_server.kill()

    cycle = installed.dispatch()

    assert cycle.returncode == 1
    assert "can't be reached: " in cycle.stderr
    assert "Check that the server runs and that DATABASE_URL is correct." in cycle.stderr
    assert restartable_server.password not in cycle.stderr + installed.log
    assert "Traceback" not in cycle.stderr + installed.log
    restartable_server.start()
    finish(installed)
    assert_done_once(installed, ids)


def test_killed_sessions_are_replaced(installed: Installation, restartable_server: PrivateServer) -> None:
    """An administrator ends all sessions while handlers run: runners and dispatcher open new ones."""
    ids = installed.enqueue("locked_run", GATED, count=5)
    cycle = installed.start("dispatcher", BATCH_SIZE="1")
    wait_until(lambda: runs_begun(installed) == 5, "all jobs run")

    killed = kill_sessions(installed, restartable_server)
    installed.open_gate()
    _, stderr = cycle.communicate(timeout=60)

    assert killed >= 5
    assert (cycle.returncode, stderr) == (0, "")
    assert_done_once(installed, ids)


def test_repeatedly_killed_sessions_lose_nothing(installed: Installation, restartable_server: PrivateServer) -> None:
    """Whichever statement is hit, all jobs are done, each row is inserted once, and there is no traceback."""
    ids = installed.enqueue("locked_run", '{"seconds": 0.03}', count=60, max_attempts=50)
    ids += installed.enqueue("locked_run", '{"seconds": 0.03, "insert": true}', count=60, max_attempts=50)

    killed = sum(disturbed_cycle(installed, restartable_server) for _ in range(6))
    finish(installed)

    jobs = installed.rows("SELECT * FROM mayfly_jobs ORDER BY id")
    assert [(job.id, job.status, job.crashes) for job in jobs] == [(job_id, "done", 0) for job_id in ids]
    inserted = [row.job_id for row in installed.rows("SELECT job_id FROM test_rows ORDER BY job_id")]
    assert inserted == ids[60:]
    assert "Traceback" not in installed.log
    assert killed > 0


def disturbed_cycle(installation: Installation, server: PrivateServer) -> int:
    """A cycle whose sessions are all killed after every few jobs; returns the number of killed sessions."""
    cycle = installation.start("dispatcher", BATCH_SIZE="4", **SOON)
    killed, next_at = 0, runs_begun(installation) + 5

    def is_next_due() -> bool:
        return cycle.poll() is not None or runs_begun(installation) >= next_at

    while cycle.poll() is None:
        wait_until(is_next_due, "five more jobs", 60)
        killed += kill_sessions(installation, server)
        next_at = runs_begun(installation) + 5
    assert "Traceback" not in cycle.communicate()[1]
    return killed


def kill_sessions(installation: Installation, server: PrivateServer) -> int:
    """End all sessions on the database of this installation; returns their number."""
    installation.database.close()
    name = make_url(installation.url).database
    if server.is_postgres:
        return len(server.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"))
    sessions = server.execute(f"SELECT id FROM information_schema.processlist WHERE db = '{name}'")
    for (session,) in sessions:
        with suppress(DBAPIError):  # one that has just ended
            server.execute(f"KILL {session}")
    return len(sessions)
