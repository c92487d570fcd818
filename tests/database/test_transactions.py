"""Transactions: committed once, repeated on conflicts, and never partly written."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from math import inf
from types import FrameType

import pytest
from freezegun import freeze_time
from sqlalchemy import text

from mayfly.clock import host_now
from mayfly.db import dialects
from mayfly.db.connection import Connection
from mayfly.db.database import MAX_TRIES, Database
from mayfly.errors import DatabaseBusy, DatabaseFull, DatabaseTooSlow, Interrupted
from mayfly.schema.metadata import jobs
from tests.database.factories import in_threads, rows_of, run_sql, servers_only, sqlite_only
from tests.factories import insert_row, insert_rows
from tests.process.installation import wait_until

INSERT = "INSERT INTO mayfly_jobs (type, payload) VALUES ('noop', '{}')"
SELECT = "SELECT id FROM mayfly_jobs"
SLEEP = {"mysql": "SELECT SLEEP(60), 42", "postgresql": "SELECT pg_sleep(60), 42"}
SLEEPING = {
    "mysql": "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND info LIKE 'SELECT SLEEP(%'",
    "postgresql": "SELECT pid FROM pg_stat_activity"
    " WHERE datname = current_database() AND state = 'active' AND query LIKE 'SELECT pg_sleep(%'",
}
OWN_SESSION = {"mysql": "SELECT CONNECTION_ID()", "postgresql": "SELECT pg_backend_pid()"}


@servers_only
def test_a_deadlock_is_repeated(database: Database, rival: Database) -> None:
    """The database aborts one of the two, and both are committed in the end."""
    first, second = insert_rows(database, 2)
    both = threading.Barrier(2, timeout=60)

    def swap(own: Database, here: int, there: int) -> int:
        tries = 0

        def work(connection: Connection) -> None:
            nonlocal tries
            tries += 1
            lock(connection, here)
            if tries == 1:
                both.wait()
            lock(connection, there)

        own.run(work)
        return tries

    tries = in_threads([lambda: swap(database, first, second), lambda: swap(rival, second, first)])

    assert sorted(tries) == [1, 2]
    assert database.repeats + rival.repeats == 1


def test_a_transaction_that_is_always_locked_out_fails(
    database: Database, rival: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After six attempts, with a sentence: a long transaction of another session is not waited for."""
    job = insert_row(database)
    tries = 0

    def work(connection: Connection) -> None:
        nonlocal tries
        tries += 1
        connection.execute("SELECT id FROM mayfly_jobs WHERE id = :id FOR UPDATE NOWAIT", {"id": job})

    if database.dialect.name == "sqlite":  # has no NOWAIT
        monkeypatch.setattr(dialects, "STATEMENT_SECONDS", 0)
    with holding(rival, job), pytest.raises(DatabaseBusy, match="is still locked after several attempts"):
        database.run(work)

    assert tries == (0 if database.dialect.name == "sqlite" else MAX_TRIES)
    assert database.repeats == MAX_TRIES - 1


def test_a_failed_transaction_leaves_nothing(database: Database) -> None:
    """An error rolls back everything before it."""

    def work(connection: Connection) -> None:
        connection.execute(INSERT)
        raise KeyError("a mistake of ours")

    with pytest.raises(KeyError):
        database.run(work)

    assert rows_of(database, jobs) == []


@servers_only
def test_a_killed_session_is_replaced(database: Database, rival: Database) -> None:
    """Between two transactions: the next one detects the closed connection and opens a new one."""
    kill(rival, session_of(database))

    database.run(lambda connection: connection.execute(INSERT))

    assert len(rows_of(rival, jobs)) == 1
    assert database.repeats == 1


@servers_only
def test_a_session_killed_during_a_transaction_is_replaced(database: Database, rival: Database) -> None:
    """The whole transaction is repeated, and nothing of the first one is left."""
    tries = 0

    def work(connection: Connection) -> None:
        nonlocal tries
        tries += 1
        connection.execute(INSERT)
        if tries == 1:
            kill(rival, own_session(connection))
        connection.execute(INSERT)

    database.run(work)

    assert (tries, len(rows_of(rival, jobs))) == (2, 2)


