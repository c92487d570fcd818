"""The planning lock: a row with a lease. Hosts plan one after the other, and each gets a number of its own."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from sqlalchemy import Connection, or_, select, update

from mayfly.clock import milliseconds, monotonic, pause
from mayfly.engine import Database
from mayfly.errors import LostPlanningLock, PlanningBusy
from mayfly.schema import locks

LEASE = timedelta(seconds=15)  # planning takes milliseconds; a holder that is gone must not cost a cycle
PATIENCE_SECONDS = 20.0
POLL_SECONDS = 0.05


@contextmanager
def planning(database: Database, holder: str) -> Iterator[int]:
    """Hold the lock; the value is a number no other cycle of any host ever gets (milliseconds, roughly)."""
    number = _wait_for_lock(database, holder)
    try:
        yield number
    except BaseException:
        database.run(lambda connection: _release(connection, number))
        raise


def finish_planning(connection: Connection, number: int) -> None:
    """Release the lock in the transaction that writes the plan: who slept through his lease writes nothing."""
    if not _release(connection, number):
        raise LostPlanningLock


def _wait_for_lock(database: Database, holder: str) -> int:
    deadline = monotonic() + PATIENCE_SECONDS
    while True:
        now = database.clock.now()
        number = database.run(lambda connection, now=now: _take(connection, holder, now))  # type: ignore[misc]
        if number is not None:
            return number
        if monotonic() > deadline:
            raise PlanningBusy(PATIENCE_SECONDS)
        pause(POLL_SECONDS * random.uniform(0.5, 1.5))  # noqa: S311 - spreads rivals, guards nothing


def _take(connection: Connection, holder: str, now: datetime) -> int | None:
    last = connection.execute(select(locks.c.number).where(locks.c.name == "plan")).scalar_one()
    number = max(last + 1, milliseconds(now))
    taken = connection.execute(
        update(locks)
        .where(locks.c.name == "plan", locks.c.number == last)
        .where(or_(locks.c.holder.is_(None), locks.c.lease_until <= now))
        .values(holder=holder, lease_until=now + LEASE, number=number)
    )
    return number if taken.rowcount == 1 else None


def _release(connection: Connection, number: int) -> bool:
    released = connection.execute(
        update(locks).where(locks.c.name == "plan", locks.c.number == number).values(holder=None, lease_until=None)
    )
    return released.rowcount == 1
