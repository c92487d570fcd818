"""A database server as the tests use it: databases are created on it and dropped."""

import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, ClassVar

from sqlalchemy import URL, Connection, Engine, create_engine, make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

END_SECONDS = 60.0
# The list of sessions with its columns for database and id; the id of the own session; the statement that ends one.
SESSIONS = {
    "mariadb": ("information_schema.processlist", "db", "id", "CONNECTION_ID()", "KILL {}"),
    "postgres": ("pg_stat_activity", "datname", "pid", "pg_backend_pid()", "SELECT pg_terminate_backend({})"),
}


class Unavailable(Exception):
    """This database is not available here; the message has the reason and the remedy."""


class DidNotStart(Exception):
    """The server exited or never answered; the message has the end of its log."""


class Server:
    """A server on which every test gets its own databases."""

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
        """With a template (PostgreSQL only) the new database is a copy of it."""
        self.execute(f"CREATE DATABASE {name}" + (f" TEMPLATE {template}" if template else ""))

    def drop_database(self, name: str) -> None:
        """Drop it even if a test left a connection with an open transaction."""
        if self.is_postgres:
            self.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
            return
        # Differs because MariaDB would wait for the metadata lock of such a transaction.
        with self._admin.connect() as connection:
            self._kill_sessions(connection, name)
            connection.exec_driver_sql(f"DROP DATABASE IF EXISTS {name}")

    def end_other_sessions(self, connection: Connection, database: str) -> None:
        """End all others in the database and wait until their transactions are committed or rolled back."""
        deadline = time.monotonic() + END_SECONDS
        while self._kill_sessions(connection, database):
            assert time.monotonic() < deadline, f"there are still sessions in {database}"
            time.sleep(0.01)

    def _kill_sessions(self, connection: Connection, database: str) -> int:
        """Returns their number, without the own session."""
        table, column, key, own, kill = SESSIONS["postgres" if self.is_postgres else "mariadb"]
        listing = f"SELECT {key} FROM {table} WHERE {column} = '{database}' AND {key} <> {own}"
        sessions = connection.exec_driver_sql(listing).all()
        for (session,) in sessions:
            with suppress(DBAPIError):  # it ended by itself meanwhile
                connection.exec_driver_sql(kill.format(session))
        return len(sessions)

    def engine_for(self, database: str) -> Engine:
        """Autocommit, without a pool of connections."""
        return self._engine(make_url(self.url(database)))

    def run_in(self, database: str, statements: Iterable[str]) -> None:
        """Run them in one connection to that database."""
        with self.engine_for(database).connect() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        """Run one statement in its own connection: none stays open, so none can cross a fork of a test."""
        with self._admin.connect() as connection:
            result = connection.exec_driver_sql(statement)
            return [tuple(row) for row in result] if result.returns_rows else []

    def _engine(self, url: URL) -> Engine:
        engine = create_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT", connect_args=self._connect_args)
        return engine.execution_options(no_parameters=True)  # a percent sign is literal
