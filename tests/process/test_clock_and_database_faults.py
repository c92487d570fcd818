"""Faults around a cycle: the wall clock is set, the database fails in an unknown way or freezes."""

import os
import signal
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from mayfly.process.identity import start_time
from tests.factories import get_row
from tests.process.installation import Installation, wait_until
from tests.servers import PrivateServer, program

SOURCE = Path(__file__).with_name("skewclock.c")


class WallClock:
    """The wall clock of processes started with its environment."""

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
def test_setting_the_wall_clock_in_mid_cycle_changes_nothing(
    installation: Installation, tmp_path: Path, step: timedelta
) -> None:
    """No job starts early, no retry is moved, nothing is pruned, and the change is logged."""
    installation.new_interpreters = True
    clock, now = WallClock(tmp_path), installation.now()
    yesterday = now - timedelta(days=1)
    old = installation.enqueue("noop", status="done", finished_at=yesterday, run_at=yesterday, count=20)
    [failing] = installation.enqueue("gated_then_fail")
    [early] = installation.enqueue("noop", run_at=now + timedelta(minutes=5))
    dispatcher = installation.start("dispatcher", KEEP_DONE_DAYS="7", BACKOFF_BASE="60", **clock.environment)
    installation.wait_for_gate()

    clock.set(step)
    [done] = installation.enqueue("noop")
    installation.open_gate()
    assert (*dispatcher.communicate(timeout=90), dispatcher.returncode) == ("", "", 0)

    assert (installation.job(early).status, installation.job(early).claims) == ("pending", 0)
    assert installation.job(done).status == "done"
    delay = get_row(installation.database, failing).run_at - now
    assert timedelta(seconds=20) < delay < timedelta(minutes=5)
    assert all(installation.job(job_id).status == "done" for job_id in old)
    assert f"wall clock was set by {step.total_seconds():+.0f}"[:-1] in installation.log


def test_an_unknown_database_error_ends_no_runner(embedded: Installation) -> None:
    """It is logged and recorded, other runners finish their jobs, and the exit code is 1."""
    [quick] = embedded.enqueue("noop", lane="quick")
    [slow] = embedded.enqueue("gated", lane="slow")
    embedded.execute(
        "CREATE TRIGGER broken BEFORE UPDATE OF finished_at ON mayfly_runners WHEN OLD.lane = 'quick'"
        " BEGIN SELECT RAISE(ABORT, 'an unknown error'); END"
    )
    dispatcher = embedded.start("dispatcher")
    embedded.wait_for_gate()
    wait_until(lambda: "an unknown error" in embedded.log, "the dispatcher has logged the error")
    embedded.open_gate()
    _, err = dispatcher.communicate(timeout=90)

    assert (dispatcher.returncode, "Traceback" in err) == (1, False)
    assert "Cycle failed: The database" in embedded.log
    for job in map(embedded.job, (quick, slow)):
        assert (job.status, job.attempts, job.crashes) == ("done", 1, 0)
    [cycle] = embedded.rows("SELECT finished_at FROM mayfly_cycles")
    assert cycle.finished_at is not None


@pytest.mark.parametrize(("statement", "due_in"), [("INSERT", 3600), ("UPDATE", 0)], ids=["idle", "with work"])
def test_a_cycle_that_cannot_be_recorded_is_reported(embedded: Installation, statement: str, due_in: int) -> None:
    """By exit code, status and doctor on its host, until the next cycle is recorded."""
    embedded.dispatch()
    embedded.enqueue("noop", run_at=embedded.now() + timedelta(seconds=due_in))
    embedded.execute(
        f"CREATE TRIGGER broken BEFORE {statement} ON mayfly_cycles WHEN NEW.started_at IS NOT NULL"
        " BEGIN SELECT RAISE(ABORT, 'no room for it'); END"
    )

    failed = embedded.dispatch()
    status, doctor = embedded.run("mayfly", "status"), embedded.run("mayfly", "doctor")
    embedded.execute("DROP TRIGGER broken")
    embedded.dispatch()
    later = embedded.run("mayfly", "status")

    assert (failed.returncode, status.returncode, later.returncode) == (1, 1, 0)
    for each in (status, doctor):
        assert "could not be recorded" in each.stdout
        assert "no room for it" in each.stdout
    assert "No problems." in later.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small file system")
