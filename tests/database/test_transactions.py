"""Units of work: committed once, repeated when the database asks for it, and never left half done."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from types import FrameType

import pytest
from freezegun import freeze_time
from sqlalchemy import text

from mayfly.clock import host_now
from mayfly.db.connection import Connection
from mayfly.db.database import MAX_TRIES, Database
from mayfly.db.dialects import base
from mayfly.errors import DatabaseBusy, DatabaseFull, Interrupted
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
    """Each holds what the other wants; the database sacrifices one of them, and both come through."""
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


def test_whoever_is_always_locked_out_gives_up(
    database: Database, rival: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After six tries, with a sentence: a long transaction of somebody else's is not waited for, for ever."""
    job = insert_row(database)
    tries = 0

    def work(connection: Connection) -> None:
        nonlocal tries
        tries += 1
        connection.execute("SELECT id FROM mayfly_jobs WHERE id = :id FOR UPDATE NOWAIT", {"id": job})

    if database.dialect.name == "sqlite":  # has no NOWAIT
        monkeypatch.setattr(base, "STATEMENT_SECONDS", 0)
    with holding(rival, job), pytest.raises(DatabaseBusy, match="still locked after 6 attempts"):
        database.run(work)

    assert tries == (0 if database.dialect.name == "sqlite" else MAX_TRIES)
    assert database.repeats == MAX_TRIES - 1


def test_what_fails_leaves_nothing(database: Database) -> None:
    """An error in the middle takes back what was written before it."""

    def work(connection: Connection) -> None:
        connection.execute(INSERT)
        raise KeyError("a mistake of ours")

    with pytest.raises(KeyError):
        database.run(work)

    assert rows_of(database, jobs) == []


@servers_only
def test_a_session_that_was_killed_is_replaced(database: Database, rival: Database) -> None:
    """Between two units of work: the next one finds its connection cut, and takes a new one."""
    kill(rival, session_of(database))

    database.run(lambda connection: connection.execute(INSERT))

    assert len(rows_of(rival, jobs)) == 1
    assert database.repeats == 1


@servers_only
def test_a_session_that_was_killed_in_the_middle_is_replaced(database: Database, rival: Database) -> None:
    """The whole unit is run again: nothing of the first try is left."""
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
def test_a_session_that_was_killed_is_replaced_for_those_who_only_look(database: Database, rival: Database) -> None:
    """Reading is repeated as writing is."""
    kill(rival, session_of(database))

    assert database.read(lambda connection: connection.execute("SELECT 1").scalar()) == 1


def test_work_joins_the_transaction_of_its_thread(database: Database) -> None:
    """There is one connection, and it is taken: what is run inside commits or rolls back with it."""
    with suppress(KeyError), database.transaction() as connection:
        connection.execute(text(INSERT))
        database.run(lambda joined: joined.execute(INSERT))
        raise KeyError("a mistake of ours")

    assert rows_of(database, jobs) == []


def test_work_of_another_thread_does_not_join(migrated_url: str) -> None:
    """It is another's transaction: only the thread that opened it means it."""
    database = Database(migrated_url, connections=2)

    def look_for_it() -> int:
        return len(database.read(lambda connection: connection.execute(SELECT).all()))

    with database.transaction() as connection:
        connection.execute(text(INSERT))
        seen = in_threads([look_for_it])

    assert (seen, look_for_it()) == ([0], 1)
    database.close()


def test_after_a_transaction_work_is_committed_by_itself_again(database: Database) -> None:
    """The transaction of before is over for good."""
    with database.transaction():
        pass

    database.run(lambda connection: connection.execute(INSERT))

    assert len(rows_of(database, jobs)) == 1


def test_an_interruption_between_two_statements_leaves_nothing(database: Database) -> None:
    """And a database that can be worked with: with one connection, as a runner has."""

    def work(connection: Connection) -> None:
        connection.execute(INSERT)
        raise Interrupted

    with pytest.raises(Interrupted):
        database.run(work)

    insert_row(database)
    assert len(rows_of(database, jobs)) == 1


