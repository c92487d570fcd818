"""Databases with many rows, filled once for the tests of a module in a few statements."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache

from mayfly.db.database import Database
from mayfly.schema.migrations import migrate
from tests.databases import Databases
from tests.servers import engine_names

SEQUENCES = {
    "sqlite": "(WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {0}) SELECT n FROM s)",
    "mariadb": "(SELECT seq AS n FROM seq_1_to_{0}) AS s",
    "postgres": "generate_series(1, {0}) AS s(n)",
}
ENGINES = [name for name in engine_names(os.environ) if name in SEQUENCES]

FilledDatabases = Callable[[str], Database]


@contextmanager
def filled_databases(databases: Databases, fill: Callable[[Database, str], None]) -> Iterator[FilledDatabases]:
    """The filled database of each engine, made on first use."""
    with ExitStack() as stack:

        @cache
        def filled(engine_name: str) -> Database:
            database = Database(stack.enter_context(databases.fresh(engine_name, migrate)))
            stack.callback(database.close)
            fill(database, engine_name)
            return database

        yield filled


def analyse(database: Database, engine_name: str, *tables: str) -> None:
    """Update the statistics."""
    for table in tables:
        statement = f"ANALYZE TABLE {table}" if engine_name == "mariadb" else f"ANALYZE {table}"
        database.run(lambda connection, statement=statement: connection.execute(statement))  # type: ignore[misc]
