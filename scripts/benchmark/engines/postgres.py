"""PostgreSQL."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, text
from sqlalchemy.engine import URL

from scripts.benchmark.engines.base import Engine


class Postgres(Engine):
    name = "postgres"
    title = "PostgreSQL"
    driver = "psycopg"
    pid_file = "data/postmaster.pid"
    bare_batch = 100

    def numbers(self, first: int, last: int) -> str:
        return f"generate_series({first}, {last}) AS numbers(n)"

    def moment(self, at: datetime) -> str:
        return f"TIMESTAMPTZ '{at:%Y-%m-%d %H:%M:%S.%f}+00' + n * INTERVAL '1 millisecond'"

    def address(self, url: URL) -> Mapping[str, Any]:
        return {
            "host": url.host, "port": url.port, "user": url.username, "password": url.password, "dbname": url.database
        }  # fmt: skip

    def rest(self, connection: Connection) -> None:
        connection.execute(text("VACUUM ANALYZE mayfly_jobs"))
        connection.execute(text("CHECKPOINT"))
