"""Databases that are wiped and used again: to make one costs a server more than most tests do."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, MetaData, RowMapping, Table, inspect, make_url, text
from sqlalchemy.exc import DBAPIError

from mayfly.schema.migrations import migrate
from tests.databases import Databases, Template
from tests.servers import Server

# What a database had when it was made: each table with its rows, those first that others refer to.
Birth = Sequence[tuple[Table, Sequence[RowMapping]]]


class Kept(NamedTuple):
    """One that is used again, and the engine that wipes it: a new one would ask the server a lot at first."""

    url: str
    engine: Engine
    birth: Birth


class Shelf(ExitStack):
    """One database a server and template for all who ask one after the other, as long as each can be wiped."""

    def __init__(self, databases: Databases) -> None:
        super().__init__()
        self._databases = databases
        self._clean: defaultdict[tuple[str, Template], list[Kept]] = defaultdict(list)

    @contextmanager
    def like_new(self, engine_name: str, template: Template = migrate) -> Iterator[str]:
        """The URL of a database as the template leaves one, but for the next ids; a file is simply copied."""
        if engine_name == "sqlite":
            with self._databases.fresh(engine_name, template) as url:
                yield url
            return
        server, clean = self._databases.server(engine_name), self._clean[engine_name, template]
        kept = clean.pop() if clean else self._make(server, template)
        yield kept.url
        if wipe(server, kept):
            clean.append(kept)

    def _make(self, server: Server, template: Template) -> Kept:
        url = self.enter_context(self._databases.fresh_on(server, template))
        engine = server.engine_for(name_in(url))
        with engine.connect() as connection:
            return Kept(url, engine, birth_of(connection))


def name_in(url: str) -> str:
    name = make_url(url).database
    assert name is not None
    return name


def birth_of(connection: Connection) -> Birth:
    metadata = MetaData()
    metadata.reflect(connection)
    return [(table, connection.execute(table.select()).mappings().all()) for table in metadata.sorted_tables]


def wipe(server: Server, kept: Kept) -> bool:
    """Whether it is as good as new; a test that left a lock behind must not hold up the others."""
    patience = (
        "SET lock_timeout = '2s'" if server.is_postgres else "SET innodb_lock_wait_timeout = 2, lock_wait_timeout = 2"
    )
    try:
        with kept.engine.connect() as connection:
            # What a killed process had begun would else be written after this.
            server.end_other_sessions(connection, name_in(kept.url))
            connection.execute(text(patience))
            restore(connection, kept.birth)
    except DBAPIError:
        return False
    return True


def restore(connection: Connection, birth: Birth) -> None:
    """The rows that it was made with, and no other; nor any table that a test has made for its application."""
    known = {table.name for table, _rows in birth}
    foreign = sorted(set(inspect(connection).get_table_names()) - known)
    if foreign:
        cascade = "" if connection.dialect.name == "sqlite" else " CASCADE"  # MariaDB reads over it
        connection.execute(text(f"DROP TABLE {', '.join(foreign)}{cascade}"))
    filled = names_of_filled(connection, birth)
    for table, _rows in reversed(birth):
        if table.name in filled:
            connection.execute(table.delete())
    for table, rows in birth:
        if rows:
            connection.execute(table.insert(), [stored(table, row) for row in rows])


def names_of_filled(connection: Connection, birth: Birth) -> set[str]:
    """Most tests write into few of the tables."""
    looks = (f"SELECT '{table.name}' WHERE EXISTS (SELECT 1 FROM {table.name})" for table, _rows in birth)
    return set(connection.execute(text(" UNION ALL ".join(looks))).scalars())


def stored(table: Table, row: RowMapping) -> dict[str, Any]:
    """A generated column cannot be written."""
    return {column.name: row[column.name] for column in table.columns if column.computed is None}
