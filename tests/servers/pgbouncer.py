"""A private PgBouncer."""

import os
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path

from sqlalchemy import URL, make_url

from tests.servers.private import PrivateServer
from tests.servers.server import Server


class PgBouncer(PrivateServer):
    """In front of a PostgreSQL server. Few sessions, so that its clients share them."""

    package = "pgbouncer"
    account = "postgres"
    stop_signal = signal.SIGTERM
    alternative = ""

    def __init__(self, behind: Server, settings: Mapping[str, str]) -> None:
        self._behind = make_url(behind.url("postgres"))
        self._settings = settings
        super().__init__("pgbouncer", URL.create("postgresql+psycopg", database="postgres"))

    @classmethod
    def programs(cls) -> tuple[Path, Path] | None:
        """It is in sbin, which is not always in PATH, and needs no data directory."""
        path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin"])
        found = shutil.which("pgbouncer", path=path)
        return (Path(found), Path(found)) if found else None

    def initialise(self, _program: Path) -> None:
        server = self._behind
        address = f"host={server.host} port={server.port} user={server.username} password='{server.password}'"
        settings = {
            "listen_addr": "127.0.0.1",
            "listen_port": self.port,
            "unix_socket_dir": "",
            "auth_type": "plain",
            "auth_file": self.home / "users",
            "default_pool_size": 2,
            **self._settings,
        }
        lines = [f"{name} = {value}" for name, value in settings.items()]
        self._write("users", f'"mayfly" "{self.password}"\n')
        self._write("pgbouncer.ini", "\n".join(["[databases]", f"* = {address}", "[pgbouncer]", *lines, ""]))

    def _write(self, name: str, text: str) -> None:
        path = self.home / name
        path.write_text(text)
        path.chmod(0o644)

    def command(self, program: Path) -> list[str]:
        return [str(program), str(self.home / "pgbouncer.ini")]
