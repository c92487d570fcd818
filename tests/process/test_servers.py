"""The private servers keep committed data, and leave nothing behind."""

import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

from tests.process.installation import wait_until
from tests.servers import PRIVATE, DidNotStart, PrivateServer

START_ONE = """
import sys
from tests.process.installation import wait_until
from tests.servers import PRIVATE

server = PRIVATE[sys.argv[1]]()
server.start()
print(server.directory, flush=True)
sys.stdin.read()
"""


def test_committed_data_survives_a_kill(restartable_server: PrivateServer) -> None:
    """It is there after the next start, at the same address."""
    restartable_server.create_database("kept")
    engine = create_engine(restartable_server.url("kept"), poolclass=NullPool)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE thing (id INTEGER)"))
        connection.execute(text("INSERT INTO thing VALUES (1)"))

    restartable_server.kill()
    was_running = restartable_server.is_running
    restartable_server.start()

    assert not was_running
    with engine.connect() as connection:
        assert connection.execute(text("SELECT id FROM thing")).all() == [(1,)]
    restartable_server.drop_database("kept")


def test_a_killed_server_does_not_harm_the_next_test(restartable_server: PrivateServer) -> None:
    """Each test finds the server running; this one leaves it killed."""
    assert restartable_server.execute("SELECT 1") == [(1,)]

    restartable_server.kill()


def test_a_server_that_does_not_restart_fails_its_test(restartable_server: PrivateServer) -> None:
    """Only a database that is not available is a reason to skip."""
    other = PRIVATE[restartable_server.engine_name]()
    other.start()
    other.stop()
    shutil.rmtree(other.home / "data")

    with pytest.raises(DidNotStart):
        other.start()

    assert other.leftovers() == []


def test_a_removed_server_leaves_nothing(restartable_server: PrivateServer) -> None:
    """No process, no directory."""
    other = PRIVATE[restartable_server.engine_name]()
    other.start()
    other.restart()

    other.remove()

    assert other.leftovers() == []


def test_a_killed_test_run_leaves_no_server(restartable_server: PrivateServer) -> None:
    """After kill -9 a separate process cleans up."""
    tests = subprocess.Popen(
        [sys.executable, "-c", START_ONE, restartable_server.engine_name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
        text=True,
    )
    assert tests.stdout is not None
    directory = Path(tests.stdout.readline().strip())

    tests.kill()
    tests.communicate()

    wait_until(lambda: not directory.exists(), "the directory is gone")
    wait_until(lambda: not processes_of(directory), "no process is left")


def processes_of(directory: Path) -> list[psutil.Process]:
    return [each for each in psutil.process_iter(["cmdline"]) if str(directory) in str(each.info["cmdline"])]
