"""The open connections of one database: as few as possible, at most as many as allowed."""

from collections.abc import Callable
from contextlib import suppress

from mayfly.clock import monotonic, pause_between
from mayfly.db.connection import Connection
from mayfly.errors import ConnectionsUsedUp

WAIT_TIMEOUT_SECONDS = 30.0
POLL_SECONDS = (0.001, 0.005)
MAX_UNCHECKED_IDLE_SECONDS = 30.0  # servers and firewalls close idle sessions


class ConnectionPool:
    """Lends connections; the one that came back last is lent first.

    A list serves as the lock: to take from it and to add to it are single steps. A semaphore is written in Python,
    and would cost one or two microseconds a job where each is committed.
    """

    def __init__(self, connect: Callable[[], Connection], most: int) -> None:
        self._connect = connect
        self._most = most
        self._free: list[Connection | None] = [None] * most  # places: with an open connection, or without one yet

    def take(self) -> Connection:
        try:
            free = self._free.pop()
        except IndexError:
            free = self._wait()
        if free is not None and self._is_usable(free):
            return free
        try:
            return self._connect()
        except BaseException:
            self._leave_place()
            raise

    def _wait(self) -> Connection | None:
        until = monotonic() + WAIT_TIMEOUT_SECONDS
        while monotonic() < until:
            pause_between(*POLL_SECONDS)
            with suppress(IndexError):
                return self._free.pop()
        raise ConnectionsUsedUp(self._most, WAIT_TIMEOUT_SECONDS)

    def give_back(self, connection: Connection) -> None:
        connection.idle_since = monotonic()
        self._free.append(connection)

    def _is_usable(self, connection: Connection) -> bool:
        """One that was idle for long is pinged first: a transaction cannot be moved to another one later."""
        if monotonic() - connection.idle_since < MAX_UNCHECKED_IDLE_SECONDS:
            return True
        if connection.dialect.is_alive(connection.raw):
            return True
        _close(connection)
        return False

    def throw_away(self, connection: Connection) -> None:
        _close(connection)
        self._leave_place()

    def forget_idle(self) -> None:
        """Close what nobody uses just now; others may take and give back meanwhile."""
        places = 0
        with suppress(IndexError):
            while True:
                idle = self._free.pop()
                places += 1
                if idle is not None:
                    _close(idle)
        self._free[:0] = [None] * places

    def reset(self) -> None:
        """Forget every connection without a word to the server."""
        self._free = [None] * self._most

    def close(self) -> None:
        for place, connection in enumerate(self._free):
            if connection is not None:
                _close(connection)
                self._free[place] = None

    def _leave_place(self) -> None:
        """Below those that are open."""
        self._free.insert(0, None)


def _close(connection: Connection) -> None:
    """What is already cut has nothing to say about that."""
    with suppress(connection.dialect.errors):
        connection.raw.close()
