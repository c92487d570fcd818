"""The status page while its runner writes it: a read or a kill may come at any moment."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mayfly.process.status_page import RunningJob, StatusPage, read_status_page
from tests.process.installation import Installation, wait_until

SMALL = "none", "-t", "tmpfs", "-o", "size=4k"
DEADLINE = 12345.6789
LOOKS = 20_000


def test_a_page_is_never_read_half_written(tmp_path: Path) -> None:
    """However often it is read: the deadline is there, and a job is complete or absent."""
    path = tmp_path / "worker-1-1.page"
    page = StatusPage(path)
    page.expect_end_by(DEADLINE)
    writer = os.fork()
    if writer == 0:
        write_endlessly(path)
    wait_until(lambda: page.read().done, "jobs come and go")

    seen = [page.read() for _ in range(LOOKS)]
    os.kill(writer, signal.SIGKILL)
    os.waitpid(writer, 0)

    assert {each.hard_deadline for each in seen} == {DEADLINE}
    assert {each.running for each in seen} <= {(), (RunningJob(7, 1.5, 20.0),)}
    assert read_status_page(path) is not None


def test_a_full_state_directory_is_an_error_message(embedded: Installation) -> None:
    """Otherwise writing a page would raise SIGBUS and kill the dispatcher."""
    state = embedded.home / "state"
    state.mkdir(mode=0o700)
    job_id = embedded.enqueue("noop")[0]
    with mounted(state):
        (state / "full").write_bytes(bytes(4096))
        cycle = embedded.dispatch()

    assert cycle.returncode == 1
    assert "cannot be used: No space left on device" in cycle.stderr
    assert "Traceback" not in cycle.stderr + embedded.log
    assert embedded.job(job_id).status == "pending"


@contextmanager
def mounted(directory: Path) -> Iterator[None]:
    """A file system of one page."""
    if subprocess.run(["mount", *SMALL, directory], check=False, capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        directory.chmod(0o700)
        yield
    finally:
        subprocess.run(["umount", directory], check=True)


def write_endlessly(path: Path) -> None:
    page = StatusPage(path)
    page.expect_end_by(DEADLINE)
    while True:
        page.start(7, 1.5, 20.0)
        page.finish(7, 2.5, succeeded=True)