@servers_only
def test_a_killed_session_is_replaced_for_reads(database: Database, rival: Database) -> None:
    """Reads are repeated like writes."""
    kill(rival, session_of(database))

    assert database.read(lambda connection: connection.execute("SELECT 1").scalar()) == 1


def test_nested_work_joins_the_transaction_of_its_thread(database: Database) -> None:
    """There is one connection: nested work commits or rolls back with it."""
    with suppress(KeyError), database.transaction() as connection:
        connection.execute(text(INSERT))
        database.run(lambda joined: joined.execute(INSERT))
        raise KeyError("a mistake of ours")

    assert rows_of(database, jobs) == []


def test_work_of_another_thread_does_not_join(migrated_url: str) -> None:
    """Only the thread that opened the transaction uses it."""
    database = Database(migrated_url, connections=2)

    def find_row() -> int:
        return len(database.read(lambda connection: connection.execute(SELECT).all()))

    with database.transaction() as connection:
        connection.execute(text(INSERT))
        seen = in_threads([find_row])

    assert (seen, find_row()) == ([0], 1)
    database.close()


def test_after_a_transaction_work_commits_by_itself(database: Database) -> None:
    """The previous transaction has ended."""
    with database.transaction():
        pass

    database.run(lambda connection: connection.execute(INSERT))

    assert len(rows_of(database, jobs)) == 1


def test_an_interruption_between_two_statements_leaves_nothing(database: Database) -> None:
    """The database is usable afterwards, also with a single connection."""

    def work(connection: Connection) -> None:
        connection.execute(INSERT)
        raise Interrupted

    with pytest.raises(Interrupted):
        database.run(work)

    insert_row(database)
    assert len(rows_of(database, jobs)) == 1


@servers_only
@pytest.mark.parametrize("interruption", [Interrupted, KeyboardInterrupt])
def test_an_interruption_during_a_statement_leaves_no_partial_answer(
    database: Database, rival: Database, interruption: type[BaseException]
) -> None:
    """The next statement gets its own answer."""
    slow = SLEEP[database.dialect.name]

    with interrupted_while_it_sleeps(rival, interruption), pytest.raises(interruption):
        database.run(lambda connection: connection.execute(slow).all())

    answers = [database.run(lambda connection: connection.execute("SELECT 7").all()) for _ in range(3)]
    assert answers == [[(7,)]] * 3


@sqlite_only
def test_a_full_disk_is_an_error(database: Database) -> None:
    """Existing rows stay readable."""
    database.run(lambda connection: connection.execute("PRAGMA max_page_count=60"))  # of this one connection
    before = insert_row(database)
    large = [{"payload": f'{{"a": "{"x" * 10_000}"}}'}] * 100

    with pytest.raises(DatabaseFull, match=r"cannot write: database or disk is full\. Free disk space"):
        database.run(lambda connection: connection.execute_many(INSERT.replace("'{}'", ":payload"), large))

    assert [row.id for row in rows_of(database, jobs)] == [before]


@sqlite_only
def test_sqlite_is_as_durable_as_a_server(database: Database) -> None:
    """WAL mode, so readers do not block; a COMMIT is on disk when it returns."""
    modes = database.run(
        lambda connection: [connection.execute(f"PRAGMA {name}").scalar() for name in ("journal_mode", "synchronous")]
    )

    assert modes == ["wal", 2]


@sqlite_only
def test_reads_do_not_wait_for_a_writer(database: Database, rival: Database) -> None:
    """SQLite has one writer and any number of readers."""
    insert_row(database)
    with rival.transaction() as connection:
        connection.execute(text(INSERT))

        seen = database.read(lambda reading: reading.execute(SELECT).all())

    assert len(seen) == 1


