"""Two minutes of the real cron daemon."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from mayfly.cli.cron_file import DIRECTORY
from tests.process.cron.programs import IS_ROOT, debian_program, run_installer, wait_for

RUN = Path("/run")


@pytest.mark.slow
def test_cron_starts_a_dispatcher_every_minute(tmp_path: Path) -> None:
    """With the file that scripts/install-cron wrote."""
    if not IS_ROOT:
        pytest.skip("only root can write to /etc/cron.d")
    cron = debian_program("cron", "cron")
    home = tmp_path / "cron's home"
    home.mkdir()
    log = home / "logs/dispatcher.log"

    with installed(home), running(cron):
        came = wait_for(lambda: len(cycles(log)) >= 2, seconds=150)

    assert came, f"cycles seen: {cycles(log)}"
    assert len(cycles(log)) == 2
    assert (home / "mayfly.db").exists()


def cycles(log: Path) -> list[str]:
    lines = log.read_text().splitlines() if log.exists() else []
    return [line for line in lines if "Dispatch cycle started" in line]


@contextmanager
def installed(home: Path) -> Iterator[None]:
    """The entry in the real /etc/cron.d, under a unique name."""
    options = ("--home", home, "--name", f"mayfly-test-{os.getpid()}", "--mailto", "")
    try:
        written = run_installer(DIRECTORY, *options)
        assert written.returncode == 0, written.stderr
        yield
    finally:
        removed = run_installer(DIRECTORY, *options, "--remove")
        assert removed.returncode == 0, removed.stderr
        assert not list(DIRECTORY.glob(f"*mayfly-test-{os.getpid()}*"))


@contextmanager
def running(cron: str) -> Iterator[None]:
    """The daemon of the machine if it runs, which is left alone; otherwise one for this test."""
    if any(process.info["name"] == "cron" for process in psutil.process_iter(["name"])):
        yield
        return
    left_behind = [path for path in (RUN / "crond.pid", RUN / "crond.reboot") if not path.exists()]
    (RUN / "crond.reboot").touch()  # otherwise this daemon would run @reboot jobs
    with subprocess.Popen([cron, "-f"]) as daemon:
        try:
            yield
            assert daemon.poll() is None, "cron ended by itself: does another hold /run/crond.pid?"
        finally:
            wait_for(lambda: not psutil.Process(daemon.pid).children(), seconds=60)
            daemon.terminate()
    for path in left_behind:
        path.unlink(missing_ok=True)
