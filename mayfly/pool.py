"""The open connections of one database: as few as possible, at most as many as allowed."""

from collections.abc import Callable
from contextlib import suppress
from threading import BoundedSemaphore

from mayfly.connection import Connection
from mayfly.errors import ConnectionsUsedUp

PATIENCE_SECONDS = 30.0


class Pool:
    """Lends connections; the one that came back last is lent first."""

    def __init__(self, connect: Callable[[], Connection], most: int) -> None:
        self._connect = connect
        self._most = most
        self._free = BoundedSemaphore(most)
        self._idle: list[Connection] = []

    def take(self) -> Connection:
        if not self._free.acquire(timeout=PATIENCE_SECONDS):
            raise ConnectionsUsedUp(self._most, PATIENCE_SECONDS)
        try:
            return self._take_idle() or self._connect()
        except BaseException:
            self._free.release()
            raise

    def _take_idle(self) -> Connection | None:
        with suppress(IndexError):  # not asked for first: another thread may take the last one meanwhile
            return self._idle.pop()
        return None

    def give_back(self, connection: Connection) -> None:
        self._idle.append(connection)
        self._free.release()

    def throw_away(self, connection: Connection) -> None:
        _close(connection)
        self._free.release()

    def close(self) -> None:
        while self._idle:
            _close(self._idle.pop())


def _close(connection: Connection) -> None:
    """What is already cut has nothing to say about that."""
    with suppress(connection.dialect.errors):
        connection.raw.close()
