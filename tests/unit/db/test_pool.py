"""The open connections of one database: never more than allowed, and none that is lost for ever."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor

import pytest

from mayfly.db import pool
from mayfly.db.connection import Connection
from mayfly.db.dialects import dialect_named
from mayfly.db.pool import ConnectionPool
from mayfly.errors import ConnectionsUsedUp


def connect() -> Connection:
    return Connection(sqlite3.connect(":memory:", check_same_thread=False), dialect_named("sqlite"))


def test_the_last_that_came_back_is_lent_first() -> None:
    """The others may go cold."""
    connections = ConnectionPool(connect, 2)
    first, second = connections.take(), connections.take()
    connections.put_back(first)
    connections.put_back(second)

    assert connections.take() is second


def test_whoever_finds_none_left_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """After some patience, with a sentence that says what to do."""
    monkeypatch.setattr(pool, "WAIT_TIMEOUT_SECONDS", 0.01)
    connections = ConnectionPool(connect, 2)
    connections.take()
    connections.take()

    with pytest.raises(ConnectionsUsedUp, match=r"^All 2 connections were in use for 0 s\. Use fewer threads"):
        connections.take()


def test_one_that_was_thrown_away_leaves_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is closed, and the next is a new one."""
    monkeypatch.setattr(pool, "WAIT_TIMEOUT_SECONDS", 0.01)
    connections = ConnectionPool(connect, 1)
    cut = connections.take()
    connections.discard(cut)

    assert connections.take() is not cut
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        cut.execute("SELECT 1")


def test_a_connection_that_could_not_be_made_leaves_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is away for a while costs nothing for ever."""
    monkeypatch.setattr(pool, "WAIT_TIMEOUT_SECONDS", 0.01)
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


def test_whoever_waits_gets_the_one_that_comes_back() -> None:
    """Threads share what there is."""
    connections = ConnectionPool(connect, 1)
    lent = connections.take()
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(connections.take)
        connections.put_back(lent)

        assert waiting.result(timeout=60) is lent


def test_closing_closes_what_is_idle() -> None:
    """And what is taken after it is new."""
    connections = ConnectionPool(connect, 1)
    lent = connections.take()
    connections.put_back(lent)

    connections.close()

    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        lent.execute("SELECT 1")
    assert connections.take().execute("SELECT 7").scalar() == 7
