"""The list of waiting lanes: each lane is taken by one runner, in order, and only by one with the same settings."""

import os
from pathlib import Path

import pytest

from mayfly.fleet import lane_queue
from mayfly.fleet.lane_queue import LaneQueue, WaitingLane, open_queue

SAME = "[]"


def waiting(*lanes: str, settings: str = SAME) -> list[WaitingLane]:
    return [WaitingLane(lane, number, settings) for number, lane in enumerate(lanes, 1)]


def listed(path: Path, lanes: list[WaitingLane]) -> LaneQueue:
    queue = LaneQueue(path, creates=True)
    queue.replace(lambda _taken: lanes)
    return queue


def test_lanes_are_taken_in_order(tmp_path: Path) -> None:
    """Each once; then the list is empty."""
    queue = listed(tmp_path / "1.lanes", waiting("mail", "почта", 'it\'s "x"'))

    taken = [queue.take(SAME) for _ in range(4)]

    assert taken == [*waiting("mail", "почта", 'it\'s "x"'), None]


def test_a_lane_with_other_settings_is_not_taken(tmp_path: Path) -> None:
    """Nor a later one: the slot of this runner belongs to the first lane."""
    queue = listed(tmp_path / "1.lanes", [*waiting("slow", settings="[('rank', 1)]"), *waiting("mail")])

    assert queue.take(SAME) is None


def test_what_was_taken_is_not_listed_again(tmp_path: Path) -> None:
    """The new list is made when no runner can take a lane: it knows exactly which were taken."""
    queue = listed(tmp_path / "1.lanes", waiting("a", "b", "c"))
    queue.take(SAME)
    queue.take(SAME)
    seen = []

    def new(taken: int) -> list[WaitingLane]:
        seen.append(taken)
        return waiting("c", "d")

    queue.replace(new)

    first = queue.take(SAME)
    assert (seen, first and first.lane) == ([2], "c")


def test_many_processes_take_each_lane_once(tmp_path: Path) -> None:
    """No lane is lost, and none is taken twice."""
    names = [f"lane-{number}" for number in range(200)]
    path = tmp_path / "1.lanes"
    listed(path, waiting(*names))

    for child in [fork_taker(path, tmp_path / str(number)) for number in range(4)]:
        os.waitpid(child, 0)

    taken = [line for number in range(4) for line in (tmp_path / str(number)).read_text().split()]
    assert sorted(taken) == sorted(names)


def fork_taker(path: Path, into: Path) -> int:
    child = os.fork()
    if child == 0:
        queue, taken = LaneQueue(path), []
        while (lane := queue.take(SAME)) is not None:
            taken.append(lane.lane)
        into.write_text("\n".join(taken))
        os._exit(0)
    return child


def test_a_process_that_keeps_the_lock_stops_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A runner that was suspended in the middle: others take no lane and exit, and the dispatcher lists none."""
    monkeypatch.setattr(lane_queue, "LOCK_TIMEOUT_SECONDS", 0.001)
    path = tmp_path / "1.lanes"
    queue = listed(path, waiting("mail"))
    read, write = os.pipe()
    done_read, done_write = os.pipe()
    child = os.fork()
    if child == 0:
        with LaneQueue(path)._locked():
            os.write(write, b"x")
            os.read(done_read, 1)
        os._exit(0)
    os.read(read, 1)

    taken = queue.take(SAME)
    queue.replace(lambda _taken: [])

    os.write(done_write, b"x")
    os.waitpid(child, 0)
    assert taken is None
    assert queue.take(SAME) == waiting("mail")[0]


def test_without_waiting_lanes_there_is_no_list(tmp_path: Path) -> None:
    """Nor after the end of its cycle."""
    path = tmp_path / "1.lanes"
    before = open_queue(path)
    listed(path, waiting("mail")).remove()

    assert (before, open_queue(path)) == (None, None)
