"""The rows of runners: written with the plan, taken over by the runner, closed by the process that saw its end."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime

from mayfly import json_text
from mayfly.db.connection import Connection
from mayfly.db.dialects import utc_from_driver
from mayfly.process.identity import Host, Process

OUTSIDE = "http-"  # prefix of the worker_id of external workers: they have no rows here
LOST = "lost"  # the ending of a runner whose exit no dispatcher saw

TAKE_OVER = (
    "UPDATE mayfly_runners SET pid = :pid, pid_started = :pid_started, heartbeat_at = :now"
    " WHERE worker_id = :worker_id"
)
RENEW_HEARTBEAT = "UPDATE mayfly_runners SET heartbeat_at = :now WHERE worker_id = :worker_id"
LIVE_RUNNERS = (
    "SELECT worker_id, cycle_id, lane, host, machine, pid, pid_started, lease_until, heartbeat_at"
    " FROM mayfly_runners WHERE finished_at IS NULL"
)
LIVE_BY_LANE = "SELECT lane, COUNT(*) FROM mayfly_runners WHERE finished_at IS NULL GROUP BY lane"
LIVE_ON_HOST = "SELECT COUNT(*) FROM mayfly_runners WHERE finished_at IS NULL AND host = :host"
ENDING = "SELECT ending FROM mayfly_runners WHERE worker_id = :worker_id"


@dataclass(frozen=True)
class Assignment:
    """Everything that a runner needs to know: its worker_id, its lane, its deadlines."""

    worker_id: str
    lane: str
    cycle_id: int
    deadline: float  # monotonic seconds: when its guard ends it
    window_seconds: float  # the longest time that the guard gives a job
    lease_until: datetime
    is_long: bool = False  # it may outlive its dispatcher; a lease keeper renews its lease
    stays_until: float = 0.0  # monotonic: until then it waits for more jobs when its lane is empty
    is_whole: bool = True  # its window is as long as any that it could have
    usual: Mapping[str, float] = field(default_factory=dict)  # types that take long, and how many seconds
    begins_with: int | None = None  # a job that waits for a whole window

    def as_text(self) -> str:
        """As JSON, for argv and the preload process. Contains no secret: argv is public."""
        return json_text.encode({**asdict(self), "lease_until": self.lease_until.isoformat()})

    @classmethod
    def from_text(cls, text: str) -> "Assignment":
        fields = json_text.decode(text)
        return cls(**{**fields, "lease_until": datetime.fromisoformat(fields["lease_until"])})


@dataclass(frozen=True)
class LiveRunner:
    worker_id: str
    cycle_id: int
    lane: str
    host: Host
    process: Process
    lease_until: datetime
    has_started: bool = True  # before that, `process` is the dispatcher that planned it


@dataclass(frozen=True)
class EndedRunner:
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
    connection: Connection, assignments: Sequence[Assignment], host: Host, planner: Process, now: datetime
) -> None:
    """Until a runner has started, its row has the pid of its planner: if that dies, the runner counts as dead."""
    rows = [
        {
            "worker_id": each.worker_id,
            "cycle_id": each.cycle_id,
            "lane": each.lane,
            "host": host.name,
            "machine": host.machine,
            "pid": planner.pid,
            "pid_started": planner.started,
            "planned_at": now,
            "lease_until": each.lease_until,
        }
        for each in assignments
    ]
    if rows:
        connection.execute_many(connection.dialect.upsert("mayfly_runners", ("worker_id",), rows[0]), rows)


def take_over(connection: Connection, worker_id: str, process: Process, now: datetime) -> None:
    taken = {"worker_id": worker_id, "pid": process.pid, "pid_started": process.started, "now": now}
    connection.execute(TAKE_OVER, taken)


def renew_heartbeat(connection: Connection, worker_id: str, now: datetime) -> None:
    connection.execute(RENEW_HEARTBEAT, {"worker_id": worker_id, "now": now})


def live_runners(connection: Connection) -> list[LiveRunner]:
    """Runners without a recorded end; the caller finds out whether they are alive."""
    return [
        LiveRunner(
            worker_id=worker_id,
            cycle_id=cycle_id,
            lane=lane,
            host=Host(host, machine),
            process=Process(pid, pid_started),
            lease_until=utc_from_driver(lease_until),
            has_started=heartbeat_at is not None,
        )
        for worker_id, cycle_id, lane, host, machine, pid, pid_started, lease_until, heartbeat_at in (
            connection.execute(LIVE_RUNNERS).all()
        )
    ]


def live_by_lane(connection: Connection) -> dict[str, int]:
    return dict(connection.execute(LIVE_BY_LANE).all())


def live_on_host(connection: Connection, host: str) -> int:
    return int(connection.execute(LIVE_ON_HOST, {"host": host}).scalar())


def close_runner(connection: Connection, worker_id: str, ended: EndedRunner, now: datetime) -> bool:
    """True if this call closed the row."""
    values = {"finished_at": now, **asdict(ended)}
    changes = connection.dialect.assignments(values)
    closing = f"UPDATE mayfly_runners SET {changes} WHERE worker_id = :worker_id AND finished_at IS NULL"
    return connection.execute(closing, {**values, "worker_id": worker_id}).rowcount == 1


def is_outside(worker_id: str) -> bool:
    return worker_id.startswith(OUTSIDE)


def was_lost(connection: Connection, worker_id: str) -> bool:
    """Whether another host took it for dead."""
    return bool(connection.execute(ENDING, {"worker_id": worker_id}).scalar() == LOST)
