"""The open connections of one database: as few as possible, up to a maximum."""

from collections.abc import Callable
from contextlib import suppress

from mayfly.clock import monotonic, pause_between
from mayfly.db.connection import Connection
from mayfly.errors import ConnectionsUsedUp

WAIT_TIMEOUT_SECONDS = 30.0
POLL_SECONDS = (0.001, 0.005)
MAX_UNCHECKED_IDLE_SECONDS = 30.0  # servers and firewalls close idle sessions


class ConnectionPool:
    """Last in, first out.

    A list serves as the lock: pop and append are atomic. A semaphore is Python code, and would cost one or two
    microseconds per job where each is committed.
    """

    def __init__(self, connect: Callable[[], Connection], max_connections: int) -> None:
        self._connect = connect
        self._max = max_connections
        self._free: list[Connection | None] = [None] * max_connections  # slots: an open connection, or none yet

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
            self._free_slot()
            raise

    def _wait(self) -> Connection | None:
        until = monotonic() + WAIT_TIMEOUT_SECONDS
        while monotonic() < until:
            pause_between(*POLL_SECONDS)
            with suppress(IndexError):
                return self._free.pop()
        raise ConnectionsUsedUp(self._max, WAIT_TIMEOUT_SECONDS)

    def put_back(self, connection: Connection) -> None:
        connection.idle_since = monotonic()
        self._free.append(connection)

    def _is_usable(self, connection: Connection) -> bool:
        """One that was idle for long is pinged first: a transaction cannot move to another one later."""
        if monotonic() - connection.idle_since < MAX_UNCHECKED_IDLE_SECONDS:
            return True
        if connection.dialect.is_alive(connection.raw):
            return True
        _close(connection)
        return False

    def discard(self, connection: Connection) -> None:
        _close(connection)
        self._free_slot()

    def forget_idle(self) -> None:
        """Close unused connections; other threads may take and return some meanwhile."""
        slots = 0
        with suppress(IndexError):
            while True:
                idle = self._free.pop()
                slots += 1
                if idle is not None:
                    _close(idle)
        self._free[:0] = [None] * slots

    def reset(self) -> None:
        """Forget every connection without closing it."""
        self._free = [None] * self._max

    def close(self) -> None:
        for place, connection in enumerate(self._free):
            if connection is not None:
                _close(connection)
                self._free[place] = None

    def _free_slot(self) -> None:
        """Below the open connections."""
        self._free.insert(0, None)


def _close(connection: Connection) -> None:
    """Also one that is already broken."""
    with suppress(connection.dialect.errors):
        connection.raw.close()
