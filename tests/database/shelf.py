"""Databases that are wiped and used again: to make one costs a server more than most tests of this floor do."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from sqlalchemy import make_url
from sqlalchemy.exc import DBAPIError

from mayfly import schema
from mayfly.migrations import migrate
from tests import tables
from tests.databases import Databases
from tests.servers import Server

WIPE = [
    *(f"DELETE FROM {table.name}" for table in tables.metadata.sorted_tables if table is not tables.locks),
    "DROP TABLE IF EXISTS orders",  # what these tests call an application's own table
    "UPDATE mayfly_locks SET holder = NULL, lease_until = NULL, number = 0",
    f"UPDATE mayfly_version SET version_num = '{schema.VERSION}'",
]


class Shelf(ExitStack):
    """One database a server, as long as every test leaves it so that it can be wiped."""

    def __init__(self, databases: Databases) -> None:
        super().__init__()
        self._databases = databases
        self._clean: dict[str, str | None] = {}

    @contextmanager
    def like_new(self, engine_name: str) -> Iterator[str]:
        """The URL of a migrated database without rows; a file is simply copied."""
        if engine_name == "sqlite":
            with self._databases.fresh(engine_name, migrate) as url:
                yield url
            return
        url = self._clean.pop(engine_name, None) or self.enter_context(self._databases.fresh(engine_name, migrate))
        yield url
        if wipe(self._databases.server(engine_name), url):
            self._clean[engine_name] = url


def wipe(server: Server, url: str) -> bool:
    """Whether it is as good as new; a test that left a lock behind must not hold up the others."""
    name = make_url(url).database
    assert name is not None
    patience = (
        "SET lock_timeout = '2s'" if server.is_postgres else "SET innodb_lock_wait_timeout = 2, lock_wait_timeout = 2"
    )
    try:
        server.run_in(name, [patience, *WIPE])
    except DBAPIError:
        return False
    return True
