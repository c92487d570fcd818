"""The fixtures: every test has its own database, and copies of a template are complete."""

import pytest
from sqlalchemy import Column, Enum, MetaData, Table, create_engine, inspect, text
from sqlalchemy.pool import NullPool

from tests.database_pool import DatabasePool
from tests.databases import Databases

TABLE = "CREATE TABLE thing (id INTEGER PRIMARY KEY, a INTEGER, b INTEGER GENERATED ALWAYS AS (a + 1) STORED)"


def fill(url: str) -> None:
    run(url, TABLE)
    run(url, "INSERT INTO thing (id, a) VALUES (1, 41)")


def test_a_new_database_is_empty(database_url: str) -> None:
    """It has no table."""
    assert inspect(create_engine(database_url, poolclass=NullPool)).get_table_names() == []


def test_two_databases_are_separate(engine_name: str, databases: Databases, database_url: str) -> None:
    """A table created in one is not in the other."""
    run(database_url, TABLE)

    with databases.fresh(engine_name) as other:
        assert inspect(create_engine(other, poolclass=NullPool)).get_table_names() == []


def test_a_copy_of_a_template_has_its_tables_and_rows(engine_name: str, databases: Databases) -> None:
    """Also the second copy after changes to the first, including generated columns."""
    with databases.fresh(engine_name, fill) as first:
        run(first, "DROP TABLE thing")

    with databases.fresh(engine_name, fill) as second:
        assert run(second, "SELECT id, a, b FROM thing") == [(1, 41, 42)]


def test_a_database_is_dropped_even_with_an_open_transaction(engine_name: str, databases: Databases) -> None:
    """A failed test does not block the following ones."""
    with databases.fresh(engine_name, fill) as url:
        engine = create_engine(url, poolclass=NullPool)
        connection = engine.connect()
        connection.execute(text("SELECT * FROM thing")).all()

    connection.invalidate()
    connection.close()


@pytest.mark.parametrize("engine_name", ["postgres"], indirect=True)
def test_a_reused_database_has_no_types_of_the_last_test(engine_name: str, databases: Databases) -> None:
    """Otherwise a table of the next test would get the values of an enum of the same name."""
    with DatabasePool(databases) as pool:
        with pool.clean_database(engine_name) as first:
            create_status_table(first, "sent")

        with pool.clean_database(engine_name) as second:
            create_status_table(second, "done")
            run(second, "INSERT INTO thing (status) VALUES ('done')")

            assert (first == second, run(second, "SELECT status FROM thing")) == (True, [("done",)])


def create_status_table(url: str, value: str) -> None:
    table = Table("thing", MetaData(), Column("status", Enum(value, name="thing_status")))
    table.metadata.create_all(create_engine(url, poolclass=NullPool))


def run(url: str, statement: str) -> list[tuple[object, ...]]:
    with create_engine(url, poolclass=NullPool).begin() as connection:
        result = connection.execute(text(statement))
        return [tuple(row) for row in result] if result.returns_rows else []
