"""The planning lock: hosts plan one after the other, each with a new number, and respect the caps of lanes."""

import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import select, update

from dispatcher.assign import LaneConditions, Planned, plan
from dispatcher.context import CycleContext
from mayfly.clock import milliseconds, monotonic
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.errors import PlanLockLost
from mayfly.fleet.cycles import open_cycle
from mayfly.fleet.plan_lock import finish_planning, planning
from mayfly.log import silent_log
from mayfly.schema.metadata import cycles, locks, runners
from mayfly.settings import load
from tests.database.factories import in_threads, rows_of
from tests.factories import insert_rows
from tests.sqlalchemy_engines import run

OF_PLANS = locks.c.name == "plan"

HOSTS = 5
ROUNDS = 4


def test_a_number_is_the_millisecond_in_which_it_was_taken(database: Database) -> None:
    """By the database's clock, so numbers show the age of a cycle."""
    before = milliseconds(database.clock.now())

    with planning(database, "host") as number:
        finish(database, number)

    assert before <= number <= milliseconds(database.clock.now())


def test_numbers_always_grow(database: Database) -> None:
    """Even if the clock is set back: after a number from the future the next one is one more."""
    future = milliseconds(database.clock.now() + timedelta(days=1))
    run(database, lambda connection: connection.execute(update(locks).where(OF_PLANS).values(number=future)))

    with planning(database, "host") as number:
        finish(database, number)

    assert number == future + 1


def test_two_planners_never_hold_the_lock_at_once(migrated_url: str) -> None:
    """Five hosts repeatedly: one at a time, and no number is used twice."""
    inside: list[str] = []
    met: list[str] = []

    def plan(host: str) -> list[int]:
        database, numbers = Database(migrated_url), []
        for _ in range(ROUNDS):
            with planning(database, host) as number:
                inside.append(host)
                met.extend(each for each in inside if each != host)
                numbers.append(number)
                inside.remove(host)
                finish(database, number)
        database.close()
        return numbers

    numbers = in_threads([partial(plan, f"host-{number}") for number in range(HOSTS)])

    assert met == []
    assert len({each for part in numbers for each in part}) == HOSTS * ROUNDS
    assert all(part == sorted(part) for part in numbers)


def test_a_lock_with_an_expired_lease_is_taken_over(database: Database, rival: Database) -> None:
    """A dead host does not cost the others a cycle."""
    with suppress(PlannerDied), planning(database, "gone"):
        expire(rival)

        with planning(rival, "next") as number:
            finish(rival, number)
        raise PlannerDied

    assert holder(rival) is None


def test_a_held_lock_is_waited_for(database: Database, rival: Database) -> None:
    """The second host gets it when the first has written its plan."""
    order: list[str] = []
    started = threading.Event()

    def follow() -> None:
        started.set()
        with planning(rival, "second") as number:
            order.append("second")
            finish(rival, number)

    with planning(database, "first") as number:
        thread = threading.Thread(target=follow)
        thread.start()
        started.wait()
        order.append("first")
        finish(database, number)
    thread.join()

    assert order == ["first", "second"]


def test_a_planner_that_lost_the_lock_writes_nothing(database: Database, rival: Database) -> None:
    """Its lease expired and another host has planned: its plan would use the same slots twice."""
    now = database.clock.now()

    def write(connection: Connection, number: int) -> None:
        open_cycle(connection, number, "slow", now)
        finish_planning(connection, number)

    with planning(database, "slow") as number:
        expire(rival)
        with planning(rival, "fast") as other:
            finish(rival, other)

        with pytest.raises(PlanLockLost, match="lost the planning lock"):
            database.run(lambda connection: write(connection, number))

    assert rows_of(database, cycles) == []


def test_a_planner_that_fails_releases_the_lock(database: Database, rival: Database) -> None:
    """The next one does not wait for the lease."""
    with suppress(PlannerDied), planning(database, "failing"):
        raise PlannerDied

    assert holder(rival) is None


def test_a_planner_that_lost_the_lock_does_not_release_it(database: Database, rival: Database) -> None:
    """It releases only its own number."""
    with suppress(PlannerDied), planning(database, "slow"):
        expire(rival)
        holding = planning(rival, "fast")
        holding.__enter__()
        raise PlannerDied

    assert holder(rival) is not None


@pytest.mark.parametrize(("jobs", "allowed"), [(500, 3), (4, 1)], ids=["many", "few"])
def test_hosts_together_never_exceed_the_cap_of_a_lane(
    migrated_url: str, tmp_path: Path, database: Database, jobs: int, allowed: int
) -> None:
    """Five hosts plan at the same time: together they start what one would have started."""
    insert_rows(database, jobs)

    plans = in_threads([plan_as(migrated_url, tmp_path, f"host-{number}", rounds=2) for number in range(HOSTS)])

    started = [each.worker_id for part in plans for planned in part for each in planned.assignments]
    assert len(started) == len(set(started)) == allowed
    assert {row.worker_id for row in rows_of(database, runners)} == set(started)
    assert len(rows_of(database, cycles)) == HOSTS * 2


class PlannerDied(Exception):
    """Raised instead of finishing the plan."""


def finish(database: Database, number: int) -> None:
    database.run(lambda connection: finish_planning(connection, number))


def expire(database: Database) -> None:
    """As if the lease of the holder had expired."""
    past = database.clock.now() - timedelta(seconds=1)
    run(database, lambda connection: connection.execute(update(locks).where(OF_PLANS).values(lease_until=past)))
    assert holder(database) is not None


def holder(database: Database) -> str | None:
    """Of the planning lock."""
    found: str | None = run(database, lambda each: each.execute(select(locks.c.holder).where(OF_PLANS)).scalar_one())
    return found


def plan_as(url: str, home: Path, host: str, rounds: int) -> Callable[[], list[Planned]]:
    """The planning of a dispatcher on that host: at most three workers per lane."""
    settings = load(
        {
            "MAYFLY_HOME": str(home),
            "DATABASE_URL": url,
            "HOST_NAME": host,
            "MAX_WORKERS": "3",
            "MAX_LOAD": "0",
            "MIN_FREE_MEMORY": "0",
        }
    ).settings

    def plan_rounds() -> list[Planned]:
        database = Database(url)
        context = CycleContext(settings, database, silent_log(), home, monotonic())
        plans = []
        for _ in range(rounds):
            with planning(database, host) as number:
                plans.append(plan(context, number, number, LaneConditions()))
        database.close()
        return plans

    return plan_rounds
