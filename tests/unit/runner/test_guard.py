"""The guard while jobs run beside the main thread: until when the process must have ended."""

import faulthandler
from collections.abc import Iterator
from math import inf
from pathlib import Path

import pytest

from mayfly.clock import monotonic
from mayfly.process.status_page import StatusPage
from mayfly.process.timing import timing
from runner.guard import HARD_EXIT_STEP_SECONDS, Cause, Guard

FAR = 10_000.0  # nothing may go off while the tests run
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


def test_the_last_resort_leaves_time_to_settle(guard: Guard, page: StatusPage, ends_at: float) -> None:
    """Interrupted at its limit, left behind two seconds later, and a second to write that down."""
    guard.arm_concurrent(inf)
    without_limit = page.hard_deadline
    guard.arm_concurrent(ends_at - 5000)

    assert (without_limit, page.hard_deadline) == pytest.approx((ends_at + LEEWAY, ends_at - 5000 + LEEWAY))


def test_the_last_resort_comes_forward_at_once_and_moves_back_in_steps(guard: Guard, page: StatusPage) -> None:
    """Never later than it must; to move it for each job that ends would cost a thread each."""
    first = monotonic() + 5000
    seen = []
    for limit in (first, first + HARD_EXIT_STEP_SECONDS / 2, first + HARD_EXIT_STEP_SECONDS, first):
        guard.arm_concurrent(limit)
        seen.append(page.hard_deadline - LEEWAY)

    assert seen == pytest.approx([first, first, first + HARD_EXIT_STEP_SECONDS, first])


def test_for_plain_jobs_it_is_as_it_was(guard: Guard, page: StatusPage, ends_at: float) -> None:
    """When nothing runs beside the main thread any more."""
    guard.arm_concurrent(ends_at - 5000)
    guard.reset_concurrent()

    assert page.hard_deadline == pytest.approx(ends_at + timing().hard_exit_seconds)


def test_a_jobs_own_limit_is_the_first_cause(guard: Guard, ends_at: float) -> None:
    """Whoever is past it has timed out, whatever else is due."""
    assert guard.ends_at == pytest.approx(ends_at)
    assert (guard.cause_of(monotonic() - 1), guard.cause_of(inf)) == (Cause.TIMEOUT, Cause.STOP)
