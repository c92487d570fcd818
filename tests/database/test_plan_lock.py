"""The planning lock: hosts plan one after the other, each under a number of its own, and keep a lane's cap."""

import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import select, update

from dispatcher.assign import Planned, plan_first
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
    """By the database's clock, so that numbers tell the age of what bears them."""
    before = milliseconds(database.clock.now())

    with planning(database, "host") as number:
        finish(database, number)

    assert before <= number <= milliseconds(database.clock.now())


def test_a_number_is_above_all_before_it(database: Database) -> None:
    """Whatever the clocks do: after one from the future, the next is one more."""
    future = milliseconds(database.clock.now() + timedelta(days=1))
    run(database, lambda connection: connection.execute(update(locks).where(OF_PLANS).values(number=future)))

    with planning(database, "host") as number:
        finish(database, number)

    assert number == future + 1


def test_two_planners_never_hold_the_lock_at_once(migrated_url: str) -> None:
    """Five hosts at it again and again: one at a time, and no number is given out twice."""
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


def test_a_lock_whose_lease_ran_out_is_taken_over(database: Database, rival: Database) -> None:
    """A host that is gone for good does not cost the others a cycle."""
    with suppress(Gone), planning(database, "gone"):
        expire(rival)

        with planning(rival, "next") as number:
            finish(rival, number)
        raise Gone

    assert holder(rival) is None


def test_a_lock_that_is_held_is_waited_for(database: Database, rival: Database) -> None:
    """The second host gets it when the first has written its plan, and not before."""
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
    """It slept through its lease, another has planned since: its plan would count the same slots twice."""
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


def test_a_planner_that_fails_sets_the_lock_free(database: Database, rival: Database) -> None:
    """The next one does not wait for the lease."""
    with suppress(Gone), planning(database, "failing"):
        raise Gone

    assert holder(rival) is None


def test_a_planner_that_lost_the_lock_does_not_set_it_free(database: Database, rival: Database) -> None:
    """What it releases is its own number, not the lock of another."""
    with suppress(Gone), planning(database, "slow"):
        expire(rival)
        holding = planning(rival, "fast")
        holding.__enter__()
        raise Gone

    assert holder(rival) is not None


@pytest.mark.parametrize(("jobs", "allowed"), [(500, 3), (4, 1)], ids=["many", "few"])
def test_hosts_never_exceed_a_lanes_cap_together(
    migrated_url: str, tmp_path: Path, database: Database, jobs: int, allowed: int
) -> None:
    """Five hosts plan in the same instant: together they start what one would have."""
    insert_rows(database, jobs)

    plans = in_threads([plan_as(migrated_url, tmp_path, f"host-{number}", rounds=2) for number in range(HOSTS)])

    started = [each.worker_id for part in plans for planned in part for each in planned.assignments]
    assert len(started) == len(set(started)) == allowed
    assert {row.worker_id for row in rows_of(database, runners)} == set(started)
    assert len(rows_of(database, cycles)) == HOSTS * 2


class Gone(Exception):
    """A planner that does not come to its end."""


def finish(database: Database, number: int) -> None:
    database.run(lambda connection: finish_planning(connection, number))


def expire(database: Database) -> None:
    """As if the lease had run out: the holder, whoever it is, has been silent for too long."""
    past = database.clock.now() - timedelta(seconds=1)
    run(database, lambda connection: connection.execute(update(locks).where(OF_PLANS).values(lease_until=past)))
    assert holder(database) is not None


def holder(database: Database) -> str | None:
    """Of the planning lock."""
    found: str | None = run(database, lambda each: each.execute(select(locks.c.holder).where(OF_PLANS)).scalar_one())
    return found


def plan_as(url: str, home: Path, host: str, rounds: int) -> Callable[[], list[Planned]]:
    """A dispatcher of that host, as far as its plans: at most three workers a lane."""
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

    def plan() -> list[Planned]:
        database = Database(url)
        context = CycleContext(settings, database, silent_log(), home, monotonic())
        plans = []
        for _ in range(rounds):
            with planning(database, host) as number:
                plans.append(plan_first(context, number))
        database.close()
        return plans

    return plan
