"""MariaDB."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, text
from sqlalchemy.engine import URL

from mayfly.clock import pause
from scripts.benchmark.engines.base import Engine

HASTE = {"innodb_max_dirty_pages_pct": "0", "innodb_io_capacity": "@@GLOBAL.innodb_io_capacity_max"}
PATIENCE_SECONDS = 60.0
STEP_SECONDS = 0.2


class MariaDB(Engine):
    name = "mariadb"
    title = "MariaDB"
    driver = "pymysql"
    pid_file = "pid"
    bare_batch = 1000

    def numbers(self, first: int, last: int) -> str:
        return f"(SELECT seq AS n FROM seq_{first}_to_{last}) AS numbers"

    def moment(self, at: datetime) -> str:
        return f"TIMESTAMP'{at:%Y-%m-%d %H:%M:%S.%f}' + INTERVAL n * 1000 MICROSECOND"

    def address(self, url: URL) -> Mapping[str, Any]:
        """Without TLS, as Mayfly connects on its own machine: PyMySQL would spend 30 ms on certificates."""
        return {
            "host": url.host, "port": url.port, "user": url.username, "password": url.password,
            "database": url.database, "ssl_disabled": True,
        }  # fmt: skip

    def rest(self, connection: Connection) -> None:
        """The page cleaner is hurried until no page is dirty; afterwards the settings are what they were."""
        connection.execute(text("ANALYZE TABLE mayfly_jobs")).all()
        usual = {name: connection.execute(text(f"SELECT @@GLOBAL.{name}")).scalar_one() for name in HASTE}
        self._set(connection, HASTE)
        waited = 0.0
        while self._dirty(connection) and waited < PATIENCE_SECONDS:
            pause(STEP_SECONDS)
            waited += STEP_SECONDS
        self._set(connection, usual)

    def _set(self, connection: Connection, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            connection.execute(text(f"SET GLOBAL {name} = {value}"))

    def _dirty(self, connection: Connection) -> int:
        found = connection.execute(text("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_dirty'")).one()
        return int(found[1])
