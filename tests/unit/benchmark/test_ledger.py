"""A figure is valid only if every job ran exactly once."""

import os
import signal
from pathlib import Path

import pytest

from scripts.benchmark import ledger
from scripts.benchmark.ledger import NotOnce, check_once


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(ledger.DIRECTORY, str(tmp_path))
    monkeypatch.setenv(ledger.SLOTS, "10")
    ledger._forget()
    return tmp_path


def test_every_job_once_is_accepted(directory: Path) -> None:
    """In any order, including ids that end in zero bytes."""
    for each in (512, 256, 768):
        ledger.record(each)
    ledger._forget()

    check_once(directory, range(256, 769, 256))


@pytest.mark.parametrize(
    ("ran", "message"),
    [
        ([1, 3], "1 did not run, 0 ran more than once, 0 were never"),
        ([1, 2, 3, 2], "0 did not run, 1 ran more than once, 0 were never"),
        ([1, 2, 2], "1 did not run, 1 ran more than once, 0 were never"),
        ([1, 2, 3, 4], "0 did not run, 0 ran more than once, 1 were never"),
        ([], "3 did not run"),
    ],
)
def test_a_job_that_ran_twice_or_never_is_an_error(directory: Path, ran: list[int], message: str) -> None:
    """Even if the number of runs is right."""
    for each in ran:
        ledger.record(each)
    ledger._forget()

    with pytest.raises(NotOnce, match=message):
        check_once(directory, range(1, 4))


def test_the_notes_of_a_killed_process_are_kept(directory: Path) -> None:
    """A note is in the file as soon as it is made."""
    pid = os.fork()
    if pid == 0:
        ledger.record(1)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)

    check_once(directory, range(1, 2))
