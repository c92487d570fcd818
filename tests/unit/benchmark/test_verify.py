"""A figure is worth something only if every job ran exactly once."""

import os
import signal
from pathlib import Path

import pytest

from scripts.benchmark import ledger
from scripts.benchmark.verify import Ledgers, NotOnce, check_once


def test_every_job_once_is_right() -> None:
    """In whatever order."""
    check_once([3, 1, 2], range(1, 4))


@pytest.mark.parametrize(
    ("ran", "said"),
    [
        ([1, 3], "1 not at all, 0 more than once, 0 that nobody"),
        ([1, 2, 3, 2], "0 not at all, 1 more than once, 0 that nobody"),
        ([1, 2, 2], "1 not at all, 1 more than once, 0 that nobody"),
        ([1, 2, 3, 4], "0 not at all, 0 more than once, 1 that nobody"),
        ([], "3 not at all"),
    ],
)
def test_a_job_that_ran_twice_or_never_is_seen(ran: list[int], said: str) -> None:
    """Even where the sum would be right."""
    with pytest.raises(NotOnce, match=said):
        check_once(ran, range(1, 4))


def test_what_was_noted_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each id as it was written, those that end in zero bytes too; and how many there are so far."""
    monkeypatch.setenv(ledger.DIRECTORY, str(tmp_path))
    monkeypatch.setenv(ledger.SLOTS, "10")
    noted = [1, 256, 2**40, 1]
    ledger._forget()
    ledgers = Ledgers(tmp_path)

    assert ledgers.count() == 0
    for each in noted:
        ledger.record(each)
    ledger._forget()

    assert list(ledgers.ids()) == noted
    assert ledgers.count() == len(noted)


def test_the_notes_of_a_process_outlive_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fork keeps a ledger of its own, and what is in it is there however the process ended."""
    monkeypatch.setenv(ledger.DIRECTORY, str(tmp_path))
    monkeypatch.setenv(ledger.SLOTS, "10")
    ledger._forget()
    ledger.record(1)
    for job_id in (2, 3):
        pid = os.fork()
        if pid == 0:
            ledger.record(job_id)
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(pid, 0)
    ledger.record(4)
    ledger._forget()

    check_once(Ledgers(tmp_path).ids(), range(1, 5))
    assert len(list(tmp_path.iterdir())) == 3
