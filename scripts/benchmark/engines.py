"""Differences between the databases: how to generate rows, and how to wait until the server is idle."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import Connection, text
from sqlalchemy.engine import URL

from mayfly.clock import pause

TABLES = ("mayfly_jobs", "mayfly_attempts", "mayfly_runners", "mayfly_cycles", "mayfly_totals", "mayfly_lanes")


class Engine(ABC):
    """One kind of database. Servers run with their default settings."""

    name: ClassVar[str]
    driver: ClassVar[str]
    bare_batch: ClassVar[int]  # the batch size with which the bare loop is fastest
    time_type: ClassVar[str]  # of a column
    has_server: ClassVar[bool] = True
    counts_statements: ClassVar[bool] = False  # or only transactions

    @property
    def source_table(self) -> str:
        """CREATE TABLE of an application's table, for sources."""
        return (
            "CREATE TABLE post_schedule (id BIGINT NOT NULL PRIMARY KEY, post_detail_id BIGINT, channel VARCHAR(20),"
            f" run_at {self.time_type}, status VARCHAR(20), worker_id VARCHAR(64), locked_at {self.time_type},"
            f" published_at {self.time_type})"
        )

    @abstractmethod
    def numbers(self, first: int, last: int) -> str:
        """A table expression `numbers` with one column n."""

    @abstractmethod
    def time_of(self, start: datetime) -> str:
        """An SQL expression: n milliseconds after `start`."""

    def lane_of(self, lanes: int) -> str:
        """An SQL expression: n jobs take turns in these lanes."""
        return f"'lane-' || n % {lanes}"

    @abstractmethod
    def connect_arguments(self, url: URL) -> Mapping[str, Any]:
        """The arguments of the driver's connect()."""

    @abstractmethod
    def settle(self, connection: Connection, table: str) -> None:
        """Refresh the statistics of the table, and write everything to disk, so that no run slows down the next."""

    @abstractmethod
    def statements(self, connection: Connection) -> int | None:
        """How many the server has executed so far; None if it does not count them."""

    def empty(self, connection: Connection) -> None:
        for table in TABLES:
            connection.execute(text(f"TRUNCATE TABLE {table}"))


class MariaDB(Engine):
    name = "mariadb"
    driver = "pymysql"
    time_type = "DATETIME(6)"
    bare_batch = 1000
    counts_statements = True
    FLUSH_SETTINGS: ClassVar = {
        "innodb_max_dirty_pages_pct": "0",
        "innodb_io_capacity": "@@GLOBAL.innodb_io_capacity_max",
    }

    def numbers(self, first: int, last: int) -> str:
        return f"(SELECT seq AS n FROM seq_{first}_to_{last}) AS numbers"

    def time_of(self, start: datetime) -> str:
        return f"TIMESTAMP'{start:%Y-%m-%d %H:%M:%S.%f}' + INTERVAL n * 1000 MICROSECOND"

    def lane_of(self, lanes: int) -> str:
        return f"CONCAT('lane-', n % {lanes})"

    def connect_arguments(self, url: URL) -> Mapping[str, Any]:
        """Without TLS, as Mayfly connects on its own machine: PyMySQL would need 30 ms for certificates."""
        return {
            "host": url.host, "port": url.port, "user": url.username, "password": url.password,
            "database": url.database, "ssl_disabled": True,
        }  # fmt: skip

    def settle(self, connection: Connection, table: str) -> None:
        """Flush until no page is dirty, for at most a minute; then the settings are restored."""
        connection.execute(text(f"ANALYZE TABLE {table}")).all()
        usual = {name: self._setting(connection, name) for name in self.FLUSH_SETTINGS}
        self._set(connection, self.FLUSH_SETTINGS)
        for _ in range(300):
            if not self._dirty_pages(connection):
                break
            pause(0.2)
        self._set(connection, usual)

    def statements(self, connection: Connection) -> int:
        return int(connection.execute(text("SHOW GLOBAL STATUS LIKE 'Questions'")).one()[1])

    def _setting(self, connection: Connection, name: str) -> Any:
        return connection.execute(text(f"SELECT @@GLOBAL.{name}")).scalar_one()

    def _set(self, connection: Connection, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            connection.execute(text(f"SET GLOBAL {name} = {value}"))

    def _dirty_pages(self, connection: Connection) -> int:
        found = connection.execute(text("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_dirty'")).one()
        return int(found[1])


class Postgres(Engine):
    name = "postgres"
    driver = "psycopg"
    time_type = "TIMESTAMPTZ"
    bare_batch = 100

    def numbers(self, first: int, last: int) -> str:
        return f"generate_series({first}, {last}) AS numbers(n)"

    def time_of(self, start: datetime) -> str:
        return f"TIMESTAMPTZ '{start:%Y-%m-%d %H:%M:%S.%f}+00' + n * INTERVAL '1 millisecond'"

    def connect_arguments(self, url: URL) -> Mapping[str, Any]:
        return {
            "host": url.host, "port": url.port, "user": url.username, "password": url.password, "dbname": url.database
        }  # fmt: skip

    def settle(self, connection: Connection, table: str) -> None:
        connection.execute(text(f"VACUUM ANALYZE {table}"))
        connection.execute(text("CHECKPOINT"))

    def statements(self, connection: Connection) -> int:
        """Transactions: a poll is one, and nearly everything else a few statements each minute."""
        found = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
        return int(connection.execute(text(found)).scalar_one())


class SQLite(Engine):
    name = "sqlite"
    driver = "sqlite3"
    time_type = "TEXT"
    bare_batch = 1000
    has_server = False

    def numbers(self, first: int, last: int) -> str:
        counting = f"SELECT {first} UNION ALL SELECT n + 1 FROM counted WHERE n < {last}"
        return f"(WITH RECURSIVE counted(n) AS ({counting}) SELECT n FROM counted) AS numbers"

    def time_of(self, start: datetime) -> str:
        return f"strftime('%Y-%m-%d %H:%M:%f000', '{start:%Y-%m-%d %H:%M:%S.%f}', (n / 1000.0) || ' seconds')"

    def connect_arguments(self, url: URL) -> Mapping[str, Any]:
        return {"database": url.database, "timeout": 60, "isolation_level": None}

    def settle(self, connection: Connection, _table: str) -> None:
        connection.execute(text("PRAGMA wal_checkpoint(TRUNCATE)")).all()

    def statements(self, connection: Connection) -> None:
        del connection

    def empty(self, connection: Connection) -> None:
        for table in TABLES:
            connection.execute(text(f"DELETE FROM {table}"))


ENGINES: dict[str, Engine] = {each.name: each for each in (MariaDB(), Postgres(), SQLite())}
