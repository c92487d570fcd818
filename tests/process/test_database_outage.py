"""The database goes away in the middle of a cycle: the cycle says so, and the next one finishes everything."""

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

SOON = {"BACKOFF_BASE": "0.000001"}  # a booked job fails with its session, and is due again at once
GATED = '{"gate": "go"}'  # runs until `release_latch`


@pytest.fixture
def installed(restartable_url: str, tmp_path: Path) -> Iterator[Installation]:
    """On a server that may be killed."""
    made = Installation(tmp_path, restartable_url)
    made.execute("CREATE TABLE test_ledger (job_id BIGINT)")
    yield made
    made.end()


def started(installation: Installation) -> int:
    """How many runs have begun."""
    runs = installation.home / "runs"
    return len(runs.read_text().splitlines()) if runs.exists() else 0


def finish(installation: Installation) -> None:
    """Cycles until everything is settled."""

    def settles() -> bool:
        installation.dispatch(**SOON)
        return installation.statuses().keys() <= {"done", "dead"}

    wait_until(settles, "all jobs are settled")


def assert_done_once(installation: Installation, ids: list[int]) -> None:
    """Nothing is lost, no attempt is spent, nobody is accused of a crash, and what was booked is booked once."""
    jobs = installation.rows("SELECT * FROM mayfly_jobs ORDER BY id")
    assert [job.id for job in jobs] == ids
    assert {(job.status, job.attempts, job.crashes, job.suspect) for job in jobs} == {("done", 1, 0, 0)}
    booked = [row.job_id for row in installation.rows("SELECT job_id FROM test_ledger ORDER BY job_id")]
    assert booked == [job.id for job in jobs if json_text.decode(job.payload).get("booked")]


def test_a_killed_database_ends_the_cycle_and_costs_nothing(
    installed: Installation, restartable_server: PrivateServer
) -> None:
    """Code 1 and a sentence, before the guard is due; the next cycle finishes everything, and no job is accused."""
    ids = [*in_pairs(installed), *in_pairs(installed, lane="booked", booked=True)]
    cycle = installed.start("dispatcher", BATCH_SIZE="2")
    wait_until(lambda: started(installed) == 16, "in both lanes all have begun, and half of them have ended")

    restartable_server.kill()
    installed.release_latch()
    _, said = cycle.communicate(timeout=60)
    restartable_server.start()
    finish(installed)

    assert cycle.returncode == 1
    assert "Exceeded" not in installed.log, "the dispatcher's guard had nothing to do"
    assert "can't be reached: " in said
    assert "Cycle failed: The database " in installed.log
    assert "Traceback" not in said + installed.log
    assert_done_once(installed, ids)
    assert installed.rows("SELECT worker_id FROM mayfly_runners WHERE finished_at IS NULL") == []
    assert installed.processes() == []


def in_pairs(installation: Installation, booked: bool = False, **columns: Any) -> list[int]:
    """One that takes a moment, and one that runs until `release_latch`, for each of four runners."""
    payloads = [{"seconds": 0.1, "booked": booked}, {"gate": "go", "booked": booked}] * 4
    return [installation.enqueue("witnessed", json_text.encode(each), **columns)[0] for each in payloads]


def test_a_database_that_comes_back_in_time_is_hardly_noticed(
    installed: Installation, restartable_server: PrivateServer
) -> None:
    """Who was busy while it was away goes on with a new connection; all is done in the same cycle."""
    ids = installed.enqueue("witnessed", GATED, count=4)
    cycle = installed.start("dispatcher", BATCH_SIZE="1")
    wait_until(lambda: started(installed) == 4, "all jobs run")

    restartable_server.kill()
    restartable_server.start()
    installed.release_latch()
    _, said = cycle.communicate(timeout=60)

    assert (cycle.returncode, said) == (0, "")
    assert_done_once(installed, ids)


