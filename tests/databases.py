"""New databases for the tests, on every engine, created on demand."""

import secrets
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from sqlalchemy.exc import DBAPIError

from scripts.faults.galera import GaleraNode, galera_nodes
from tests.servers import (
    PRIVATE,
    DidNotStart,
    Dovecot,
    PgBouncer,
    Postfix,
    PostgresServer,
    PostgresStandby,
    PrivateProcess,
    PrivateServer,
    Server,
    Unavailable,
    named_server,
    server_url,
)
from tests.servers.directory import directory_for_databases
from tests.sqlalchemy_engines import forget_engines

Process = TypeVar("Process", bound=PrivateProcess)
# Fills an empty database, given its URL; each is run once per engine and copied afterwards.
Template = Callable[[str], object]


class Databases:
    """The servers of one test session, and the databases on them."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._servers: dict[str, Server | Unavailable] = {}
        self._private: list[PrivateProcess] = []
        self._templates: dict[tuple[str | Server, Template], list[str]] = {}
        self._existing: list[tuple[Server, str]] = []
        self._directory: Path | None = None
        self.used: dict[str, str] = {}
        self.unavailable: dict[str, str] = {}

    @contextmanager
    def fresh(self, engine_name: str, template: Template | None = None) -> Iterator[str]:
        """The URL of a new database: empty, or a copy of the template."""
        if engine_name == "sqlite":
            with self._fresh_file(template) as url:
                yield url
        else:
            with self.fresh_on(self.server(engine_name), template) as url:
                yield url

    @contextmanager
    def fresh_on(self, server: Server, template: Template | None = None) -> Iterator[str]:
        """The same on the given server."""
        name = self._new_name(server)
        if template is None:
            server.create_database(name)
        elif server.is_postgres:
            server.create_database(name, template=self._template(server, template)[0])
        else:
            # Differs because MariaDB cannot copy a database: the statements that created its tables are repeated.
            server.create_database(name)
            server.run_in(name, self._template(server, template))
        yield server.url(name)
        forget_engines(name)
        if not isinstance(server, PrivateServer) or server.is_running:
            server.drop_database(name)
            self._existing.remove((server, name))

    def copy_file(self, template: Template, path: Path) -> None:
        """A SQLite file like the template, readable for its owner only."""
        shutil.copy(self._template_file(template), path)

    def server(self, engine_name: str) -> Server:
        """The server that all tests of this engine share, started on first use."""
        if engine_name not in self._servers:
            try:
                self._servers[engine_name] = self._obtain(engine_name)
            except Unavailable as error:
                self._servers[engine_name] = error
                self.unavailable[engine_name] = str(error)
        found = self._servers[engine_name]
        if isinstance(found, Unavailable):
            raise found
        return found

    def private(self, engine_name: str) -> PrivateServer:
        """A separate server that can be killed and restarted."""
        return self._started(PRIVATE[engine_name]())

    def pgbouncer(self, settings: Mapping[str, str]) -> PrivateServer:
        """In front of the shared PostgreSQL."""
        return self._started(PgBouncer(self.server("postgres"), settings))

    def dovecot(self) -> Dovecot:
        """A mail server, which is removed at the end of the session like a private database server."""
        return self._started(Dovecot())

    def postfix(self) -> Postfix:
        return self._started(Postfix())

    def galera(self) -> list[GaleraNode]:
        """Three nodes of a new cluster. Another program may take one of their twelve ports first: then once again."""
        nodes = galera_nodes()
        self._private += nodes
        try:
            for node in nodes:
                node.start()
        except DidNotStart:
            for node in nodes:
                node.remove()
            nodes = [self._started(node) for node in galera_nodes()]
        return nodes

    def postgres_pair(self) -> tuple[PostgresServer, PostgresStandby]:
        """A primary, and a standby that follows it."""
        primary = self._started(PostgresServer())
        return primary, self._started(PostgresStandby(primary))

    def _started(self, server: Process) -> Process:
        self._private.append(server)
        try:
            server.start()
        except (Unavailable, DidNotStart) as error:
            self.unavailable[server.name] = str(error)
            raise Unavailable(str(error)) from error
        return server

    def close(self) -> None:
        """Remove the remaining databases on servers that stay, and the private servers."""
        for server, name in self._existing:
            if not isinstance(server, PrivateServer):
                with suppress(DBAPIError):  # it may have been stopped
                    server.drop_database(name)
        for private in self._private:
            private.remove()
        if self._directory is not None:
            shutil.rmtree(self._directory)

    def leftovers(self) -> list[str]:
        """What the session leaves behind after `close`. Anything is a bug."""
        left = [each for server in self._private for each in server.leftovers()]
        return left + ([str(self._directory)] if self._directory and self._directory.exists() else [])

    def _obtain(self, engine_name: str) -> Server:
        url = server_url(self._environ, engine_name)
        server: Server
        if url:
            server, kind = named_server(engine_name, url), "named by a variable"
        elif engine_name == "mariadb" and self._environ.get("TEST_GALERA"):
            server, kind = self.galera()[0], "one of three Galera nodes"
        else:
            server, kind = self.private(engine_name), "private"
        self.used[engine_name] = f"{server.version} ({kind})"
        return server

    def _new_name(self, server: Server) -> str:
        name = f"mayfly_test_{secrets.token_hex(6)}"
        self._existing.append((server, name))
        return name

    def _template(self, server: Server, template: Template) -> list[str]:
        """What creates a copy: the template database's name on PostgreSQL, the statements on MariaDB."""
        key = (server, template)
        if key not in self._templates:
            name = self._new_name(server)
            server.create_database(name)
            template(server.url(name))
            self._templates[key] = [name] if server.is_postgres else statements_of(server, name)
        return self._templates[key]

    @contextmanager
    def _fresh_file(self, template: Template | None) -> Iterator[str]:
        self.used.setdefault("sqlite", sqlite3.sqlite_version)
        directory = Path(tempfile.mkdtemp(dir=self._files()))
        path = directory / "mayfly.db"
        if template is not None:
            self.copy_file(template, path)
        yield f"sqlite:///{path}"
        shutil.rmtree(directory)

    def _template_file(self, template: Template) -> str:
        key = ("sqlite", template)
        if key not in self._templates:
            path = Path(tempfile.mkdtemp(dir=self._files())) / "template.db"
            template(f"sqlite:///{path}")
            with closing(sqlite3.connect(path)) as connection:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # so that the file alone is complete
            self._templates[key] = [str(path)]
        return self._templates[key][0]

    def _files(self) -> Path:
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="mayfly-sqlite-", dir=directory_for_databases()))
        return self._directory


