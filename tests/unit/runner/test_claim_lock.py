"""One runner of a lane claims at a time, and begins where the last one ended; nobody is kept from it for long."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from zlib import crc32

import pytest

from mayfly.clock import host_now, monotonic
from mayfly.queue.claim import ClaimCursor
from runner import claims
from runner.claims import ClaimLock

PATIENCE_SECONDS = 60.0  # long enough that a busy machine is not taken for a turn that was waited for


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "LOCK_TIMEOUT_SECONDS", PATIENCE_SECONDS)


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[int]:
    """A process that has the lane's turn, and keeps it."""
    started = hold_a_turn(tmp_path)
    yield started
    end(started)


def hold_a_turn(directory: Path) -> int:
    """A process that has its turn when this returns. The locks are processes', so threads would not do."""
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


def seconds_to_a_turn(directory: Path, lane: str) -> float:
    started = monotonic()
    with ClaimLock(directory, lane).hold():
        return monotonic() - started


def test_a_second_waits_and_then_claims_all_the_same(
    tmp_path: Path, holder: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A runner that hangs in its claim holds nobody up for longer than this."""
    monkeypatch.setattr(claims, "LOCK_TIMEOUT_SECONDS", 0.3)

    waited = seconds_to_a_turn(tmp_path, "mail")

    assert 0.3 <= waited < 30


def test_a_killed_runners_turn_is_free_at_once(tmp_path: Path, holder: int) -> None:
    """The kernel gives it back with the process."""
    end(holder)

    assert seconds_to_a_turn(tmp_path, "mail") < PATIENCE_SECONDS


def test_another_lane_has_turns_of_its_own(tmp_path: Path, holder: int) -> None:
    """Only those who claim the same rows are in each other's way."""
    assert seconds_to_a_turn(tmp_path, "other") < PATIENCE_SECONDS


def test_a_turn_that_is_over_is_the_next_ones(tmp_path: Path) -> None:
    """Given back as soon as the claim is made, whatever became of it."""
    with suppress(KeyError), ClaimLock(tmp_path, "mail").hold():
        raise KeyError

    started = monotonic()
    end(hold_a_turn(tmp_path))

    assert monotonic() - started < PATIENCE_SECONDS


FRONT = ClaimCursor(1, host_now())


def test_a_front_is_known_to_all_runners_of_the_lane(tmp_path: Path) -> None:
    """To the microsecond; other lanes have their own."""
    ClaimLock(tmp_path, "mail").store_cursor(None, FRONT)

    assert ClaimLock(tmp_path, "mail").cursor() == FRONT
    assert ClaimLock(tmp_path, "other").cursor() is None


def test_lanes_of_one_checksum_have_fronts_of_their_own(tmp_path: Path) -> None:
    """They share a file: what one has noted would let the other pass over jobs that it never looked at."""
    one, other = "plumless", "buckeroo"
    assert crc32(one.encode()) == crc32(other.encode())
    ClaimLock(tmp_path, one).store_cursor(None, FRONT)

    assert (ClaimLock(tmp_path, one).cursor(), ClaimLock(tmp_path, other).cursor()) == (FRONT, None)


def test_a_claim_that_was_not_filled_leaves_no_front(tmp_path: Path) -> None:
    """What comes next may be older."""
    lane = ClaimLock(tmp_path, "mail")
    lane.store_cursor(None, FRONT)
    lane.store_cursor(FRONT, None)

    assert lane.cursor() is None


def test_a_front_is_as_old_as_the_last_look_from_the_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often it was moved since: what came back before it is seen within a second."""
    seconds = [100.0]
    monkeypatch.setattr(claims, "monotonic", lambda: seconds[0])
    lane = ClaimLock(tmp_path, "mail")
    lane.store_cursor(None, FRONT)
    seconds[0] += claims.CURSOR_SECONDS * 0.9
    lane.store_cursor(lane.cursor(), FRONT)
    assert lane.cursor() == FRONT

    seconds[0] += claims.CURSOR_SECONDS * 0.2

    assert lane.cursor() is None


def test_a_front_from_before_a_restart_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host's clock began anew."""
    lane = ClaimLock(tmp_path, "mail")
    lane.store_cursor(None, FRONT)
    monkeypatch.setattr(claims, "monotonic", lambda: 0.0)

    assert lane.cursor() is None