def test_a_restart_uses_no_attempt_of_a_job_in_its_transaction(
    installed: Installation, restartable_server: PrivateServer
) -> None:
    """Its transaction is gone, which is not the handler's failure: the job is released, and runs again."""
    gated_and_booked = '{"gate": "go", "booked": true}'
    ids = installed.enqueue("witnessed", gated_and_booked, count=2, max_attempts=1)
    cycle = installed.start("dispatcher", BATCH_SIZE="1", **SOON)
    wait_until(lambda: started(installed) == 2, "all jobs run")

    restartable_server.kill()
    restartable_server.start()
    installed.release_latch()
    cycle.communicate(timeout=60)
    finish(installed)

    assert_done_once(installed, ids)
    assert installed.rows("SELECT id FROM mayfly_attempts") == []


def test_a_dead_database_is_a_sentence(installed: Installation, restartable_server: PrivateServer) -> None:
    """A cycle that finds no server ends with 1, and cron's mail says what to check."""
    ids = installed.enqueue("witnessed", '{"seconds": 0}')
    restartable_server.kill()

    cycle = installed.dispatch()

    assert cycle.returncode == 1
    assert "can't be reached: " in cycle.stderr
    assert "Check that the server runs and that DATABASE_URL is right." in cycle.stderr
    assert restartable_server.password not in cycle.stderr + installed.log
    assert "Traceback" not in cycle.stderr + installed.log
    restartable_server.start()
    finish(installed)
    assert_done_once(installed, ids)


def test_killed_sessions_are_replaced(installed: Installation, restartable_server: PrivateServer) -> None:
    """An administrator ends all sessions while handlers run: runners and dispatcher go on with new ones."""
    ids = installed.enqueue("witnessed", GATED, count=5)
    cycle = installed.start("dispatcher", BATCH_SIZE="1")
    wait_until(lambda: started(installed) == 5, "all jobs run")

    killed = kill_sessions(installed, restartable_server)
    installed.release_latch()
    _, said = cycle.communicate(timeout=60)

    assert killed >= 5
    assert (cycle.returncode, said) == (0, "")
    assert_done_once(installed, ids)


def test_sessions_killed_again_and_again_lose_nothing(
    installed: Installation, restartable_server: PrivateServer
) -> None:
    """Whatever statement it hits, everything ends done, booked once, and without a traceback."""
    ids = installed.enqueue("witnessed", '{"seconds": 0.03}', count=60, max_attempts=50)
    ids += installed.enqueue("witnessed", '{"seconds": 0.03, "booked": true}', count=60, max_attempts=50)

    killed = sum(disturbed_cycle(installed, restartable_server) for _ in range(6))
    finish(installed)

    jobs = installed.rows("SELECT * FROM mayfly_jobs ORDER BY id")
    assert [(job.id, job.status, job.crashes) for job in jobs] == [(job_id, "done", 0) for job_id in ids]
    booked = [row.job_id for row in installed.rows("SELECT job_id FROM test_ledger ORDER BY job_id")]
    assert booked == ids[60:]
    assert "Traceback" not in installed.log
    assert killed > 0


def disturbed_cycle(installation: Installation, server: PrivateServer) -> int:
    """A cycle whose sessions are all killed as soon as a few more jobs have begun; how many sessions that were."""
    cycle = installation.start("dispatcher", BATCH_SIZE="4", **SOON)
    killed, next_at = 0, started(installation) + 5

    def may_go_on() -> bool:
        return cycle.poll() is not None or started(installation) >= next_at

    while cycle.poll() is None:
        wait_until(may_go_on, "five more jobs", 60)
        killed += kill_sessions(installation, server)
        next_at = started(installation) + 5
    assert "Traceback" not in cycle.communicate()[1]
    return killed


def kill_sessions(installation: Installation, server: PrivateServer) -> int:
    """All that work on this installation's database; how many there were."""
    installation.database.close()
    name = make_url(installation.url).database
    if server.is_postgres:
        return len(server.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"))
    sessions = server.execute(f"SELECT id FROM information_schema.processlist WHERE db = '{name}'")
    for (session,) in sessions:
        with suppress(DBAPIError):  # one that has just gone by itself
            server.execute(f"KILL {session}")
    return len(sessions)
