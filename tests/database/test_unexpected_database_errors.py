"""Database errors that no code expects, and sessions closed by the server."""

import threading

import pytest
from sqlalchemy import text

from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.errors import DatabaseCrowded, DatabaseFailed, TableMissing
from mayfly.schema.metadata import jobs
from tests.database.factories import rows_of, run_sql, servers_only
from tests.database.test_transactions import INSERT, SELECT, kill, own_session
from tests.databases import Databases

SLEEP = {"mysql": "SELECT SLEEP(30)", "postgresql": "SELECT pg_sleep(30)"}
CANCEL = {"mysql": "KILL QUERY {}", "postgresql": "SELECT pg_cancel_backend({})"}


@servers_only
def test_a_session_closed_by_the_server_is_replaced(database: Database, rival: Database) -> None:
    """A job in a long lane may begin its transaction after the server's wait_timeout."""
    kill(rival, database.run(own_session))

    with database.transaction() as lent:
        lent.execute(text(INSERT))

    assert len(rows_of(rival, jobs)) == 1


@servers_only
def test_an_idle_connection_is_checked_before_it_is_used(
    database: Database, rival: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the check is sent on the closed connection, so nothing is repeated."""
    kill(rival, database.run(own_session))
    monkeypatch.setattr("mayfly.db.connection.MAX_UNCHECKED_IDLE_SECONDS", 0.0)

    database.run(lambda connection: connection.execute(INSERT))

    assert (database.repeats, len(rows_of(rival, jobs))) == (0, 1)


@servers_only
def test_a_statement_cancelled_by_an_operator_is_a_mayfly_error(database: Database, rival: Database) -> None:
    """Callers catch MayflyError and need no driver. Nothing is retried."""
    session = database.run(own_session)
    has_begun = threading.Event()

    def work(connection: Connection) -> None:
        has_begun.set()
        # MariaDB's SLEEP returns 1 if it is cancelled: one of the next statements raises the error.
        for _ in range(100):
            connection.execute(SLEEP[database.dialect.name])
            connection.execute(SELECT)

    def cancel() -> None:
        assert has_begun.wait(60)
        while not has_ended.is_set():  # it may arrive before the statement
            run_sql(rival, CANCEL[rival.dialect.name].format(session))
            has_ended.wait(0.05)

    has_ended = threading.Event()
    canceller = threading.Thread(target=cancel)
    canceller.start()
    try:
        with pytest.raises(DatabaseFailed, match="returned an unexpected error"):
            database.run(work)
    finally:
        has_ended.set()
        canceller.join()

    assert database.repeats == 0


@pytest.mark.parametrize("engine_name", ["mariadb"], indirect=True)
def test_a_user_without_free_connections_gets_that_reason(databases: Databases, migrated_url: str) -> None:
    """Not the advice to check DATABASE_URL, which is right."""
    server = databases.server("mariadb")
    server.execute("CREATE USER crowded@'%' IDENTIFIED BY 'x' WITH MAX_USER_CONNECTIONS 1")
    server.execute("GRANT ALL ON *.* TO crowded@'%'")
    url = "mysql+pymysql://crowded:x@" + migrated_url.rpartition("@")[2]
    first, second = Database(url), Database(url)
    try:
        first.connect()
        with pytest.raises(DatabaseCrowded, match="max_user_connections"):
            second.connect()
    finally:
        first.close()
        server.execute("DROP USER crowded@'%'")


def test_one_missing_table_is_named(database: Database) -> None:
    """`mayfly migrate` would not create it again."""
    run_sql(database, "DROP TABLE mayfly_pauses")

    with pytest.raises(TableMissing, match="mayfly_pauses"):
        database.run(lambda connection: connection.execute("SELECT * FROM mayfly_pauses"))
