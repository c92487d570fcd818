"""The planning lock: a row with a lease. Hosts plan one after the other, and each gets a number of its own."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from mayfly.clock import milliseconds, monotonic, pause_between
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.db.dialects import utc_from_driver
from mayfly.errors import PlanLockLost
from mayfly.fleet.statements import READ_PLAN_LOCK, RELEASE_PLAN_LOCK, TAKE_PLAN_LOCK
from mayfly.process.identity import Host, Process, this_host, this_process

LEASE = timedelta(seconds=15)  # planning takes milliseconds; a holder that is gone must not cost a cycle
LOCK_TIMEOUT_SECONDS = 20.0
POLL_SECONDS = 0.05


@dataclass(frozen=True)
class PlanLockHolder:
    """Who plans, told so that its death can be seen from its own machine: that one need not wait for the lease."""

    place: Host
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
    number = _wait_for_lock(database, PlanLockHolder(this_host(host_name), this_process()))
    try:
        yield number
    except BaseException:
        database.run(lambda connection: _release(connection, number))
        raise


def finish_planning(connection: Connection, number: int) -> None:
    """Release the lock in the transaction that writes the plan: who slept through his lease writes nothing."""
    if not _release(connection, number):
        raise PlanLockLost(
            "This host was too slow and lost the planning lock before its plan was written. Nothing was started."
        )


def _wait_for_lock(database: Database, holder: PlanLockHolder) -> int:
    deadline = monotonic() + LOCK_TIMEOUT_SECONDS
    while True:
        now = database.clock.now()
        number = database.run(lambda connection, now=now: _take(connection, holder, now))  # type: ignore[misc]
        if number is not None:
            return number
        if monotonic() > deadline:
            raise PlanLockLost(
                f"Another host has held the planning lock for {LOCK_TIMEOUT_SECONDS:.0f} s (see mayfly_locks). "
                "This cycle is skipped; the next one tries again."
            )
        pause_between(POLL_SECONDS / 2, POLL_SECONDS * 1.5)


def _take(connection: Connection, holder: PlanLockHolder, now: datetime) -> int | None:
    other, lease_until, last_number = connection.execute(READ_PLAN_LOCK).first()
    if other is not None and utc_from_driver(lease_until) > now and not holder.may_take_over(other):
        return None
    number = max(last_number + 1, milliseconds(now))
    taken = {"holder": str(holder), "lease_until": now + LEASE, "number": number, "last_number": last_number}
    return number if connection.execute(TAKE_PLAN_LOCK, taken).rowcount == 1 else None


def _release(connection: Connection, number: int) -> bool:
    return connection.execute(RELEASE_PLAN_LOCK, {"number": number}).rowcount == 1
