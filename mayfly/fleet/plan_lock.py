"""The planning lock: one row with a lease. Hosts plan one after the other, and each plan gets a unique number.

Idle cycles import this module, too.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import NamedTuple

from mayfly.clock import milliseconds, monotonic, pause_between
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.db.dialects import utc_from_driver
from mayfly.errors import PlanLockLost
from mayfly.process.identity import Host, Process, this_host, this_process

LEASE = timedelta(seconds=15)  # planning takes milliseconds; a dead holder must not block other hosts for a cycle
LOCK_TIMEOUT_SECONDS = 20.0
POLL_SECONDS = 0.05
IDLE_HOLDER = "an idle cycle"  # never visible: taken and released in one transaction

READ_PLAN_LOCK = "SELECT holder, lease_until, number FROM mayfly_locks WHERE name = 'plan'"
# Taking the lock raises the number: of two hosts that have read the same number, only one changes the row.
TAKE_PLAN_LOCK = (
    "UPDATE mayfly_locks SET holder = :holder, lease_until = :lease_until, number = :number"
    " WHERE name = 'plan' AND number = :last_number"
)
RELEASE_PLAN_LOCK = (
    "UPDATE mayfly_locks SET holder = NULL, lease_until = NULL WHERE name = 'plan' AND number = :number"
)


class PlanLockHolder(NamedTuple):
    """The process that plans. Its own host can detect its death without waiting for the lease."""

    host: Host
    process: Process

    def __str__(self) -> str:
        """Fits the column. The host's name is cut: only people read it, the hash identifies the host."""
        return f"{self.host.name[:20]} {self._host_hash} {self.process.pid} {self.process.started}"

    def may_take_over(self, holder: str) -> bool:
        """True if the other process is dead for certain, or is this one (the reply to its UPDATE was lost)."""
        try:
            _name, host_hash, pid, started = holder.rsplit(" ", 3)
            other = Process(int(pid), int(started))
        except ValueError:  # not written by a PlanLockHolder: only the lease counts
            return False
        return host_hash == self._host_hash and (other == self.process or not other.is_alive)

    @property
    def _host_hash(self) -> str:
        import hashlib  # here because it loads OpenSSL, which an idle cycle does not need

        return hashlib.sha256(f"{self.host.name}\n{self.host.machine}".encode()).hexdigest()[:12]


def host_of(holder: str) -> str:
    """The beginning of the host's name, from the text of a PlanLockHolder."""
    return holder.rsplit(" ", 3)[0]


@contextmanager
def planning(database: Database, host_name: str) -> Iterator[int]:
    """Hold the lock. Yields a number that no other cycle of any host gets: roughly the time in milliseconds."""
    holder = PlanLockHolder(this_host(host_name), this_process())
    deadline = monotonic() + LOCK_TIMEOUT_SECONDS
    while (number := database.run(lambda connection: _take(connection, holder, database.clock.now()))) is None:
        if monotonic() > deadline:
            raise PlanLockLost(
                f"Another host has held the planning lock for {LOCK_TIMEOUT_SECONDS:.0f} s (see mayfly_locks). "
                "This cycle is skipped; the next one tries again."
            )
        pause_between(POLL_SECONDS / 2, POLL_SECONDS * 1.5)
    try:
        yield number
    except BaseException:
        database.run(lambda connection: _release(connection, number))
        raise


def finish_planning(connection: Connection, number: int) -> None:
    """Release the lock in the transaction that writes the plan: a planner whose lease expired writes nothing."""
    if not _release(connection, number):
        raise PlanLockLost(
            "This host lost the planning lock before its plan was written: it was too slow. Nothing was started."
        )


def is_planning(connection: Connection) -> bool:
    """Whether a host plans now, or died while planning."""
    holder, _lease_until, _number = connection.execute(READ_PLAN_LOCK).first()
    return holder is not None


def number_idle_cycle(connection: Connection, now: datetime) -> int | None:
    """Take and release the lock in one transaction, for its number alone; None while another host plans."""
    holder, _lease_until, last_number = connection.execute(READ_PLAN_LOCK).first()
    if holder is not None:
        return None
    number = _next_number(connection, IDLE_HOLDER, last_number, now)
    if number is not None:
        finish_planning(connection, number)
    return number


def _take(connection: Connection, holder: PlanLockHolder, now: datetime) -> int | None:
    other, lease_until, last_number = connection.execute(READ_PLAN_LOCK).first()
    if other is not None and utc_from_driver(lease_until) > now and not holder.may_take_over(other):
        return None
    return _next_number(connection, str(holder), last_number, now)


def _next_number(connection: Connection, holder: str, last_number: int, now: datetime) -> int | None:
    """None if another host was faster."""
    number = max(last_number + 1, milliseconds(now))
    taken = {"holder": holder, "lease_until": now + LEASE, "number": number, "last_number": last_number}
    return number if connection.execute(TAKE_PLAN_LOCK, taken).rowcount == 1 else None


def _release(connection: Connection, number: int) -> bool:
    return connection.execute(RELEASE_PLAN_LOCK, {"number": number}).rowcount == 1
