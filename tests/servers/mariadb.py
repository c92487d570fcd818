"""A private MariaDB."""

import os
import shutil
import signal
from pathlib import Path

from sqlalchemy import URL

from tests.servers.private import PrivateServer


class MariaDBServer(PrivateServer):
    """MariaDB with its own defaults, which differ from Debian's: latin1 unless a table has another character set."""

    package = "mariadb-server"
    account = "mysql"
    stop_signal = signal.SIGTERM

    def __init__(self, password: str | None = None) -> None:
        # PyMySQL would load all certificates of the machine at every connect, which takes 30 ms.
        super().__init__("mariadb", URL.create("mysql+pymysql"), {"ssl_disabled": True}, password)

    @classmethod
    def programs(cls) -> tuple[Path, Path] | None:
        """The server is in sbin, which is not always in PATH."""
        path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin"])
        initialiser, server = (
            shutil.which("mariadb-install-db", path=path),
            shutil.which("mariadbd", path=path),
        )
        return (Path(initialiser), Path(server)) if initialiser and server else None

    def initialise(self, program: Path) -> None:
        own = (f"--datadir={self.home / 'data'}", f"--tmpdir={self.home}")
        self.run(program, "--no-defaults", *own, "--skip-test-db")
        welcome = self.home / "welcome.sql"
        welcome.write_text(
            f"CREATE USER IF NOT EXISTS mayfly@127.0.0.1 IDENTIFIED BY '{self.password}';\n"
            "GRANT ALL ON *.* TO mayfly@127.0.0.1 WITH GRANT OPTION;\n"
        )
        welcome.chmod(0o644)

    def command(self, program: Path) -> list[str]:
        settings = {
            "datadir": self.home / "data",
            "tmpdir": self.home,  # a starting server deletes temporary tables of others from a shared directory
            "socket": self.home / "socket",
            "pid-file": self.home / "pid",
            "init-file": self.home / "welcome.sql",
            "bind-address": "127.0.0.1",
            "port": self.port,
            "skip-name-resolve": "ON",
            "default-time-zone": "+05:45",  # an unusual zone, to detect times that are not stored as UTC
        }
        return [str(program), "--no-defaults", *(f"--{name}={value}" for name, value in settings.items())]
