"""The planning lock: a row with a lease. Hosts plan one after the other, and each gets a number of its own."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from mayfly.clock import milliseconds, monotonic, pause_between
from mayfly.connection import Connection
from mayfly.dialect import utc_from_driver
from mayfly.engine import Database
from mayfly.errors import LostPlanningLock, PlanningBusy
from mayfly.fleet.place import Place, Process, this_place, this_process
from mayfly.fleet.statements import LOOK, RELEASE, TAKE

LEASE = timedelta(seconds=15)  # planning takes milliseconds; a holder that is gone must not cost a cycle
PATIENCE_SECONDS = 20.0
POLL_SECONDS = 0.05


@dataclass(frozen=True)
class Holder:
    """Who plans, told so that its death can be seen from its own machine: that one need not wait for the lease."""

    place: Place
    process: Process

    def __str__(self) -> str:
        """Fits the column: people read the host's name, of which its beginning must do."""
        return f"{self.place.host[:20]} {self._where} {self.process.pid} {self.process.started}"

    def may_take_over(self, holder: str) -> bool:
        """From one that is dead for certain; and from oneself, when the answer to the taking was lost."""
        try:
            _host, where, pid, started = holder.rsplit(" ", 3)
            other = Process(int(pid), int(started))
        except ValueError:  # written by somebody else: only the lease tells
            return False
        return where == self._where and (other == self.process or not other.is_alive)

    @property
    def _where(self) -> str:
        return hashlib.sha256(f"{self.place.host}\n{self.place.machine}".encode()).hexdigest()[:12]


def host_of(holder: str) -> str:
    """The beginning of its name, from the text of a Holder."""
    return holder.rsplit(" ", 3)[0]


@contextmanager
def planning(database: Database, host_name: str) -> Iterator[int]:
    """Hold the lock; the value is a number no other cycle of any host ever gets (milliseconds, roughly)."""
    number = _wait_for_lock(database, Holder(this_place(host_name), this_process()))
    try:
        yield number
    except BaseException:
        database.run(lambda connection: _release(connection, number))
        raise


def finish_planning(connection: Connection, number: int) -> None:
    """Release the lock in the transaction that writes the plan: who slept through his lease writes nothing."""
    if not _release(connection, number):
        raise LostPlanningLock


def _wait_for_lock(database: Database, holder: Holder) -> int:
    deadline = monotonic() + PATIENCE_SECONDS
    while True:
        now = database.clock.now()
        number = database.run(lambda connection, now=now: _take(connection, holder, now))  # type: ignore[misc]
        if number is not None:
            return number
        if monotonic() > deadline:
            raise PlanningBusy(PATIENCE_SECONDS)
        pause_between(POLL_SECONDS / 2, POLL_SECONDS * 1.5)


def _take(connection: Connection, holder: Holder, now: datetime) -> int | None:
    other, lease_until, last_number = connection.execute(LOOK).first()
    if other is not None and utc_from_driver(lease_until) > now and not holder.may_take_over(other):
        return None
    number = max(last_number + 1, milliseconds(now))
    taken = {"holder": str(holder), "lease_until": now + LEASE, "number": number, "last_number": last_number}
    return number if connection.execute(TAKE, taken).rowcount == 1 else None


def _release(connection: Connection, number: int) -> bool:
    return connection.execute(RELEASE, {"number": number}).rowcount == 1
