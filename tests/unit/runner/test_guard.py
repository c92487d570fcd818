"""The deadline of the guard while jobs run concurrently."""

import faulthandler
import os
import signal
import socket
from collections.abc import Iterator
from math import inf
from pathlib import Path
from threading import Timer

import pytest

from mayfly.clock import monotonic
from mayfly.process import timing
from mayfly.process.status_page import StatusPage
from runner.guard import HARD_EXIT_STEP_SECONDS, Cause, Guard

FAR = 10_000.0  # no timer may fire during the tests
LEEWAY = timing().hard_exit_seconds + timing().settle_seconds


@pytest.fixture
def page(tmp_path: Path) -> StatusPage:
    return StatusPage(tmp_path / "worker-1-1.page")


@pytest.fixture
def ends_at() -> float:
    """When a handler is interrupted: shortly after the end of the window."""
    return monotonic() + FAR


@pytest.fixture
def guard(ends_at: float, page: StatusPage) -> Iterator[Guard]:
    yield Guard(ends_at - timing().finish_seconds, page)
    faulthandler.cancel_dump_traceback_later()


def test_the_hard_deadline_leaves_time_to_settle(guard: Guard, page: StatusPage, ends_at: float) -> None:
    """Interrupted at its limit, abandoned two seconds later, and a second to write the outcome."""
    guard.arm_concurrent(inf)
    without_limit = page.hard_deadline
    guard.arm_concurrent(ends_at - 5000)

    assert (without_limit, page.hard_deadline) == pytest.approx((ends_at + LEEWAY, ends_at - 5000 + LEEWAY))


def test_the_hard_deadline_moves_forward_at_once_and_back_in_steps(guard: Guard, page: StatusPage) -> None:
    """It is never too late; moving it for every job that ends would start a thread each time."""
    first = monotonic() + 5000
    seen = []
    for limit in (first, first + HARD_EXIT_STEP_SECONDS / 2, first + HARD_EXIT_STEP_SECONDS, first):
        guard.arm_concurrent(limit)
        seen.append(page.hard_deadline - LEEWAY)

    assert seen == pytest.approx([first, first, first + HARD_EXIT_STEP_SECONDS, first])


def test_the_hard_deadline_of_sequential_jobs_is_restored(guard: Guard, page: StatusPage, ends_at: float) -> None:
    """When no concurrent job is running any more."""
    guard.arm_concurrent(ends_at - 5000)
    guard.reset_concurrent()

    assert page.hard_deadline == pytest.approx(ends_at + timing().hard_exit_seconds)


def test_the_timeout_of_a_job_comes_before_other_causes(guard: Guard, ends_at: float) -> None:
    """A job past its timeout has timed out, even if another deadline has passed too."""
    assert guard.ends_at == pytest.approx(ends_at)
    assert (guard.cause_of(monotonic() - 1), guard.cause_of(inf)) == (Cause.TIMEOUT, Cause.STOP)


def test_a_stop_signal_ends_a_pause(guard: Guard) -> None:
    """Its handler has run then: the runner claims nothing more."""
    received: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _frame: received.append(number))
    stop = Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGTERM))
    stop.start()

    guard.pause(FAR)

    stop.join()
    signal.signal(signal.SIGTERM, before)
    assert received == [signal.SIGTERM]


def test_a_stop_signal_just_before_a_pause_ends_it(guard: Guard) -> None:
    """Its handler may run between the last check of the caller and the pause."""
    guard.stopped_by = "SIGTERM"

    guard.pause(FAR)


def test_input_ends_a_pause(guard: Guard) -> None:
    """As of a wake-up; also input that has been there before."""
    read, write = socket.socketpair()
    with read, write:
        write.send(b"x")

        guard.pause(FAR, read)


def test_a_signal_of_a_pause_does_not_end_the_next_one(guard: Guard) -> None:
    """Otherwise a runner that waits would use a whole processor."""
    before = signal.signal(signal.SIGALRM, lambda _number, _frame: None)
    signal.setitimer(signal.ITIMER_REAL, 0.001)
    guard.pause(FAR)
    started = monotonic()

    guard.pause(0.02)

    signal.signal(signal.SIGALRM, before)
    assert monotonic() - started >= 0.02
