"""The rows of runners: written when planned, taken over by the process itself, closed by whoever saw it end."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import Connection, Select, Update, bindparam, func, select, update

from mayfly import jsontext
from mayfly.dialect import upsert
from mayfly.fleet.place import Place, Process
from mayfly.schema import runners

LOST = "lost"  # the ending of a runner whose end nobody saw
LEASE_GRACE_SECONDS = 5.0  # after the dispatcher's guard has killed what was left


@dataclass(frozen=True)
class Assignment:
    """Everything a runner is told: who it is, where it works, until when."""

    worker_id: str
    lane: str
    cycle_id: int
    deadline: float  # monotonic seconds: when its guard ends it
    window_seconds: float  # how long the guard gives a job that has it all
    lease_until: datetime

    def as_text(self) -> str:
        """For a runner in an interpreter of its own; it holds no secret, argv is public."""
        return jsontext.encode({**asdict(self), "lease_until": self.lease_until.isoformat()})

    @classmethod
    def from_text(cls, text: str) -> "Assignment":
        fields = jsontext.decode(text)
        return cls(**{**fields, "lease_until": datetime.fromisoformat(fields["lease_until"])})


@dataclass(frozen=True)
class LiveRunner:
    worker_id: str
    cycle_id: int
    lane: str
    place: Place
    process: Process
    lease_until: datetime
    has_started: bool = True  # until then `process` is its planner's


@dataclass(frozen=True)
class Ended:
    """How a runner ended, for its row."""

    ending: str
    exit_code: int | None = None
    signal: int | None = None
    jobs_done: int = 0
    jobs_failed: int = 0
    average_ms: float | None = None
    peak_memory: int | None = None
    cpu_ms: int | None = None


def add_planned(
    connection: Connection, assignments: Sequence[Assignment], place: Place, planner: Process, now: datetime
) -> None:
    """Until a runner has started, its row names the planner: if that dies, the runner never was."""
    rows = [
        {
            "worker_id": each.worker_id,
            "cycle_id": each.cycle_id,
            "lane": each.lane,
            "host": place.host,
            "machine": place.machine,
            "pid": planner.pid,
            "pid_started": planner.started,
            "planned_at": now,
            "lease_until": each.lease_until,
        }
        for each in assignments
    ]
    if rows:
        connection.execute(upsert(connection.dialect, runners, ("worker_id",), rows[0]), rows)


def take_over(connection: Connection, worker_id: str, process: Process, now: datetime) -> None:
    taken = {"whose": worker_id, "by": process.pid, "by_started": process.started, "at": now}
    connection.execute(_take_over_statement(), taken)


@cache
def _take_over_statement() -> Update:
    """Built once a process, like the claim that follows it."""
    of = update(runners).where(runners.c.worker_id == bindparam("whose"))
    return of.values(pid=bindparam("by"), pid_started=bindparam("by_started"), heartbeat_at=bindparam("at"))


def beat(connection: Connection, worker_id: str, now: datetime) -> None:
    connection.execute(update(runners).where(runners.c.worker_id == worker_id).values(heartbeat_at=now))


def live_runners(connection: Connection) -> list[LiveRunner]:
    """Those whose end nobody has seen; whether they still live is for the caller to find out."""
    return [_live(row) for row in connection.execute(live_statement())]


def live_statement() -> Select[Any]:
    return select(runners).where(runners.c.finished_at.is_(None))


def live_by_lane(connection: Connection) -> dict[str, int]:
    counted = connection.execute(
        select(runners.c.lane, func.count().label("number"))
        .where(runners.c.finished_at.is_(None))
        .group_by(runners.c.lane)
    )
    return {row.lane: row.number for row in counted}


def live_on_host(connection: Connection, host: str) -> int:
    return connection.execute(
        select(func.count()).where(runners.c.finished_at.is_(None), runners.c.host == host)
    ).scalar_one()


def close_runner(connection: Connection, worker_id: str, ended: Ended, now: datetime) -> bool:
    """True for the one who closes it."""
    closed = connection.execute(
        update(runners)
        .where(runners.c.worker_id == worker_id, runners.c.finished_at.is_(None))
        .values(
            finished_at=now,
            ending=ended.ending,
            exit_code=ended.exit_code,
            signal=ended.signal,
            jobs_done=ended.jobs_done,
            jobs_failed=ended.jobs_failed,
            average_ms=ended.average_ms,
            peak_memory=ended.peak_memory,
            cpu_ms=ended.cpu_ms,
        )
    )
    return closed.rowcount == 1


def was_lost(connection: Connection, worker_id: str) -> bool:
    """Whether somebody took it for dead."""
    return connection.execute(select(runners.c.ending).where(runners.c.worker_id == worker_id)).scalar() == LOST


def _live(row: Any) -> LiveRunner:
    return LiveRunner(
        worker_id=row.worker_id,
        cycle_id=row.cycle_id,
        lane=row.lane,
        place=Place(row.host, row.machine),
        process=Process(row.pid, row.pid_started),
        lease_until=row.lease_until,
        has_started=row.heartbeat_at is not None,
    )
