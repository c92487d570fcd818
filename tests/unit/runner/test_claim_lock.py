"""One runner of a lane claims at a time and continues where the last claim ended; the wait is bounded."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from mayfly.clock import host_now, monotonic
from mayfly.queue.count import ClaimCursor
from runner import claims
from runner.claims import ClaimLock, job_cursor, store_job_cursor

TIMEOUT_SECONDS = 60.0  # long enough that a busy machine is not mistaken for a wait for the lock


@pytest.fixture(autouse=True)
def _lock_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "LOCK_TIMEOUT_SECONDS", TIMEOUT_SECONDS)


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[int]:
    """A process that holds the lane's claim lock."""
    started = hold_claim_lock(tmp_path)
    yield started
    end(started)


def hold_claim_lock(directory: Path) -> int:
    """A process that holds the lock when this returns. Locks belong to processes, so a thread would not do."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        with ClaimLock(directory, "mail").hold():
            os.write(writing, b".")
            signal.pause()
    os.read(reading, 1)
    os.close(reading)
    os.close(writing)
    return pid


def end(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except (ChildProcessError, ProcessLookupError):
        return


def seconds_to_the_lock(directory: Path, lane: str) -> float:
    started = monotonic()
    with ClaimLock(directory, lane).hold():
        return monotonic() - started


def test_a_second_runner_claims_after_the_timeout(
    tmp_path: Path, holder: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A runner that hangs in its claim delays others no longer than this."""
    monkeypatch.setattr(claims, "LOCK_TIMEOUT_SECONDS", 0.3)

    waited = seconds_to_the_lock(tmp_path, "mail")

    assert 0.3 <= waited < 30


def test_the_lock_of_a_killed_runner_is_free_at_once(tmp_path: Path, holder: int) -> None:
    """The kernel releases it with the process."""
    end(holder)

    assert seconds_to_the_lock(tmp_path, "mail") < TIMEOUT_SECONDS


def test_each_lane_has_its_own_lock(tmp_path: Path, holder: int) -> None:
    """Only runners that claim the same rows wait for each other."""
    assert seconds_to_the_lock(tmp_path, "other") < TIMEOUT_SECONDS


def test_the_lock_is_released_after_a_claim(tmp_path: Path) -> None:
    """It is released when the claim is made, whether it succeeded or not."""
    with suppress(KeyError), ClaimLock(tmp_path, "mail").hold():
        raise KeyError

    started = monotonic()
    end(hold_claim_lock(tmp_path))

    assert monotonic() - started < TIMEOUT_SECONDS


CURSOR = [1, "2026-01-02 03:04:05.678901", 7]


def test_the_cursor_of_jobs_is_exact(tmp_path: Path) -> None:
    """To the microsecond."""
    stored = ClaimCursor(1, host_now())
    store_job_cursor(ClaimLock(tmp_path, "mail"), None, stored)

    assert job_cursor(ClaimLock(tmp_path, "mail")) == stored


@pytest.mark.parametrize("content", [b"", b"[12", b"{}", b"\xff"])
def test_a_damaged_cursor_is_ignored(tmp_path: Path, content: bytes) -> None:
    """A process may be killed while it writes it; an earlier version wrote another format."""
    lane = ClaimLock(tmp_path, "mail")
    lane.store_cursor(None, CURSOR)
    [path] = tmp_path.iterdir()
    path.write_bytes(content)

    assert lane.cursor() is None


def test_all_runners_of_a_lane_share_its_cursor(tmp_path: Path) -> None:
    """Other lanes have their own."""
    ClaimLock(tmp_path, "mail").store_cursor(None, CURSOR)

    assert ClaimLock(tmp_path, "mail").cursor() == CURSOR
    assert ClaimLock(tmp_path, "other").cursor() is None


def test_a_claim_that_was_not_full_clears_the_cursor(tmp_path: Path) -> None:
    """The next job may be older."""
    lane = ClaimLock(tmp_path, "mail")
    lane.store_cursor(None, CURSOR)
    lane.store_cursor(CURSOR, None)

    assert lane.cursor() is None


def test_a_cursor_ages_from_the_last_claim_without_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it was moved, a job that returned before it is found within a second."""
    seconds = [100.0]
    monkeypatch.setattr(claims, "monotonic", lambda: seconds[0])
    lane = ClaimLock(tmp_path, "mail")
    lane.store_cursor(None, CURSOR)
    seconds[0] += claims.CURSOR_SECONDS * 0.9
    lane.store_cursor(lane.cursor(), CURSOR)
    assert lane.cursor() == CURSOR

    seconds[0] += claims.CURSOR_SECONDS * 0.2

    assert lane.cursor() is None


def test_a_cursor_from_before_a_reboot_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host's monotonic clock has started again."""
    lane = ClaimLock(tmp_path, "mail")
    lane.store_cursor(None, CURSOR)
    monkeypatch.setattr(claims, "monotonic", lambda: 0.0)

    assert lane.cursor() is None
