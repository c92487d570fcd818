"""A private PostgreSQL."""

import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from sqlalchemy import URL

from tests.servers.private import PrivateServer


class PostgresServer(PrivateServer):
    """PostgreSQL with its own defaults."""

    package = "postgresql"
    account = "postgres"
    stop_signal = signal.SIGINT  # "fast": it does not wait for clients to disconnect

    def __init__(self, password: str | None = None) -> None:
        super().__init__("postgres", URL.create("postgresql+psycopg", database="postgres"), password=password)

    @classmethod
    def programs(cls) -> tuple[Path, Path] | None:
        """Debian installs them outside PATH, in a directory per major version: the newest is used."""
        homes = list(Path("/usr/lib/postgresql").glob("[0-9]*/bin"))
        homes.sort(key=lambda home: float(home.parent.name), reverse=True)
        on_path = shutil.which("postgres")
        if on_path:
            homes.append(Path(on_path).resolve().parent)
        for home in homes:
            if (home / "initdb").exists() and (home / "postgres").exists():
                return home / "initdb", home / "postgres"
        return None

    def initialise(self, program: Path) -> None:
        secret = self.home / "password"
        secret.write_text(self.password)
        secret.chmod(0o644)
        self.run(
            program,
            f"--pgdata={self.home / 'data'}",
            "--username=mayfly",
            f"--pwfile={secret}",
            "--auth=md5",  # checked, with one hash per connect; SCRAM, also behind "password", takes 4,096
            "--encoding=UTF8",
            "--locale=C",
        )

    def command(self, program: Path) -> list[str]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": self.home,
            "timezone": "Asia/Kathmandu",  # an unusual zone, to detect times that are not stored as UTC
            "dynamic_shared_memory_type": "mmap",  # in our directory: a kill leaves nothing in /dev/shm
        }
        return [
            str(program),
            "-D",
            str(self.home / "data"),
            *(f"--{name}={value}" for name, value in settings.items()),
        ]

    def remove(self) -> None:
        """Also the segment that keeps a second server out of the data: it survives a kill; the pid file names it."""
        self.kill()
        if self.directory is not None:
            with suppress(FileNotFoundError, IndexError):
                segment = (self.home / "data" / "postmaster.pid").read_text().splitlines()[6].split()[1]
                subprocess.run(["ipcrm", "-m", segment], check=False, stderr=subprocess.DEVNULL)
        super().remove()


class PostgresStandby(PostgresServer):
    """A copy of a running primary that follows it; while it is attached, the primary waits for it at each COMMIT."""

    def __init__(self, primary: PostgresServer) -> None:
        super().__init__(primary.password)
        self._primary = primary

    def initialise(self, program: Path) -> None:
        source = f"host=127.0.0.1 port={self._primary.port} user=mayfly password='{self.password}'"
        target = f"--pgdata={self.home / 'data'}"
        self.run(program.parent / "pg_basebackup", target, "--write-recovery-conf", "--checkpoint=fast", "-d", source)

    def require_at_commit(self) -> None:
        """Make it synchronous: a COMMIT of the primary returns when it has the data."""
        self._primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        self._primary.execute("SELECT pg_reload_conf()")

    @property
    def is_synchronous(self) -> bool:
        return self._primary.execute("SELECT sync_state FROM pg_stat_replication") == [("sync",)]

    def promote(self) -> None:
        """Returns when it accepts writes."""
        self.execute("SELECT pg_promote()")
