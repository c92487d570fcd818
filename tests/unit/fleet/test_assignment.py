"""The assignment of a runner, passed to another process."""

from dispatcher.preload import FORKS_PER_REQUEST, MESSAGE_BYTES
from mayfly import json_text
from mayfly.fleet.runners import Assignment
from tests.factories import NOON

LONGEST_NAME = 64


def make_assignment(lane: str = "mail") -> Assignment:
    return Assignment("worker-1", lane, 1, 9.5, 50, NOON, is_long=True, stays_until=1.5, begins_with=7)


def test_an_assignment_survives_serialization() -> None:
    """With every field."""
    assignment = make_assignment()

    assert Assignment.from_text(assignment.as_text()) == assignment


def test_the_longest_assignments_fit_into_a_packet() -> None:
    """Those of as many runners as a request has: a larger message could not be sent."""
    longest = make_assignment("x" * LONGEST_NAME)

    packet = json_text.encode([longest.as_text()] * FORKS_PER_REQUEST)

    assert len(packet.encode()) < MESSAGE_BYTES
