"""Start the runners of a plan: from their lane's nursery where there is one or several runners begin at once."""

from collections.abc import Sequence
from itertools import groupby

from dispatcher.nursery import Nursery, open_nursery
from dispatcher.spawn import Spawner
from dispatcher.supervise import Supervisor
from dispatcher.world import World
from mayfly import events
from mayfly.fleet.runners import Assignment

WORTH_A_NURSERY = 2  # runners, unless more will follow: one alone imports what it needs no slower by itself


def start_runners(world: World, spawner: Spawner, supervisor: Supervisor, assignments: Sequence[Assignment]) -> None:
    """No connection crosses the fork. Whoever is not started any more is rescued as one that never was."""
    world.database.close()
    for lane, some in groupby(assignments, key=lambda each: each.lane):
        if supervisor.may_spawn:
            _start_in(world, spawner, supervisor, lane, list(some))


def start_refused(world: World, spawner: Spawner, supervisor: Supervisor) -> None:
    """Each imports by itself what could not be shared."""
    refused = supervisor.nurseries.take_refused()
    if refused:
        world.database.close()
    for cradle in refused:
        supervisor.add(spawner.spawn(cradle))


def _start_in(
    world: World, spawner: Spawner, supervisor: Supervisor, lane: str, assignments: Sequence[Assignment]
) -> None:
    nursery = _nursery(spawner, supervisor, lane, assignments)
    cradles = []
    for assignment in assignments:
        if not supervisor.may_spawn:
            break
        world.log.say(events.spawning_worker(assignment.worker_id, lane))
        cradle = spawner.prepare(assignment)
        if nursery is None:
            supervisor.add(spawner.spawn(cradle))
        else:
            cradles.append(cradle)
    if nursery is not None:
        nursery.expect(cradles)


def _nursery(
    spawner: Spawner, supervisor: Supervisor, lane: str, assignments: Sequence[Assignment]
) -> Nursery | None:
    nurseries = supervisor.nurseries
    if spawner.settings.spawn != "fork" or lane in nurseries.unshared or assignments[0].is_long:
        return None
    found = nurseries.get(lane)
    if found is not None or (len(assignments) < WORTH_A_NURSERY and not assignments[0].stays_until):
        return found
    opened = open_nursery(spawner, lane, assignments[0].deadline)
    nurseries.add(opened)
    return opened
