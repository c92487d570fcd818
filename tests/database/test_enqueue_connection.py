"""`connection=`: the job is part of the application's own transaction, and nothing is committed on its behalf."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

import mayfly
from mayfly import json_text
from mayfly.db.database import Database
from mayfly.schema.metadata import jobs
from tests.database.application_connections import KINDS, Application, as_connection, as_mariadb, opened
from tests.database.factories import change_job, mysql_only, rows_of, run_sql
from tests.factories import get_row

pytestmark = pytest.mark.usefixtures("app")

ORDER = "INSERT INTO orders (id) VALUES (1)"


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def client(request: pytest.FixtureRequest, migrated_url: str, database: Database) -> Iterator[Application]:
    """An application with a table of its own."""
    run_sql(database, "CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    with opened(request.param, migrated_url) as application:
        yield application


def test_the_job_commits_with_the_applications_row(client: Application, database: Database) -> None:
    """Both are there, and the id is the row's."""
    client.run(ORDER)
    job = mayfly.enqueue("noop", {"order": 1}, connection=client.connection)
    client.commit()

    assert orders(database) == 1
    assert get_row(database, job).payload == '{"order":1}'


def test_the_job_rolls_back_with_the_applications_row(client: Application, database: Database) -> None:
    """Neither was ever there."""
    client.run(ORDER)
    mayfly.enqueue("noop", connection=client.connection)
    mayfly.enqueue_many([{"type": "noop"}] * 3, connection=client.connection)
    client.rollback()

    assert (orders(database), rows_of(database, jobs)) == (0, [])


def test_nobody_sees_the_job_before_the_application_commits(client: Application, database: Database) -> None:
    """Nothing is committed by us."""
    client.run(ORDER)
    mayfly.enqueue("noop", connection=client.connection)

    seen = database.read(lambda connection: connection.execute("SELECT id FROM mayfly_jobs").all())

    assert seen == []


def test_many_jobs_commit_with_the_applications_row(client: Application, database: Database) -> None:
    """With and without keys, and in more than one statement."""
    client.run(ORDER)
    inserted = mayfly.enqueue_many(
        ({"type": "noop", "unique_key": None if number < 1200 else f"key-{number // 2}"} for number in range(1300)),
        connection=client.connection,
    )
    client.commit()

    assert inserted == len(rows_of(database, jobs)) == 1200 + 50
    assert orders(database) == 1


def test_a_key_that_is_held_is_told_in_the_applications_transaction(client: Application, database: Database) -> None:
    """The holder's id, and no error that would end the transaction."""
    held = mayfly.enqueue("noop", unique_key="key")
    client.run(ORDER)
    job = mayfly.enqueue("noop", unique_key="key", connection=client.connection)
    client.commit()

    assert (job, orders(database), len(rows_of(database, jobs))) == (held, 1, 1)


def test_a_key_that_was_set_free_is_taken(client: Application, database: Database) -> None:
    """The job that has ended is not given for the new one."""
    ended = mayfly.enqueue("noop", unique_key="key")
    change_job(database, ended, status="done")

    job = mayfly.enqueue("noop", unique_key="key", connection=client.connection)
    client.commit()

    assert job != ended
    assert get_row(database, job).status == "pending"


def test_run_at_and_delay_mean_the_same_here(client: Application, database: Database) -> None:
    """The database's time, in UTC, whatever the application's session thinks."""
    at = database.clock.now() + timedelta(days=1)
    fixed = mayfly.enqueue("noop", run_at=at, connection=client.connection)
    delayed = mayfly.enqueue("noop", delay=60, connection=client.connection)
    client.commit()

    assert get_row(database, fixed).run_at == at
    wait = get_row(database, delayed).run_at - database.clock.now()
    assert timedelta(seconds=30) < wait < timedelta(seconds=61)  # the two clocks were measured one by one


def test_hostile_text_arrives_as_it_was(client: Application, database: Database) -> None:
    """Quotes, percent signs, backslashes, NUL and emoji are the driver's business, not the application's."""
    payload = {"text": "%s %(x)s '\"\\ :name ? \x00 \U0001f9a5"}

    job = mayfly.enqueue("noop", payload, unique_key="'%s'", connection=client.connection)
    client.commit()

    row = get_row(database, job)
    assert json_text.decode(row.payload) == payload
    assert row.unique_key == "'%s'"


@mysql_only
def test_an_engine_made_for_mariadb_is_one_for_mysql(migrated_url: str, database: Database) -> None:
    """SQLAlchemy calls the dialect by another name when the URL does."""
    with opened(as_mariadb, migrated_url) as application:
        job = mayfly.enqueue("noop", {"a": 1}, delay=-1, unique_key="key", connection=application.connection)
        again = mayfly.enqueue("noop", unique_key="key", connection=application.connection)
        more = mayfly.enqueue_many(
            [{"type": "noop", "unique_key": key} for key in "aab"], connection=application.connection
        )
        application.commit()

    assert (again, more) == (job, 2)
    assert get_row(database, job).payload == '{"a":1}'


@mysql_only
def test_a_holder_that_came_after_the_snapshot_is_found(migrated_url: str, database: Database) -> None:
    """In REPEATABLE READ, which is every application's default there, a plain look would not show it: for ever."""
    with opened(as_connection, migrated_url) as application:
        application.run("SELECT id FROM mayfly_jobs")  # the snapshot is taken
        held = mayfly.enqueue("noop", unique_key="key")

        job = mayfly.enqueue("noop", unique_key="key", connection=application.connection)

    assert job == held


def orders(database: Database) -> Any:
    return database.run(lambda connection: connection.execute("SELECT COUNT(*) FROM orders").scalar())
