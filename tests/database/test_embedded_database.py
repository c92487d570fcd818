"""A new SQLite file gets its tables by first use, however many processes use it first, and whoever is killed."""

import multiprocessing
import os
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
from sqlalchemy import Engine
from sqlalchemy.event import listen, remove

from mayfly.bootstrap import create_embedded
from mayfly.db.database import Database
from mayfly.schema.metadata import jobs
from mayfly.schema.migrations import migrate
from mayfly.schema.tables import VERSION
from tests.database.factories import rows_of
from tests.factories import insert_row

FORK = multiprocessing.get_context("fork")
PROCESSES = 6


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/new/mayfly.db"


def test_many_may_be_the_first(url: str) -> None:
    """Each of them finds the tables, and each job is there."""
    together = FORK.Barrier(PROCESSES)
    running = [FORK.Process(target=use, args=(url, together.wait)) for _ in range(PROCESSES)]
    for each in running:
        each.start()
    for each in running:
        each.join()

    assert [each.exitcode for each in running] == [0] * PROCESSES
    assert len(rows_in(url)) == PROCESSES


def test_a_reader_does_not_break_the_first_migration(url: str, tmp_path: Path) -> None:
    """A new file is not in WAL mode yet, so its first COMMIT has to wait for those who read at that moment."""
    (tmp_path / "new").mkdir()
    path = url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path, check_same_thread=False)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM sqlite_master").fetchall()  # holds a shared lock until it ends
        ends = Timer(0.3, reader.rollback)

        def commit_begins(_connection: object) -> None:
            ends.start()

        listen(Engine, "commit", commit_begins)
        try:
            versions = migrate(url)
        finally:
            remove(Engine, "commit", commit_begins)
            ends.join()

    assert versions == (None, VERSION)


def test_a_first_use_that_was_killed_is_made_up_for(url: str) -> None:
    """Wherever it was killed, the next one has a whole database, and nobody has to mend it by hand."""
    exits = []
    for statement in range(1, 70, 5):
        child = FORK.Process(target=use_until, args=(url, statement))
        child.start()
        child.join()
        exits.append(child.exitcode)

    use(url)

    assert exits[0] == -signal.SIGKILL
    assert len(rows_in(url)) == exits.count(0) + 1


def test_the_file_is_kept_with_a_log_ahead(url: str) -> None:
    """So that those who look do not wait for those who write; also if somebody has restored it from a copy."""
    use(url)
    path = url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")

    use(url)

    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def use(url: str, before: Callable[[], Any] = lambda: None) -> None:
    """As every process begins: open, and create what is missing."""
    before()
    create_embedded(url)
    database = Database(url)
    insert_row(database)
    database.close()


def use_until(url: str, statement: int) -> None:
    """Killed before it sends that statement."""
    sent = 0

    def count(*_: object) -> None:
        nonlocal sent
        sent += 1
        if sent == statement:
            os.kill(os.getpid(), signal.SIGKILL)

    listen(Engine, "before_cursor_execute", count)
    use(url)


def rows_in(url: str) -> list[Any]:
    database = Database(url)
    rows = list(rows_of(database, jobs))
    database.close()
    return rows
