"""SQLite: no server, and no statistics unless somebody asks for them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, text
from sqlalchemy.engine import URL

from scripts.benchmark.engines.base import TABLES, Engine


class SQLite(Engine):
    name = "sqlite"
    title = "SQLite"
    driver = "sqlite3"
    pid_file = None
    bare_batch = 1000

    def numbers(self, first: int, last: int) -> str:
        counting = f"SELECT {first} UNION ALL SELECT n + 1 FROM counted WHERE n < {last}"
        return f"(WITH RECURSIVE counted(n) AS ({counting}) SELECT n FROM counted) AS numbers"

    def moment(self, at: datetime) -> str:
        return f"strftime('%Y-%m-%d %H:%M:%f000', '{at:%Y-%m-%d %H:%M:%S.%f}', (n / 1000.0) || ' seconds')"

    def address(self, url: URL) -> Mapping[str, Any]:
        return {"database": url.database, "timeout": 60, "isolation_level": None}

    def rest(self, connection: Connection) -> None:
        connection.execute(text("PRAGMA wal_checkpoint(TRUNCATE)")).all()

    def empty(self, connection: Connection) -> None:
        """Without a WHERE it drops the pages unread."""
        for table in TABLES:
            connection.execute(text(f"DELETE FROM {table}"))
