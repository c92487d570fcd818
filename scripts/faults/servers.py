"""The servers of the torture test: private ones that hosts in other network namespaces can reach."""

from pathlib import Path

from tests.servers.mariadb import MariaDBServer
from tests.servers.postgres import PostgresServer


class ReachableMariaDB(MariaDBServer):
    """Reachable from other hosts, but only in a separate namespace, which other machines cannot reach."""

    is_reachable = False

    def initialise(self, program: Path) -> None:
        super().initialise(program)
        welcome = self.home / "welcome.sql"
        user = f"mayfly@'10.77.0.%' IDENTIFIED BY '{self.password}'"
        welcome.write_text(
            f"{welcome.read_text()}CREATE USER IF NOT EXISTS {user};\nGRANT ALL ON *.* TO mayfly@'10.77.0.%';\n"
        )

    def command(self, program: Path) -> list[str]:
        return [*super().command(program), *(["--bind-address=0.0.0.0"] if self.is_reachable else [])]


class ReachablePostgres(PostgresServer):
    is_reachable = False

    def initialise(self, program: Path) -> None:
        super().initialise(program)
        rules = self.home / "data" / "pg_hba.conf"
        rules.write_text(f"{rules.read_text()}\nhost all all 10.77.0.0/24 password\n")

    def command(self, program: Path) -> list[str]:
        # Differs because its WAL may grow to 1 GB, too much for a small disk.
        reachable = ["--listen_addresses=*"] if self.is_reachable else []
        return [*super().command(program), "--max_wal_size=128MB", *reachable]