def test_a_bound_ends_a_statement_that_waits(database: Database, rival: Database) -> None:
    """After it, the next statement has a new connection and the deadline from before."""
    job_id = insert_row(database)

    def lock(connection: Connection) -> int:
        return connection.execute(f"UPDATE mayfly_jobs SET priority = 0 WHERE id = {job_id}").rowcount

    def hold_lock(connection: Connection) -> None:
        lock(connection)
        with pytest.raises(DatabaseTooSlow), database.bounded(0.2):
            database.run(lock)

    rival.run(hold_lock)

    assert (database.deadline, database.run(lock)) == (inf, 1)


@servers_only
def test_sessions_are_read_committed_and_utc(database: Database) -> None:
    """Whatever default the server has: the claim depends on it."""
    questions = {
        "mysql": "SHOW VARIABLES WHERE variable_name IN ('tx_isolation', 'transaction_isolation', 'time_zone')",
        "postgresql": "SELECT name, setting FROM pg_settings WHERE name IN ('transaction_isolation', 'TimeZone')",
    }

    found = database.run(lambda connection: connection.execute(questions[database.dialect.name]).all())

    assert {setting for _, setting in found} in ({"READ-COMMITTED", "+00:00"}, {"read committed", "UTC"})


@pytest.mark.parametrize("hours", [-3, 3])
def test_a_clock_that_is_off_is_used(migrated_url: str, hours: int) -> None:
    """The offset is measured once, and reported above a second."""
    with freeze_time(host_now() + timedelta(hours=hours), tick=True):
        database = Database(migrated_url)
        offset, now = database.clock.offset, database.clock.now()
        database.close()

    assert abs(offset + timedelta(hours=hours)) < timedelta(seconds=1)
    assert abs(now - host_now()) < timedelta(minutes=1)


def test_a_clock_that_is_right_is_not_adjusted(database: Database) -> None:
    """Here the database is on the same machine."""
    assert abs(database.clock.offset) < timedelta(seconds=1)
    assert not database.clock.is_skewed


def test_the_clock_is_measured_once(database: Database) -> None:
    """A process uses one offset, over all its connections."""
    clock = database.clock
    database.close()

    database.run(lambda _connection: None)

    assert database.clock is clock


def test_close_leaves_no_connection_open(migrated_url: str) -> None:
    """Before a fork, and between cycles."""
    database = Database(migrated_url, connections=2)
    with database.transaction():
        raws = in_threads([lambda: database.read(lambda connection: connection.raw)])
        raws.append(database.read(lambda joined: joined.raw))

    database.close()

    assert len(set(map(id, raws))) == 2
    for raw in raws:
        with pytest.raises(database.dialect.errors, match=r"closed|^\(0, ''\)$"):
            raw.cursor().execute("SELECT 1")


# --- sessions ---------------------------------------------------------------------------------------------


def lock(connection: Connection, job: int) -> None:
    connection.execute("UPDATE mayfly_jobs SET priority = 0 WHERE id = :id", {"id": job})


@contextmanager
def holding(database: Database, job: int) -> Iterator[None]:
    """A transaction of another session that does not end."""
    with database.transaction():
        database.run(lambda joined: lock(joined, job))
        yield


def session_of(database: Database) -> int:
    """Of the only connection of the database."""
    return database.run(own_session)


def own_session(connection: Connection) -> int:
    return int(connection.execute(OWN_SESSION[connection.dialect.name]).scalar())


def kill(database: Database, session: int) -> None:
    """As an operator does."""
    order = {"mysql": f"KILL {session}", "postgresql": f"SELECT pg_terminate_backend({session})"}
    run_sql(database, order[database.dialect.name])


@contextmanager
def interrupted_while_it_sleeps(rival: Database, interruption: type[BaseException]) -> Iterator[None]:
    """As the guard of a runner does: an exception from a signal handler while the server runs SLEEP."""

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise interruption

    def watch() -> None:
        sleeping = SLEEPING[rival.dialect.name]
        wait_until(lambda: rival.read(lambda connection: connection.execute(sleeping).all()), "the server sleeps")
        signal.pthread_kill(tests, signal.SIGALRM)

    tests = threading.get_ident()
    before = signal.signal(signal.SIGALRM, interrupt)
    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield
    finally:
        watching.join()
        signal.signal(signal.SIGALRM, before)
