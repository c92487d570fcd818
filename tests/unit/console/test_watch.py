"""The watch: one look for all who wait, one waiter for each job, and nobody waits for ever."""

import asyncio
from collections import Counter
from collections.abc import Mapping

import pytest

from console import long_poll as watching
from console.long_poll import LongPoll
from mayfly.clock import monotonic

LONG_SECONDS = 120.0  # whoever waits for so long was forgotten


@pytest.fixture
def _looks_are_frequent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "POLL_SECONDS", 0.05)


@pytest.fixture
def _looks_are_rare(monkeypatch: pytest.MonkeyPatch) -> None:
    """None comes by itself while a test runs."""
    monkeypatch.setattr(watching, "POLL_SECONDS", LONG_SECONDS)


class Table:
    """Due jobs by lane, and how often anybody looked."""

    def __init__(self, **due: int) -> None:
        self.due = Counter(due)
        self.looks: list[Mapping[str, int]] = []

    async def look(self, most: Mapping[str, int]) -> Mapping[str, int]:
        self.looks.append(dict(most))
        return {lane: min(self.due[lane], cap) for lane, cap in most.items()}


def in_future(seconds: float) -> float:
    return monotonic() + seconds


def test_who_comes_when_there_is_work_is_let_go_at_once() -> None:
    """By one look."""
    table = Table(mail=1)

    assert asyncio.run(LongPoll(table.look).wait(["mail"], in_future(LONG_SECONDS)))
    assert table.looks == [{"mail": 1}]


def test_who_does_not_want_to_wait_is_still_looked_for() -> None:
    """Once."""
    table = Table()

    assert not asyncio.run(LongPoll(table.look).wait(["mail"], in_future(0)))
    assert len(table.looks) == 1


@pytest.mark.usefixtures("_looks_are_frequent")
def test_a_crowd_shares_its_looks() -> None:
    """As many as one alone would need, however many wait."""
    table = Table()

    async def crowd() -> list[bool]:
        watch, until = LongPoll(table.look), in_future(0.12)
        return await asyncio.gather(*(watch.wait(["mail"], until) for _ in range(500)))

    assert not any(asyncio.run(crowd()))
    assert max(each["mail"] for each in table.looks) == 500
    assert len(table.looks) <= 6


@pytest.mark.usefixtures("_looks_are_frequent")
def test_each_job_wakes_one_the_first_first() -> None:
    """The others go on waiting."""
    table = Table(mail=2)

    async def look_and_take(most: Mapping[str, int]) -> Mapping[str, int]:
        found = await table.look(most)
        table.due.clear()
        return found

    async def crowd() -> list[bool]:
        watch, until = LongPoll(look_and_take), in_future(0.12)
        return await asyncio.gather(*(watch.wait(["mail"], until) for _ in range(5)))

    assert asyncio.run(crowd()) == [True, True, False, False, False]
    assert [each["mail"] for each in table.looks[:2]] == [5, 3]


@pytest.mark.usefixtures("_looks_are_frequent")
def test_who_was_woken_in_vain_waits_for_his_turn() -> None:
    """A job that somebody holds locked must not be looked at a thousand times a second."""
    table = Table(mail=1)

    async def wait_again() -> None:
        watch = LongPoll(table.look)
        in_vain = False
        until = in_future(0.2)
        while monotonic() < until:
            in_vain = await watch.wait(["mail"], until, in_vain)

    asyncio.run(wait_again())

    assert len(table.looks) <= 7


@pytest.mark.usefixtures("_looks_are_rare")
def test_a_nudge_is_a_look_at_once() -> None:
    """Whoever enqueued knows that there is something."""
    table = Table()

    async def enqueue() -> bool:
        watch = LongPoll(table.look)
        waiting = asyncio.create_task(watch.wait(["mail"], in_future(LONG_SECONDS)))
        while not table.looks:
            await asyncio.wait([waiting], timeout=0)
        table.due["mail"] += 1
        watch.nudge()
        return await asyncio.wait_for(waiting, LONG_SECONDS / 2)

    assert asyncio.run(enqueue())


def test_an_error_of_the_look_is_told_to_all_who_wait() -> None:
    """And the next who comes is looked for anew."""
    table, broken = Table(mail=1), True

    async def look(most: Mapping[str, int]) -> Mapping[str, int]:
        if broken:
            raise ConnectionError("away")
        return await table.look(most)

    async def crowd() -> bool:
        nonlocal broken
        watch = LongPoll(look)
        found = await asyncio.gather(
            *(watch.wait(["mail"], in_future(LONG_SECONDS)) for _ in range(3)), return_exceptions=True
        )
        assert [type(each) for each in found] == [ConnectionError] * 3
        broken = False
        return await watch.wait(["mail"], in_future(LONG_SECONDS))

    assert asyncio.run(crowd())


@pytest.mark.parametrize("closes_first", [True, False])
def test_who_closes_lets_everybody_go(closes_first: bool) -> None:
    """Those who wait, and those who come after."""

    async def close() -> bool:
        watch = LongPoll(Table().look)
        if closes_first:
            watch.close()
            return await watch.wait(["mail"], in_future(LONG_SECONDS))
        waiting = asyncio.create_task(watch.wait(["mail"], in_future(LONG_SECONDS)))
        await asyncio.wait([waiting], timeout=0)
        watch.close()
        return await waiting

    started = monotonic()

    assert not asyncio.run(close())
    assert monotonic() - started < LONG_SECONDS / 2