@servers_only
@pytest.mark.parametrize("interruption", [Interrupted, KeyboardInterrupt])
def test_an_interruption_in_the_middle_of_a_statement_leaves_no_half_answer(
    database: Database, rival: Database, interruption: type[BaseException]
) -> None:
    """The next statement gets its own answer, not what was still in the pipe."""
    slow = SLEEP[database.dialect.name]

    with interrupted_while_it_sleeps(rival, interruption), pytest.raises(interruption):
        database.run(lambda connection: connection.execute(slow).all())

    answers = [database.run(lambda connection: connection.execute("SELECT 7").all()) for _ in range(3)]
    assert answers == [[(7,)]] * 3


@sqlite_only
def test_a_full_disk_is_told(database: Database) -> None:
    """What was there stays, and can be read."""
    database.run(lambda connection: connection.execute("PRAGMA max_page_count=60"))  # of this one connection
    before = insert_row(database)
    large = [{"payload": f'{{"a": "{"x" * 10_000}"}}'}] * 100

    with pytest.raises(DatabaseFull, match=r"cannot write: database or disk is full\. Free disk space"):
        database.run(lambda connection: connection.execute_many(INSERT.replace("'{}'", ":payload"), large))

    assert [row.id for row in rows_of(database, jobs)] == [before]


@sqlite_only
def test_sqlite_is_as_durable_as_a_server(database: Database) -> None:
    """WAL, so that readers do not block; a COMMIT is on the disk when it is answered."""
    modes = database.run(
        lambda connection: [connection.execute(f"PRAGMA {name}").scalar() for name in ("journal_mode", "synchronous")]
    )

    assert modes == ["wal", 2]


@sqlite_only
def test_those_who_only_look_do_not_wait_for_a_writer(database: Database, rival: Database) -> None:
    """SQLite has one writer, and as many readers as one likes."""
    insert_row(database)
    with rival.transaction() as connection:
        connection.execute(text(INSERT))

        seen = database.read(lambda reading: reading.execute(SELECT).all())

    assert len(seen) == 1


@servers_only
def test_sessions_are_read_committed_and_utc(database: Database) -> None:
    """Whatever the server's own default is: that is what the claim is built on."""
    questions = {
        "mysql": "SHOW VARIABLES WHERE variable_name IN ('tx_isolation', 'transaction_isolation', 'time_zone')",
        "postgresql": "SELECT name, setting FROM pg_settings WHERE name IN ('transaction_isolation', 'TimeZone')",
    }

    found = database.run(lambda connection: connection.execute(questions[database.dialect.name]).all())

    assert {setting for _, setting in found} in ({"READ-COMMITTED", "+00:00"}, {"read committed", "UTC"})


@pytest.mark.parametrize("hours", [-3, 3])
def test_a_clock_that_is_off_is_followed(migrated_url: str, hours: int) -> None:
    """The distance is measured once, and told when it is more than a second."""
    with freeze_time(host_now() + timedelta(hours=hours), tick=True):
        database = Database(migrated_url)
        offset, now = database.clock.offset, database.clock.now()
        database.close()

    assert abs(offset + timedelta(hours=hours)) < timedelta(seconds=1)
    assert abs(now - host_now()) < timedelta(minutes=1)


def test_a_clock_that_is_right_is_not_moved(database: Database) -> None:
    """Here the database is on this machine."""
    assert abs(database.clock.offset) < timedelta(seconds=1)
    assert not database.clock.is_skewed


def test_the_clock_is_measured_once(database: Database) -> None:
    """A process works with one time, from its first connection to its last."""
    clock = database.clock
    database.close()

    database.run(lambda _connection: None)

    assert database.clock is clock


def test_nothing_stays_open_after_a_close(migrated_url: str) -> None:
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
    """Somebody else's transaction that does not end."""
    with database.transaction():
        database.run(lambda joined: lock(joined, job))
        yield


def session_of(database: Database) -> int:
    """Of the one connection that the database keeps."""
    return database.run(own_session)


def own_session(connection: Connection) -> int:
    return int(connection.execute(OWN_SESSION[connection.dialect.name]).scalar())


def kill(database: Database, session: int) -> None:
    """As an operator does."""
    order = {"mysql": f"KILL {session}", "postgresql": f"SELECT pg_terminate_backend({session})"}
    run_sql(database, order[database.dialect.name])


@contextmanager
def interrupted_while_it_sleeps(rival: Database, interruption: type[BaseException]) -> Iterator[None]:
    """As a runner's guard does it: an exception out of a signal handler, as soon as the server runs SLEEP."""

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
