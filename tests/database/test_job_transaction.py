"""job.transaction(): SQLAlchemy on the runner's own connection, in one transaction with the outcome."""

import pytest
from sqlalchemy import Connection as Lent
from sqlalchemy import select, text
from sqlalchemy.exc import DBAPIError, IntegrityError, InvalidRequestError

from mayfly.clock import monotonic
from mayfly.db import dialects
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.errors import DatabaseAway, Interrupted, SchemaMissing, TransactionClosed
from mayfly.schema.metadata import jobs
from tests.database.factories import rows_of, run_sql, servers_only
from tests.database.test_transactions import (
    INSERT,
    OWN_SESSION,
    SELECT,
    SLEEP,
    interrupted_while_it_sleeps,
    kill,
    own_session,
)
from tests.factories import insert_row


def lent_session(lent: Lent) -> int:
    return int(lent.execute(text(OWN_SESSION[lent.dialect.name])).scalar_one())


@servers_only
def test_a_handler_uses_the_runners_own_connection(database: Database) -> None:
    """Before, in, joined to and after a transaction, and in a second one: the same session."""
    sessions = [database.run(own_session)]
    for _ in range(2):
        with database.transaction() as lent:
            sessions += [lent_session(lent), database.run(own_session), database.read(own_session)]
    sessions.append(database.run(own_session))

    assert len(set(sessions)) == 1


def test_rows_and_outcome_are_committed_together(database: Database, rival: Database) -> None:
    """Other sessions never see one without the other."""
    with database.transaction() as lent:
        lent.execute(text(INSERT))
        database.run(lambda joined: joined.execute(INSERT))
        seen = rival.read(lambda connection: connection.execute(SELECT).all())

    assert (seen, len(rows_of(rival, jobs))) == ([], 2)


def test_both_see_each_others_writes(database: Database) -> None:
    """Before the commit."""
    with database.transaction() as lent:
        lent.execute(text(INSERT))
        [row] = database.run(lambda joined: joined.execute(SELECT).all())
        database.run(lambda joined: joined.execute(INSERT))

        assert len(lent.execute(select(jobs.c.id)).all()) == 2
        assert row[0] == lent.execute(select(jobs.c.id).order_by(jobs.c.id)).scalars().first()


@pytest.mark.parametrize("error", [KeyError, KeyboardInterrupt, Interrupted])
def test_rows_and_outcome_are_rolled_back_together(database: Database, error: type[BaseException]) -> None:
    """After any error; the next transaction has a usable connection."""
    with pytest.raises(error), database.transaction() as lent:  # noqa: PT012 - what it raises must come out of it
        lent.execute(text(INSERT))
        database.run(lambda joined: joined.execute(INSERT))
        raise error

    assert rows_of(database, jobs) == []
    database.run(lambda connection: connection.execute(INSERT))
    assert len(rows_of(database, jobs)) == 1


def test_a_failing_statement_raises_the_error_of_sqlalchemy(database: Database) -> None:
    """For `except IntegrityError`; if it leaves the block, earlier writes are rolled back."""
    job = insert_row(database)

    with pytest.raises(IntegrityError), database.transaction() as lent:  # noqa: PT012 - the same
        lent.execute(text(INSERT))
        lent.execute(text("INSERT INTO mayfly_jobs (id, type, payload) VALUES (:id, 'noop', '{}')"), {"id": job})

    assert [row.id for row in rows_of(database, jobs)] == [job]


def test_an_error_does_not_contain_bound_values(database: Database) -> None:
    """It is logged and stored in last_error."""
    with pytest.raises(DBAPIError) as caught, database.transaction() as lent:
        lent.execute(text("INSERT INTO mayfly_jobs (type, payload, priority) VALUES (:a, '{}', 9)"), {"a": "hidden"})

    assert "[SQL parameters hidden" in str(caught.value)


def test_a_missing_table_is_an_error(database_url: str) -> None:
    """With the sentence of every other transaction."""
    database = Database(database_url)

    with pytest.raises(SchemaMissing), database.transaction() as lent:
        lent.execute(text(INSERT))

    database.close()


