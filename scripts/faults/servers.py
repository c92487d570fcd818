"""The databases of the torture test: a SQLite file, or a private server that can be killed, frozen and filled up."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from scripts.faults.network import DATABASE_ADDRESS, is_inside
from tests.servers import PrivateServer
from tests.servers.mariadb import MariaDBServer
from tests.servers.postgres import PostgresServer

DATABASE = "torture"
SMALL_DISK_MB = 512
BALLAST = "ballast"


class ReachableMariaDB(MariaDBServer):
    """Also from other hosts: it runs in a namespace of its own, so that no other machine sees it."""

    def initialise(self, program: Path) -> None:
        super().initialise(program)
        welcome = self.home / "welcome.sql"
        user = f"mayfly@'10.77.0.%' IDENTIFIED BY '{self.password}'"
        welcome.write_text(
            f"{welcome.read_text()}CREATE USER IF NOT EXISTS {user};\nGRANT ALL ON *.* TO mayfly@'10.77.0.%';\n"
        )

    def command(self, program: Path) -> list[str]:
        return [*super().command(program), "--bind-address=0.0.0.0"]


class ReachablePostgres(PostgresServer):
    def initialise(self, program: Path) -> None:
        super().initialise(program)
        rules = self.home / "data" / "pg_hba.conf"
        rules.write_text(f"{rules.read_text()}\nhost all all 10.77.0.0/24 password\n")

    def command(self, program: Path) -> list[str]:
        return [*super().command(program), "--listen_addresses=*"]


SERVERS: dict[str, tuple[Callable[[], PrivateServer], Callable[[], PrivateServer]]] = {
    "mariadb": (MariaDBServer, ReachableMariaDB),
    "postgres": (PostgresServer, ReachablePostgres),
}
SESSIONS = {
    "mariadb": f"SELECT id FROM information_schema.processlist WHERE db = '{DATABASE}' AND id <> CONNECTION_ID()",
    "postgres": f"SELECT pid FROM pg_stat_activity WHERE datname = '{DATABASE}' AND pid <> pg_backend_pid()",
}
KILL_SESSION = {"mariadb": "KILL {}", "postgres": "SELECT pg_terminate_backend({})"}
CANCEL_STATEMENT = {"mariadb": "KILL QUERY {}", "postgres": "SELECT pg_cancel_backend({})"}


class TortureDatabase:
    def __init__(self, engine_name: str, directory: Path) -> None:
        self.engine_name = engine_name
        self._directory = directory
        self.server = None if engine_name == "sqlite" else SERVERS[engine_name][is_inside()]()
        if self.server is not None:
            self.server.start()
            self.server.create_database(DATABASE)

    @property
    def url(self) -> str:
        """For this process."""
        return f"sqlite:///{self._directory / 'mayfly.db'}" if self.server is None else self.server.url(DATABASE)

    @property
    def host_url(self) -> str:
        """For the hosts, which may be in other namespaces."""
        if self.server is None or not is_inside():
            return self.url
        return make_url(self.url).set(host=DATABASE_ADDRESS).render_as_string(hide_password=False)

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        with self._engine().connect() as connection:
            yield connection

    def rows(self, sql: str) -> list[Any]:
        with self.connect() as connection:
            return list(connection.exec_driver_sql(sql).all())

    def restart_after_kill(self) -> None:
        assert self.server is not None
        self.server.kill()
        self.server.start()

    def kill_sessions(self) -> None:
        self._for_each_session(KILL_SESSION)

    def cancel_statements(self) -> None:
        self._for_each_session(CANCEL_STATEMENT)

    def sessions(self) -> int:
        return 0 if self.server is None else len(self.server.execute(SESSIONS[self.engine_name]))

    def fill_disk(self) -> None:
        """The directory of the data must be a small file system of its own: see `small_disk`."""
        command = ["dd", "if=/dev/zero", f"of={self._directory / BALLAST}", "bs=1M"]
        subprocess.run(command, check=False, capture_output=True)  # noqa: S603

    def free_disk(self) -> None:
        (self._directory / BALLAST).unlink(missing_ok=True)

    def heal(self) -> None:
        self.free_disk()
        if self.server is not None and not self.server.is_running:
            self.server.kill()
            self.server.start()

    def close(self) -> None:
        if self.server is not None:
            self.server.remove()

    def _for_each_session(self, statements: dict[str, str]) -> None:
        assert self.server is not None
        for (session,) in self.server.execute(SESSIONS[self.engine_name]):
            with suppress(DBAPIError):  # it ended meanwhile
                self.server.execute(statements[self.engine_name].format(session))

    def _engine(self) -> Engine:
        if self.server is not None:
            return self.server.engine_for(DATABASE)
        return create_engine(self.url, poolclass=NullPool, isolation_level="AUTOCOMMIT", connect_args={"timeout": 60})


@contextmanager
def small_disk(directory: Path) -> Iterator[None]:
    """A tmpfs that can be filled up without harm to the machine. Needs root."""
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK_MB}m", "tmpfs", str(directory)]
    subprocess.run(mount, check=True)  # noqa: S603
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)  # noqa: S603, S607
