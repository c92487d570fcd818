"""A new SQLite file gets its tables on first use, with concurrent processes and after a kill."""

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

from mayfly.db.database import Database
from mayfly.schema import create_embedded
from mayfly.schema.metadata import jobs
from mayfly.schema.migrations import OWN, migrate
from tests.database.factories import rows_of
from tests.factories import insert_row

FORK = multiprocessing.get_context("fork")
PROCESSES = 6


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/new/mayfly.db"


def test_only_the_owner_may_read_a_new_file(url: str, tmp_path: Path) -> None:
    """Also while it is in use, when there are two more files, and if `mayfly migrate` has created it."""
    before = os.umask(0)
    try:
        create_embedded(url)
        (tmp_path / "other").mkdir()
        migrate(f"sqlite:///{tmp_path}/other/mayfly.db")
        with closing(Database(url)) as database:
            database.once(lambda connection: connection.execute("DELETE FROM mayfly_jobs"))
            found = {each.name: each.stat().st_mode & 0o777 for each in (tmp_path / "new").iterdir()}
    finally:
        os.umask(before)

    assert found == dict.fromkeys(["mayfly.db", "mayfly.db-wal", "mayfly.db-shm"], 0o600)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "other/mayfly.db").stat().st_mode & 0o777 == 0o600


def test_concurrent_processes_can_create_the_tables(url: str) -> None:
    """Each finds the tables, and each job is there."""
    together = FORK.Barrier(PROCESSES)
    running = [FORK.Process(target=use, args=(url, together.wait)) for _ in range(PROCESSES)]
    for each in running:
        each.start()
    for each in running:
        each.join()

    assert [each.exitcode for each in running] == [0] * PROCESSES
    assert len(rows_in(url)) == PROCESSES


def test_a_reader_does_not_break_the_first_migration(url: str, tmp_path: Path) -> None:
    """A new file is not in WAL mode yet, so its first COMMIT waits for readers."""
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

    assert versions == (None, OWN.versions()[0])


def test_a_killed_first_use_is_repaired_by_the_next(url: str) -> None:
    """Wherever it was killed, the next process gets a complete database without manual repair."""
    exits = []
    for statement in range(1, 70, 5):
        child = FORK.Process(target=use_until, args=(url, statement))
        child.start()
        child.join()
        exits.append(child.exitcode)

    use(url)

    assert exits[0] == -signal.SIGKILL
    assert len(rows_in(url)) == exits.count(0) + 1


def test_the_file_is_in_wal_mode(url: str) -> None:
    """So readers do not wait for writers; also after it was restored from a copy."""
    use(url)
    path = url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")

    use(url)

    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def use(url: str, before: Callable[[], Any] = lambda: None) -> None:
    """As every process starts: open, and create what is missing."""
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