def test_a_commit_by_the_handler_ends_its_transaction(database: Database) -> None:
    """Its writes are committed; later ones are refused, not written without a transaction."""
    with pytest.raises(InvalidRequestError), database.transaction() as lent:  # noqa: PT012 - the same
        lent.execute(text(INSERT))
        lent.commit()
        lent.execute(text(INSERT))

    assert len(rows_of(database, jobs)) == 1
    database.run(lambda connection: connection.execute(INSERT))
    assert len(rows_of(database, jobs)) == 2


@pytest.mark.parametrize("ending", ["commit", "rollback", "close"])
def test_no_work_joins_a_transaction_that_the_handler_has_ended(
    database: Database, rival: Database, ending: str
) -> None:
    """A settlement must not be written without a commit, or in a separate transaction."""
    with pytest.raises(TransactionClosed), database.transaction() as lent:  # noqa: PT012 - the same
        lent.execute(text(INSERT))
        getattr(lent, ending)()
        database.run(lambda joined: joined.execute(INSERT))

    database.run(lambda _connection: None)  # commits what was left behind
    assert len(rows_of(rival, jobs)) == (1 if ending == "commit" else 0)


@servers_only
@pytest.mark.parametrize("by_handler", [True, False], ids=["handler", "joined"])
def test_a_killed_session_is_replaced(database: Database, rival: Database, by_handler: bool) -> None:
    """The handler's transaction is not repeated; the next one has a new connection."""

    def insert(connection: Connection) -> None:
        connection.execute(INSERT)

    with pytest.raises(DatabaseAway), database.transaction() as lent:  # noqa: PT012 - the same
        lent.execute(text(INSERT))
        kill(rival, lent_session(lent))
        if by_handler:
            lent.execute(text(INSERT))
        else:
            database.run(insert)

    database.run(insert)
    with database.transaction() as lent:
        lent.execute(text(INSERT))
    assert len(rows_of(rival, jobs)) == 2


@servers_only
def test_an_interruption_of_joined_work_does_not_wait_for_the_answer(
    database: Database, rival: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLAlchemy's ROLLBACK would wait for the answer of the interrupted statement or read it as its own."""
    monkeypatch.setattr(dialects, "STATEMENT_SECONDS", 100)  # the answer comes after 60
    slow = SLEEP[database.dialect.name]
    database.run(own_session)
    started = monotonic()

    with interrupted_while_it_sleeps(rival, Interrupted), pytest.raises(Interrupted), database.transaction():
        database.run(lambda joined: joined.execute(slow).all())

    assert monotonic() - started < 50
    assert database.run(lambda connection: connection.execute("SELECT 7").all()) == [(7,)]


@servers_only
def test_lending_the_connection_keeps_the_isolation_level(database: Database) -> None:
    """SQLAlchemy finds READ COMMITTED, which the claim depends on, and does not change it."""
    questions = {
        "mysql": "SHOW VARIABLES WHERE variable_name IN ('tx_isolation', 'transaction_isolation')",
        "postgresql": "SELECT name, setting FROM pg_settings WHERE name = 'transaction_isolation'",
    }

    with database.transaction() as lent:
        found_by_handler = lent.get_isolation_level()

    [(_, found)] = database.run(lambda connection: connection.execute(questions[database.dialect.name]).all())
    assert {found_by_handler, found.upper().replace("-", " ")} == {"READ COMMITTED"}


def test_lending_the_connection_keeps_its_settings(database: Database) -> None:
    """JSON stays text, rows stay tuples, times stay UTC."""
    insert_row(database, payload='{"a": 1}')
    statement = "SELECT payload, run_at FROM mayfly_jobs"
    before = database.run(lambda connection: connection.execute(statement).all())

    with database.transaction():
        pass

    assert database.run(lambda connection: connection.execute(statement).all()) == before
    assert before[0][0] == '{"a": 1}'


def test_a_row_locked_by_the_handler_is_free_afterwards(database: Database, rival: Database) -> None:
    """The transaction ends with the block, on the server too."""
    with database.transaction() as lent:
        lent.execute(text(INSERT))

    run_sql(rival, "UPDATE mayfly_jobs SET priority = 0")
    assert [row.priority for row in rows_of(rival, jobs)] == [0]
