"""Databases that are cleaned and reused: creating one takes longer than most tests."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

from sqlalchemy import Connection, MetaData, RowMapping, Table, make_url, text
from sqlalchemy.exc import DBAPIError

from mayfly.schema.migrations import migrate
from tests.databases import Databases, Template
from tests.servers import Server
from tests.sqlalchemy_engines import close_connections

# The rows of each table of a new database, referenced tables first.
InitialRows = Sequence[tuple[Table, Sequence[RowMapping]]]


# The tables of the current schema, without views.
TABLE_NAMES = {
    "mysql": "SHOW FULL TABLES WHERE table_type = 'BASE TABLE'",
    "postgresql": "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()",
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'",
}


# The enum types of the current schema, which outlive the tables that use them.
TYPE_NAMES = "SELECT typname FROM pg_type WHERE typtype = 'e' AND typnamespace = current_schema()::regnamespace"


class PooledDatabase(NamedTuple):
    """A reused database with the session that cleans it: a new session on PostgreSQL takes 15 ms for that."""

    url: str
    session: Connection
    initial_rows: InitialRows


class DatabasePool(ExitStack):
    """One database per server and template for consecutive tests, as long as it can be cleaned."""

    def __init__(self, databases: Databases) -> None:
        super().__init__()
        self._databases = databases
        self._clean: defaultdict[tuple[str, Template], list[PooledDatabase]] = defaultdict(list)

    @contextmanager
    def clean_database(self, engine_name: str, template: Template = migrate) -> Iterator[str]:
        """The URL of a database as the template leaves it, except for the next ids; a SQLite file is copied."""
        if engine_name == "sqlite":
            with self._databases.fresh(engine_name, template) as url:
                yield url
            return
        server, clean = self._databases.server(engine_name), self._clean[engine_name, template]
        pooled = clean.pop() if clean else self._make(server, template)
        yield pooled.url
        close_connections(name_in(pooled.url))
        if wipe(server, pooled):
            clean.append(pooled)

    def _make(self, server: Server, template: Template) -> PooledDatabase:
        url = self.enter_context(self._databases.fresh_on(server, template))
        session = self.enter_context(server.engine_for(name_in(url)).connect())
        return PooledDatabase(url, session, initial_rows_of(session))


def name_in(url: str) -> str:
    name = make_url(url).database
    assert name is not None
    return name


def initial_rows_of(connection: Connection) -> InitialRows:
    metadata = MetaData()
    metadata.reflect(connection)
    return [(table, connection.execute(table.select()).mappings().all()) for table in metadata.sorted_tables]


def wipe(server: Server, pooled: PooledDatabase) -> bool:
    """Returns whether it is clean; a lock left by a test must not delay the others."""
    timeouts = (
        "SET lock_timeout = '2s'" if server.is_postgres else "SET innodb_lock_wait_timeout = 2, lock_wait_timeout = 2"
    )
    try:
        # otherwise transactions of a killed process could be committed after this
        server.end_other_sessions(pooled.session, name_in(pooled.url))
        pooled.session.exec_driver_sql(timeouts)
        restore(pooled.session, pooled.initial_rows)
    except DBAPIError:
        return False
    return True


def restore(connection: Connection, initial_rows: InitialRows) -> None:
    """Restore its initial rows, and drop what a test has created for its application."""
    drop_foreign(connection, {table.name for table, _rows in initial_rows})
    filled = names_of_filled(connection, initial_rows)
    for table, _rows in reversed(initial_rows):
        if table.name in filled:
            connection.exec_driver_sql(f"DELETE FROM {table.name}")
    for table, rows in initial_rows:
        if rows:
            connection.execute(table.insert(), [stored(table, row) for row in rows])


def drop_foreign(connection: Connection, known: set[str]) -> None:
    """Drop the other tables, and enum types: a later test with a type of the same name would get the old values."""
    foreign = sorted(set(connection.exec_driver_sql(TABLE_NAMES[connection.dialect.name]).scalars()) - known)
    if not foreign:
        return
    cascade = "" if connection.dialect.name == "sqlite" else " CASCADE"  # MariaDB ignores it
    connection.execute(text(f"DROP TABLE {', '.join(foreign)}{cascade}"))
    if connection.dialect.name == "postgresql":
        for name in connection.exec_driver_sql(TYPE_NAMES).scalars().all():
            connection.exec_driver_sql(f"DROP TYPE {name}")


def names_of_filled(connection: Connection, initial_rows: InitialRows) -> set[str]:
    """Most tests write to few tables."""
    queries = (f"SELECT '{table.name}' WHERE EXISTS (SELECT 1 FROM {table.name})" for table, _rows in initial_rows)
    return set(connection.exec_driver_sql(" UNION ALL ".join(queries)).scalars())


def stored(table: Table, row: RowMapping) -> dict[str, Any]:
    """A generated column cannot be written."""
    return {column.name: row[column.name] for column in table.columns if column.computed is None}