def statements_of(server: Server, database: str) -> list[str]:
    """The statements that create a copy of this database: its tables and rows."""
    others = f"""
        SELECT table_name FROM information_schema.views WHERE table_schema = '{database}'
        UNION SELECT trigger_name FROM information_schema.triggers WHERE trigger_schema = '{database}'
        UNION SELECT routine_name FROM information_schema.routines WHERE routine_schema = '{database}'
    """
    assert not server.execute(others), "statements_of cannot copy views, triggers and routines yet"
    tables = [row[0] for row in server.execute(f"SHOW TABLES FROM {database}")]
    statements = ["SET foreign_key_checks = 0"]  # the tables are listed by name, not by their references
    statements += [server.execute(f"SHOW CREATE TABLE {database}.`{table}`")[0][1] for table in tables]
    for table in tables:
        if server.execute(f"SELECT 1 FROM {database}.`{table}` LIMIT 1"):
            columns = stored_columns(server, database, table)
            statements.append(f"INSERT INTO `{table}` ({columns}) SELECT {columns} FROM {database}.`{table}`")
    return statements


def stored_columns(server: Server, database: str, table: str) -> str:
    """A generated column cannot be written."""
    rows = server.execute(
        "SELECT column_name FROM information_schema.columns WHERE COALESCE(generation_expression, '') = ''"
        f" AND table_schema = '{database}' AND table_name = '{table}' ORDER BY ordinal_position"
    )
    return ", ".join(f"`{row[0]}`" for row in rows)