def test_a_full_disk_is_reported(tmp_path: Path) -> None:
    """SQLite cannot even be read then: status and doctor explain what to do. Nothing is lost."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", disk], check=True)
    installation = Installation(tmp_path, f"sqlite:///{disk}/mayfly.db")
    try:
        installation.enqueue("noop")
        installation.dispatch()
        with suppress(OSError), (disk / "ballast").open("wb", buffering=0) as ballast:
            while True:
                ballast.write(bytes(1024))
        failed = installation.dispatch()
        status, doctor = installation.run("mayfly", "status"), installation.run("mayfly", "doctor")
        (disk / "ballast").unlink()
        recovered = installation.dispatch()

        assert (failed.returncode, status.returncode, doctor.returncode, recovered.returncode) == (1, 1, 1, 0)
        assert "Free disk space" in status.stderr
        assert "Free disk space" in doctor.stdout
    finally:
        installation.end()
        subprocess.run(["umount", "--lazy", disk], check=True)


def test_a_unit_of_a_short_window_is_used_when_its_job_starts(embedded: Installation) -> None:
    """A unit reserved earlier for a group of jobs would be used in the next second, on top of that second's units."""
    embedded.enqueue("call", count=50)

    cycle = embedded.dispatch(HANDLERS="tests.process.sample_handlers.limits", BATCH_SIZE="50", MAX_WORKERS="1")

    assert cycle.returncode == 0
    used = [int(line) for line in (embedded.home / "used").read_text().splitlines()]
    assert len(used) == 50
    assert all(after in (before + 1, 1) for before, after in pairwise(used)), "1: the next window has begun"


@contextmanager
def frozen(server: PrivateServer) -> Iterator[None]:
    """All processes of the server are stopped: it accepts connections and statements, and does not answer."""
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
    """Runners are killed at DISPATCH_TIMEOUT and the dispatcher exits, without an answer of the server."""
    installation = Installation(tmp_path, restartable_url)
    installation.enqueue("gated", lane="slow")
    installation.enqueue("sleep", '{"seconds": 1}', lane="quick")
    started = time.monotonic()
    dispatcher = installation.start("dispatcher", WORKER_TIMEOUT="4", DISPATCH_TIMEOUT="6")
    installation.wait_for_gate()

    with frozen(restartable_server):
        _, err = dispatcher.communicate(timeout=80)
        seconds = time.monotonic() - started
        wait_until(lambda: not installation.processes(), "no process is left")

    assert dispatcher.returncode in (1, 2)
    assert seconds < 60, "it would wait for the server without a limit"
    assert "Traceback" not in err
    assert "did not answer in time" in installation.log
    installation.end()


def test_a_runner_that_had_exited_is_not_reported_as_timed_out(embedded: Installation) -> None:
    """The dispatcher notices the exit after its deadline: nothing was killed, and the cycle did not time out."""
    embedded.enqueue("gated")
    dispatcher = embedded.start("dispatcher", WORKER_TIMEOUT="2", DISPATCH_TIMEOUT="3")
    embedded.wait_for_gate()
    started, [runner] = time.monotonic(), embedded.runner_pids()

    os.kill(dispatcher.pid, signal.SIGSTOP)
    embedded.open_gate()
    wait_until(lambda: start_time(runner) is None, "the runner has exited")
    time.sleep(max(0.0, started + 3 - time.monotonic()))  # until the deadline has certainly passed
    os.kill(dispatcher.pid, signal.SIGCONT)
    dispatcher.communicate(timeout=60)

    assert "completed successfully" in embedded.log
    assert "timed out" not in embedded.log
    assert "Exceeded 3s timeout" not in embedded.log
    assert dispatcher.returncode == 0
    [row] = embedded.rows("SELECT ending, exit_code FROM mayfly_runners")
    assert (row.ending, row.exit_code) == ("ok", 0)
