"""What a runner is told, on its way to another process."""

from dispatcher.preload import FORKS_PER_REQUEST, MESSAGE_BYTES
from mayfly import json_text
from mayfly.fleet.runners import Assignment
from mayfly.stats.durations import MAX_TYPES
from tests.factories import NOON

LONGEST_NAME = 64


def make_assignment(usual: dict[str, float]) -> Assignment:
    return Assignment("worker-1", "mail", 1, 9.5, 50, NOON, is_whole=False, usual=usual, begins_with=7)


def test_an_assignment_survives_its_text() -> None:
    """Every field of it."""
    assignment = make_assignment({"render": 40.0})

    assert Assignment.from_text(assignment.as_text()) == assignment


def test_the_longest_assignments_fit_into_a_packet() -> None:
    """Of as many runners as one request has: a larger message would never be sent."""
    usual = {f"{number:0>{LONGEST_NAME}}": 12345.25 for number in range(MAX_TYPES)}

    packet = json_text.encode([make_assignment(usual).as_text()] * FORKS_PER_REQUEST)

    assert len(packet.encode()) < MESSAGE_BYTES
