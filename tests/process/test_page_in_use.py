"""The page while its runner writes it: a dispatcher looks at any moment, and a kill may come at any moment."""

import os
import signal
import time
from pathlib import Path

from mayfly.page import Page, RunningJob, read_page

DEADLINE = 12345.6789
LOOKS = 100_000


def test_a_page_is_never_found_half_written(tmp_path: Path) -> None:
    """However often one looks while jobs come and go: the deadline stands, and a job is there whole or not at all."""
    path = tmp_path / "worker-1-1.page"
    page = Page(path)
    page.expect_end_by(DEADLINE)
    writer = os.fork()
    if writer == 0:
        write_for_ever(path)
    deadline = time.monotonic() + 30
    while not page.read().done:
        assert time.monotonic() < deadline

    seen = [page.read() for _ in range(LOOKS)]
    os.kill(writer, signal.SIGKILL)
    os.waitpid(writer, 0)

    assert {each.hard_deadline for each in seen} == {DEADLINE}
    assert {each.running for each in seen} <= {(), (RunningJob(7, 1.5, 20.0),)}
    assert read_page(path) is not None


def write_for_ever(path: Path) -> None:
    page = Page(path)
    page.expect_end_by(DEADLINE)
    while True:
        page.start(7, 1.5, 20.0)
        page.finish(7, 2.5, succeeded=True)
