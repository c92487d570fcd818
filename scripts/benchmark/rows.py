"""Fill a jobs table quickly."""

from datetime import timedelta

from sqlalchemy import Connection, insert

from mayfly.engine import Database
from mayfly.schema import jobs

SLICE = 5000


def add_rows(database: Database, count: int, *, status: str, age: timedelta, type_name: str = "noop") -> None:
    """Jobs that were due `age` ago (a negative age lies in the future), a millisecond apart."""
    first = database.clock.now() - age

    def write(connection: Connection, begin: int) -> None:
        rows = [
            {
                "type": type_name,
                "payload": "{}",
                "status": status,
                "run_at": first - timedelta(milliseconds=number),
                "finished_at": first if status == "done" else None,
            }
            for number in range(begin, min(begin + SLICE, count))
        ]
        connection.execute(insert(jobs), rows)

    for begin in range(0, count, SLICE):
        database.run(lambda connection, begin=begin: write(connection, begin))  # type: ignore[misc]
