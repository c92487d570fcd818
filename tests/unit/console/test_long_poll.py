"""Long polls: one query for all waiters, one waiter woken per job, and every wait ends."""

import asyncio
from collections import Counter
from collections.abc import Mapping

import pytest

from console import long_poll
from console.long_poll import LongPoll
from mayfly.clock import monotonic

LONG_SECONDS = 120.0  # a wait of this length means that a waiter was forgotten


@pytest.fixture
def _frequent_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_poll, "POLL_SECONDS", 0.05)


@pytest.fixture
def _rare_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """No regular query while a test runs."""
    monkeypatch.setattr(long_poll, "POLL_SECONDS", LONG_SECONDS)


class JobCounts:
    """Due jobs by lane, and the queries for them."""

    def __init__(self, **due: int) -> None:
        self.due = Counter(due)
        self.queries: list[Mapping[str, int]] = []

    async def count(self, max_by_lane: Mapping[str, int]) -> Mapping[str, int]:
        self.queries.append(dict(max_by_lane))
        return {lane: min(self.due[lane], cap) for lane, cap in max_by_lane.items()}


def in_future(seconds: float) -> float:
    return monotonic() + seconds


def test_a_wait_ends_at_once_if_a_job_is_due() -> None:
    """With a single query."""
    counts = JobCounts(mail=1)

    assert asyncio.run(LongPoll(counts.count).wait(["mail"], in_future(LONG_SECONDS)))
    assert counts.queries == [{"mail": 1}]


def test_a_wait_of_zero_seconds_still_queries() -> None:
    """Exactly once."""
    counts = JobCounts()

    assert not asyncio.run(LongPoll(counts.count).wait(["mail"], in_future(0)))
    assert len(counts.queries) == 1


@pytest.mark.usefixtures("_frequent_polls")
def test_many_waiters_share_queries() -> None:
    """500 waiters need no more queries than one."""
    counts = JobCounts()

    async def wait_500_times() -> list[bool]:
        polls, until = LongPoll(counts.count), in_future(0.12)
        return await asyncio.gather(*(polls.wait(["mail"], until) for _ in range(500)))

    assert not any(asyncio.run(wait_500_times()))
    assert max(each["mail"] for each in counts.queries) == 500
    assert len(counts.queries) <= 6


@pytest.mark.usefixtures("_frequent_polls")
def test_each_job_wakes_one_waiter_in_order_of_arrival() -> None:
    """The others continue to wait."""
    counts = JobCounts(mail=2)

    async def count_and_take(max_by_lane: Mapping[str, int]) -> Mapping[str, int]:
        found = await counts.count(max_by_lane)
        counts.due.clear()
        return found

    async def wait_five_times() -> list[bool]:
        polls, until = LongPoll(count_and_take), in_future(LONG_SECONDS)
        waiting = [asyncio.create_task(polls.wait(["mail"], until)) for _ in range(5)]
        while len(counts.queries) < 2:
            await asyncio.wait(waiting, timeout=0.01)
        polls.close()
        return await asyncio.gather(*waiting)

    assert asyncio.run(wait_five_times()) == [True, True, False, False, False]
    assert [each["mail"] for each in counts.queries[:2]] == [5, 3]


@pytest.mark.usefixtures("_frequent_polls")
def test_a_waiter_woken_in_vain_waits_for_the_next_regular_query() -> None:
    """A locked job must not cause a thousand queries per second."""
    counts = JobCounts(mail=1)

    async def wait_again() -> None:
        polls = LongPoll(counts.count)
        found_nothing = False
        until = in_future(0.2)
        while monotonic() < until:
            found_nothing = await polls.wait(["mail"], until, found_nothing)

    asyncio.run(wait_again())

    assert len(counts.queries) <= 7


@pytest.mark.usefixtures("_rare_polls")
def test_a_nudge_queries_at_once() -> None:
    """So a job enqueued over HTTP does not wait for the next regular query."""
    counts = JobCounts()

    async def enqueue() -> bool:
        polls = LongPoll(counts.count)
        waiting = asyncio.create_task(polls.wait(["mail"], in_future(LONG_SECONDS)))
        while not counts.queries:
            await asyncio.wait([waiting], timeout=0)
        counts.due["mail"] += 1
        polls.nudge()
        return await asyncio.wait_for(waiting, LONG_SECONDS / 2)

    assert asyncio.run(enqueue())


def test_a_failed_query_is_raised_to_every_waiter() -> None:
    """The next waiter causes a new query."""
    counts, is_broken = JobCounts(mail=1), True

    async def count(max_by_lane: Mapping[str, int]) -> Mapping[str, int]:
        if is_broken:
            raise ConnectionError("away")
        return await counts.count(max_by_lane)

    async def wait_before_and_after() -> bool:
        nonlocal is_broken
        polls = LongPoll(count)
        found = await asyncio.gather(
            *(polls.wait(["mail"], in_future(LONG_SECONDS)) for _ in range(3)), return_exceptions=True
        )
        assert [type(each) for each in found] == [ConnectionError] * 3
        is_broken = False
        return await polls.wait(["mail"], in_future(LONG_SECONDS))

    assert asyncio.run(wait_before_and_after())


@pytest.mark.parametrize("closes_first", [True, False])
def test_close_ends_all_waits(closes_first: bool) -> None:
    """Those in progress, and those that begin later."""

    async def close() -> bool:
        polls = LongPoll(JobCounts().count)
        if closes_first:
            polls.close()
            return await polls.wait(["mail"], in_future(LONG_SECONDS))
        waiting = asyncio.create_task(polls.wait(["mail"], in_future(LONG_SECONDS)))
        await asyncio.wait([waiting], timeout=0)
        polls.close()
        return await waiting

    started = monotonic()

    assert not asyncio.run(close())
    assert monotonic() - started < LONG_SECONDS / 2
