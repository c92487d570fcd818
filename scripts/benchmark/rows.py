"""Fill the jobs table inside the database: ten million rows in minutes, and nothing crosses the wire."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, text

from mayfly.schema.tables import PENDING
from scripts.benchmark.engines import Engine

SLICE = 100_000

Said = Callable[[int], None]


@dataclass(frozen=True)
class Rows:
    """Jobs of one status, due a millisecond apart, in the order of their ids."""

    first_id: int
    count: int
    first_at: datetime
    status: str = PENDING
    type_name: str = "nothing"
    lane: str = "default"
    payload: str = "{}"

    @property
    def next_id(self) -> int:
        return self.first_id + self.count


def insert_rows(connection: Connection, engine: Engine, rows: Rows, said: Said = lambda _done: None) -> None:
    for begin, end in _slices(rows.count):
        connection.execute(text(_statement(engine, rows, begin, end)))
        said(end)


def _slices(count: int) -> Iterator[tuple[int, int]]:
    for begin in range(0, count, SLICE):
        yield begin, min(begin + SLICE, count)


def _statement(engine: Engine, rows: Rows, begin: int, end: int) -> str:
    moment = engine.moment(rows.first_at)
    columns = {
        "id": f"{rows.first_id - 1} + n",
        "type": f"'{rows.type_name}'",
        "lane": f"'{rows.lane}'",
        "payload": f"'{rows.payload}'",
        "status": f"'{rows.status}'",
        "run_at": moment,
        "created_at": moment,
    }
    if rows.status != PENDING:  # as wide as a job that has been run
        columns |= {"attempts": "1", "claims": "1", "duration_ms": "1", "worker_id": "'worker-1700000000000-1'"}
        columns |= dict.fromkeys(("locked_at", "started_at", "finished_at"), moment)
    numbers = engine.numbers(begin + 1, end)
    return f"INSERT INTO mayfly_jobs ({', '.join(columns)}) SELECT {', '.join(columns.values())} FROM {numbers}"
