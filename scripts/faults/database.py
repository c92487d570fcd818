"""The database of the torture test: a SQLite file, one server, or three Galera nodes, each on its own disk."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from scripts.faults.galera import FROZEN_SECONDS, GaleraNode, galera_nodes
from scripts.faults.network import DATABASE_ADDRESS, is_inside
from scripts.faults.servers import ReachableMariaDB, ReachablePostgres
from tests.servers import PrivateServer

DATABASE = "torture"
SMALL_DISK_MB = 640
BALLAST = "ballast"
ANSWER_SECONDS = 30.0
SESSIONS = {
    "mariadb": f"SELECT id FROM information_schema.processlist WHERE db = '{DATABASE}' AND id <> CONNECTION_ID()"
    " AND user <> 'system user'",  # the appliers of Galera
    "postgres": f"SELECT pid FROM pg_stat_activity WHERE datname = '{DATABASE}' AND pid <> pg_backend_pid()",
}
KILL_SESSION = {"mariadb": "KILL {}", "postgres": "SELECT pg_terminate_backend({})"}
CANCEL_STATEMENT = {"mariadb": "KILL QUERY {}", "postgres": "SELECT pg_cancel_backend({})"}
# Reads wait until the node has applied the commits of the other nodes.
GALERA_READS = {"ssl_disabled": True, "init_command": "SET SESSION wsrep_sync_wait = 1"}


class TortureDatabase:
    """`kind` is sqlite, mariadb, postgres or galera."""

    def __init__(self, kind: str, directory: Path, with_small_disks: bool) -> None:
        self.kind = kind
        self.engine_name = "mariadb" if kind == "galera" else kind
        self.with_small_disks = with_small_disks
        self._directory = directory
        self._stack = ExitStack()
        self.servers = _servers(kind)
        self._disks = [directory / str(number) for number in range(max(1, len(self.servers)))]
        directory.mkdir()
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        """The URL for this process."""
        return self.servers[0].url(DATABASE) if self.servers else f"sqlite:///{self._disks[0] / 'mayfly.db'}"

    def host_url(self, number: int) -> str:
        """The URL for a host, which may be in another namespace. Hosts use different Galera nodes."""
        if not self.servers:
            return self.url
        url = self.servers[number % len(self.servers)].url(DATABASE)
        if not is_inside():
            return url
        return make_url(url).set(host=DATABASE_ADDRESS).render_as_string(hide_password=False)

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        with self._engine().connect() as connection:
            yield connection

    def rows(self, sql: str) -> list[Any]:
        with self.connect() as connection:
            return list(connection.exec_driver_sql(sql).all())

    def restart_after_kill(self, server: PrivateServer) -> None:
        server.kill()
        server.start()

    def kill_sessions(self, server: PrivateServer) -> None:
        self._for_each_session(server, KILL_SESSION)

    def cancel_statements(self, server: PrivateServer) -> None:
        self._for_each_session(server, CANCEL_STATEMENT)

    def sessions(self) -> int:
        return sum(len(each.execute(SESSIONS[self.engine_name])) for each in self.servers)

    def fill_disk(self, server: PrivateServer | None) -> None:
        ballast = self._disk_of(server) / BALLAST
        command = ["dd", "if=/dev/zero", f"of={ballast}", "bs=1M"]
        subprocess.run(command, check=False, capture_output=True)  # noqa: S603

    def heal(self) -> None:
        """Free the disks, restart dead servers, wait for suspended ones."""
        for disk in self._disks:
            (disk / BALLAST).unlink(missing_ok=True)
        for server in self.servers:
            if not _answers(server):
                self.restart_after_kill(server)

    def close(self) -> None:
        for server in self.servers:
            server.remove()
        self._stack.close()

    def _start(self) -> None:
        for number, disk in enumerate(self._disks):
            disk.mkdir()
            if self.with_small_disks:
                self._stack.enter_context(_small_disk(disk))
            if self.servers:
                self.servers[number].parent = disk
                self.servers[number].start()
        if self.servers:
            self.servers[0].create_database(DATABASE)

    def _disk_of(self, server: PrivateServer | None) -> Path:
        return self._disks[0 if server is None else self.servers.index(server)]

    def _for_each_session(self, server: PrivateServer, statements: dict[str, str]) -> None:
        for (session,) in server.execute(SESSIONS[self.engine_name]):
            with suppress(DBAPIError):  # the session has ended meanwhile
                server.execute(statements[self.engine_name].format(session))

    def _engine(self) -> Engine:
        if self.kind == "galera":
            return create_engine(
                self.url, poolclass=NullPool, isolation_level="AUTOCOMMIT", connect_args=GALERA_READS
            )
        if self.servers:
            return self.servers[0].engine_for(DATABASE)
        return create_engine(self.url, poolclass=NullPool, isolation_level="AUTOCOMMIT", connect_args={"timeout": 60})


def _servers(kind: str) -> list[PrivateServer]:
    made: list[GaleraNode] | list[ReachableMariaDB] | list[ReachablePostgres]
    match kind:
        case "sqlite":
            return []
        case "mariadb":
            made = [ReachableMariaDB()]
        case "postgres":
            made = [ReachablePostgres()]
        case _:
            made = galera_nodes()
    for each in made:
        each.is_reachable = is_inside()
    return list(made)


def _answers(server: PrivateServer) -> bool:
    """Whether it answers in time. PostgreSQL restarts itself after a full disk; a Galera node joins again."""
    if isinstance(server, GaleraNode):
        return server.await_synced(FROZEN_SECONDS)
    deadline = time.monotonic() + ANSWER_SECONDS
    while time.monotonic() < deadline and server.is_running:
        with suppress(DBAPIError):
            server.execute("SELECT 1")
            return True
        time.sleep(0.05)
    return False


@contextmanager
def _small_disk(directory: Path) -> Iterator[None]:
    """A tmpfs that can be filled without affecting the machine. Needs root."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK_MB}m,mode=0755", "tmpfs", str(directory)]
    subprocess.run(mount, check=True)  # noqa: S603
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)  # noqa: S603, S607
