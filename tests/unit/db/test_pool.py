"""The connection pool of one database: its size is bounded, and no slot is lost."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor

import pytest

from mayfly.db import connection as connection_module
from mayfly.db.connection import Connection, ConnectionPool
from mayfly.db.dialects import dialect_named
from mayfly.errors import ConnectionsUsedUp


def connect() -> Connection:
    return Connection(sqlite3.connect(":memory:", check_same_thread=False), dialect_named("sqlite"))


def test_the_connection_returned_last_is_lent_first() -> None:
    """So the others stay idle."""
    connections = ConnectionPool(connect, 2)
    first, second = connections.take(), connections.take()
    connections.put_back(first)
    connections.put_back(second)

    assert connections.take() is second


def test_a_caller_that_finds_no_free_connection_gets_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a timeout, with the remedy."""
    monkeypatch.setattr(connection_module, "WAIT_TIMEOUT_SECONDS", 0.01)
    connections = ConnectionPool(connect, 2)
    connections.take()
    connections.take()

    with pytest.raises(ConnectionsUsedUp, match=r"^All 2 connections were in use for 0 s\. Use fewer threads"):
        connections.take()


def test_a_discarded_connection_frees_its_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is closed, and the next one is new."""
    monkeypatch.setattr(connection_module, "WAIT_TIMEOUT_SECONDS", 0.01)
    connections = ConnectionPool(connect, 1)
    cut = connections.take()
    connections.discard(cut)

    assert connections.take() is not cut
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        cut.execute("SELECT 1")


def test_a_failed_connection_attempt_frees_its_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is down for a while does not shrink the pool."""
    monkeypatch.setattr(connection_module, "WAIT_TIMEOUT_SECONDS", 0.01)
    answers = [sqlite3.OperationalError("away"), sqlite3.OperationalError("away"), None]

    def try_to_connect() -> Connection:
        answer = answers.pop(0)
        if answer is not None:
            raise answer
        return connect()

    connections = ConnectionPool(try_to_connect, 1)
    for _ in range(2):
        with pytest.raises(sqlite3.OperationalError):
            connections.take()

    assert connections.take().execute("SELECT 7").scalar() == 7


def test_a_waiting_caller_gets_the_connection_that_is_returned() -> None:
    """Threads share the pool."""
    connections = ConnectionPool(connect, 1)
    lent = connections.take()
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(connections.take)
        connections.put_back(lent)

        assert waiting.result(timeout=60) is lent


def test_close_closes_idle_connections() -> None:
    """A connection taken afterwards is new."""
    connections = ConnectionPool(connect, 1)
    lent = connections.take()
    connections.put_back(lent)

    connections.close()

    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        lent.execute("SELECT 1")
    assert connections.take().execute("SELECT 7").scalar() == 7
