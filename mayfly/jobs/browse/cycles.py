"""The cycles: the last ones, and for each host the last one."""

from datetime import datetime, timedelta
from typing import Any, NamedTuple

from mayfly.clock import milliseconds
from mayfly.connection import Connection
from mayfly.jobs.browse.capped import facts_of, read_row

DAY = timedelta(days=1)  # a host that had no cycle for longer is taken for one that is gone


class CycleView(NamedTuple):
    id: int
    host: str
    started_at: datetime
    finished_at: datetime | None
    exit_code: int | None
    pending: int
    planned: int
    spawned: int
    successful: int
    failed: int
    timed_out: int
    rescued: int
    repeated: int
    pruned: int
    duration_ms: int | None
    note: str | None

    def facts(self) -> dict[str, Any]:
        return facts_of(self)


class HostView(NamedTuple):
    """The last cycle of a host, and how long ago it began."""

    host: str
    last: CycleView
    age_seconds: float

    def facts(self) -> dict[str, Any]:
        return {"host": self.host, "age_seconds": self.age_seconds, "last": self.last.facts()}


COLUMNS = ", ".join(CycleView._fields)
LAST = "SELECT MAX(id) FROM mayfly_cycles WHERE id >= :since GROUP BY host"


def list_cycles(connection: Connection, size: int = 20, before: int | None = None) -> list[CycleView]:
    """The newest first; `before` is the id of the last of the page before."""
    older = " WHERE id < :before" if before is not None else ""
    looking = f"SELECT {COLUMNS} FROM mayfly_cycles{older} ORDER BY id DESC LIMIT :size"
    return [_cycle(row) for row in connection.execute(looking, {"before": before, "size": size}).all()]


def list_hosts(connection: Connection, now: datetime) -> list[HostView]:
    """Every host that had a cycle within a day; a cycle's number is the millisecond in which it began."""
    last = connection.execute(LAST, {"since": milliseconds(now - DAY)}).scalars()
    if not last:
        return []
    found = connection.execute(f"SELECT {COLUMNS} FROM mayfly_cycles WHERE {{ids of id}}", ids=last).all()
    views = [_cycle(row) for row in found]
    return [
        HostView(each.host, each, max(0.0, (now - each.started_at).total_seconds()))
        for each in sorted(views, key=lambda view: view.host)
    ]


def _cycle(row: Any) -> CycleView:
    return CycleView(**read_row(CycleView._fields, row))
