"""A database server, whoever runs it, as the tests see it: databases are made on it and dropped."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, ClassVar

from sqlalchemy import URL, Engine, create_engine, make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool


class Unavailable(Exception):
    """This database cannot be had here; the message says why and what to do."""


class DidNotStart(Exception):
    """The server's program ended, or never answered; the message has the end of its log."""


class Server:
    """A server on which every test gets databases of its own."""

    can_restart: ClassVar[bool] = False

    def __init__(self, engine_name: str, admin_url: URL, connect_args: dict[str, Any] | None = None) -> None:
        self.engine_name = engine_name
        self._admin_url = admin_url
        self._connect_args = connect_args or {}
        self._admin = self._engine(admin_url)

    @property
    def is_postgres(self) -> bool:
        return self._admin_url.get_backend_name() == "postgresql"

    @property
    def version(self) -> str:
        return str(self.execute("SHOW server_version" if self.is_postgres else "SELECT VERSION()")[0][0])

    def url(self, database: str) -> str:
        return self._admin_url.set(database=database).render_as_string(hide_password=False)

    def create_database(self, name: str, template: str | None = None) -> None:
        """A template is PostgreSQL's affair: the new database is a copy of that one."""
        self.execute(f"CREATE DATABASE {name}" + (f" TEMPLATE {template}" if template else ""))

    def drop_database(self, name: str) -> None:
        """Drop it even if a test left a connection open, with a transaction in it."""
        if self.is_postgres:
            self.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
            return
        # Differs because MariaDB would wait for the metadata lock of such a transaction.
        for (session,) in self.execute(f"SELECT id FROM information_schema.processlist WHERE db = '{name}'"):
            with suppress(DBAPIError):  # it went by itself meanwhile
                self.execute(f"KILL {session}")
        self.execute(f"DROP DATABASE IF EXISTS {name}")

    def run_in(self, database: str, statements: Iterable[str]) -> None:
        """Run them in one connection to that database."""
        with self._engine(make_url(self.url(database))).connect() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        """Run one statement in a connection of its own: none stays open, so none can cross a test's fork."""
        with self._admin.connect() as connection:
            result = connection.exec_driver_sql(statement)
            return [tuple(row) for row in result] if result.returns_rows else []

    def _engine(self, url: URL) -> Engine:
        engine = create_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT", connect_args=self._connect_args)
        return engine.execution_options(no_parameters=True)  # a percent sign is a percent sign
