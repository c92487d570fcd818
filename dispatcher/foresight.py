"""What runners are told of long jobs: how long they usually take, and which one has come back and goes first."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from dispatcher.world import World
from mayfly.fleet.runners import Assignment
from mayfly.jobs.looks import first_come_back
from mayfly.schema import JOBS


def informed(world: World, assignments: Sequence[Assignment]) -> list[Assignment]:
    """Outside of the planning lock: nobody else has to wait for this."""
    told: list[Assignment] = []
    for lane, some in groupby(assignments, key=lambda each: each.lane):
        first, *others = (replace(each, usual=world.usual.of(lane)) for each in some)
        told += [_with_first(world, first), *others]
    return told


def _with_first(world: World, assignment: Assignment) -> Assignment:
    """One runner begins with the oldest job that was deferred, whatever its priority: so none waits for ever."""
    lane = assignment.lane
    if not assignment.is_whole or not assignment.usual or lane not in world.usual.deferred:
        return assignment
    now, types = world.database.clock.now(), assignment.usual.keys()
    found = world.database.read(lambda connection: first_come_back(connection, JOBS, lane, types, now))
    return replace(assignment, begins_with=found)
