"""Faults around a cycle: a wall clock that is set, a database that fails in an unknown way, one that is frozen."""

import os
import signal
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from tests.factories import get_row
from tests.process.installation import Installation, wait_until
from tests.servers import PrivateServer, program

SOURCE = Path(__file__).with_name("skewclock.c")


class WallClock:
    """The wall clock of processes that are started with its environment."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / "skew"
        self._library = directory / "skewclock.so"
        self.set(timedelta(0))
        subprocess.run([program("cc"), "-shared", "-fPIC", "-o", self._library, SOURCE, "-ldl"], check=True)

    @property
    def environment(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self._library), "SKEW_FILE": str(self._file)}

    def set(self, step: timedelta) -> None:
        with self._file.open("r+b" if self._file.exists() else "wb") as file:
            file.write(struct.pack("d", step.total_seconds()))


@pytest.mark.every_database
@pytest.mark.parametrize("step", [timedelta(minutes=10), timedelta(minutes=-10), timedelta(days=30)], ids=str)
def test_a_wall_clock_that_is_set_in_mid_cycle_changes_nothing(
    installation: Installation, tmp_path: Path, step: timedelta
) -> None:
    """No job starts early, no retry is moved, nothing is pruned, and the log says what happened."""
    installation.new_interpreters = True
    clock, now = WallClock(tmp_path), installation.now()
    yesterday = now - timedelta(days=1)
    old = installation.enqueue("noop", status="done", finished_at=yesterday, run_at=yesterday, count=20)
    [failing] = installation.enqueue("latch_then_fail")
    [early] = installation.enqueue("noop", run_at=now + timedelta(minutes=5))
    dispatcher = installation.start("dispatcher", KEEP_DONE_DAYS="7", BACKOFF_BASE="60", **clock.environment)
    installation.wait_for_latch()

    clock.set(step)
    [done] = installation.enqueue("noop")
    installation.release_latch()
    assert (*dispatcher.communicate(timeout=90), dispatcher.returncode) == ("", "", 0)

    assert (installation.job(early).status, installation.job(early).claims) == ("pending", 0)
    assert installation.job(done).status == "done"
    delay = get_row(installation.database, failing).run_at - now
    assert timedelta(seconds=20) < delay < timedelta(minutes=5)
    assert all(installation.job(job_id).status == "done" for job_id in old)
    assert f"wall clock was set by {step.total_seconds():+.0f}"[:-1] in installation.log


def test_an_unknown_error_of_the_database_ends_no_runner(embedded: Installation) -> None:
    """It is logged and recorded, other runners finish their jobs, and the exit code is 1."""
    [quick] = embedded.enqueue("noop", lane="quick")
    [slow] = embedded.enqueue("latch", lane="slow")
    embedded.execute(
        "CREATE TRIGGER broken BEFORE UPDATE OF finished_at ON mayfly_runners WHEN OLD.lane = 'quick'"
        " BEGIN SELECT RAISE(ABORT, 'something nobody has thought of'); END"
    )
    dispatcher = embedded.start("dispatcher")
    embedded.wait_for_latch()
    wait_until(lambda: "something nobody has thought of" in embedded.log, "the dispatcher has met the error")
    embedded.release_latch()
    _, err = dispatcher.communicate(timeout=90)

    assert (dispatcher.returncode, "Traceback" in err) == (1, False)
    assert "Cycle failed: The database" in embedded.log
    for job in map(embedded.job, (quick, slow)):
        assert (job.status, job.attempts, job.crashes) == ("done", 1, 0)
    [cycle] = embedded.rows("SELECT finished_at FROM mayfly_cycles")
    assert cycle.finished_at is not None


def test_a_unit_of_a_short_window_is_used_when_its_job_starts(embedded: Installation) -> None:
    """Taken ahead for a group of jobs, it would be used in the next second, with that second's own units."""
    embedded.enqueue("call", count=50)

    cycle = embedded.dispatch(HANDLERS="tests.process.sample_handlers.limits", BATCH_SIZE="50", MAX_WORKERS="1")

    assert cycle.returncode == 0
    used = [int(line) for line in (embedded.home / "used").read_text().splitlines()]
    assert len(used) == 50
    assert all(after in (before + 1, 1) for before, after in pairwise(used)), "1: the next window has begun"


@contextmanager
def frozen(server: PrivateServer) -> Iterator[None]:
    """Every process of the server is stopped: it takes connections and statements, and answers nothing."""
    stopped = [each for each in psutil.process_iter() if _belongs_to(server, each)]
    assert stopped
    for each in stopped:
        os.kill(each.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for each in stopped:
            os.kill(each.pid, signal.SIGCONT)


def _belongs_to(server: PrivateServer, process: psutil.Process) -> bool:
    try:
        return process.cwd().startswith(str(server.home))
    except psutil.Error:
        return False


def test_a_frozen_database_keeps_no_cycle_beyond_its_deadline(
    restartable_server: PrivateServer, restartable_url: str, tmp_path: Path
) -> None:
    """Runners are killed at DISPATCH_TIMEOUT, and the dispatcher exits, while the server still does not answer."""
    installation = Installation(tmp_path, restartable_url)
    installation.enqueue("latch", lane="slow")
    installation.enqueue("sleep", '{"seconds": 1}', lane="quick")
    dispatcher = installation.start("dispatcher", WORKER_TIMEOUT="4", DISPATCH_TIMEOUT="6")
    installation.wait_for_latch()

    with frozen(restartable_server):
        _, err = dispatcher.communicate(timeout=80)
        wait_until(lambda: not installation.processes(), "no process is left")

    assert dispatcher.returncode in (1, 2)
    assert "Traceback" not in err
    assert "did not answer before the end of the cycle" in installation.log
    installation.end()
