"""The rows of runners: written when planned, taken over by the process itself, closed by whoever saw it end."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime

from mayfly import json_text
from mayfly.db.connection import Connection
from mayfly.db.dialects import utc_from_driver
from mayfly.fleet.statements import LIVE_RUNNERS
from mayfly.process.identity import Host, Process

OUTSIDE = "http-"  # begins the worker_id of those who pull jobs from elsewhere: none of them has a row here
LOST = "lost"  # the ending of a runner whose end nobody saw


@dataclass(frozen=True)
class Assignment:
    """Everything a runner is told: who it is, where it works, until when."""

    worker_id: str
    lane: str
    cycle_id: int
    deadline: float  # monotonic seconds: when its guard ends it
    window_seconds: float  # how long the guard gives a job that has it all
    lease_until: datetime
    is_long: bool = False  # it may outlive its dispatcher, and a keeper renews its lease
    stays_until: float = 0.0  # monotonic: until then it waits a while for more when its lane is empty
    is_whole: bool = True  # its window is as long as any that it could have
    usual: Mapping[str, float] = field(default_factory=dict)  # types that take long, and how many seconds
    begins_with: int | None = None  # a job that waits for a whole window

    def as_text(self) -> str:
        """For a runner in an interpreter of its own; it holds no secret, argv is public."""
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
    place: Host
    process: Process
    lease_until: datetime
    has_started: bool = True  # until then `process` is its planner's


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
    connection: Connection, assignments: Sequence[Assignment], place: Host, planner: Process, now: datetime
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
        connection.execute_many(connection.dialect.upsert("mayfly_runners", ("worker_id",), rows[0]), rows)


TAKE_OVER = (
    "UPDATE mayfly_runners SET pid = :pid, pid_started = :pid_started, heartbeat_at = :now"
    " WHERE worker_id = :worker_id"
)
RENEW_HEARTBEAT = "UPDATE mayfly_runners SET heartbeat_at = :now WHERE worker_id = :worker_id"
LIVE_BY_LANE = "SELECT lane, COUNT(*) FROM mayfly_runners WHERE finished_at IS NULL GROUP BY lane"
LIVE_ON_HOST = "SELECT COUNT(*) FROM mayfly_runners WHERE finished_at IS NULL AND host = :host"
ENDING = "SELECT ending FROM mayfly_runners WHERE worker_id = :worker_id"


def take_over(connection: Connection, worker_id: str, process: Process, now: datetime) -> None:
    taken = {"worker_id": worker_id, "pid": process.pid, "pid_started": process.started, "now": now}
    connection.execute(TAKE_OVER, taken)


def renew_heartbeat(connection: Connection, worker_id: str, now: datetime) -> None:
    connection.execute(RENEW_HEARTBEAT, {"worker_id": worker_id, "now": now})


def live_runners(connection: Connection) -> list[LiveRunner]:
    """Those whose end nobody has seen; whether they still live is for the caller to find out."""
    return [
        LiveRunner(
            worker_id=worker_id,
            cycle_id=cycle_id,
            lane=lane,
            place=Host(host, machine),
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
    """True for the one who closes it."""
    values = {"finished_at": now, **asdict(ended)}
    changes = connection.dialect.assignments(values)
    closing = f"UPDATE mayfly_runners SET {changes} WHERE worker_id = :worker_id AND finished_at IS NULL"
    return connection.execute(closing, {**values, "worker_id": worker_id}).rowcount == 1


def is_outside(worker_id: str) -> bool:
    return worker_id.startswith(OUTSIDE)


def was_lost(connection: Connection, worker_id: str) -> bool:
    """Whether somebody took it for dead."""
    return bool(connection.execute(ENDING, {"worker_id": worker_id}).scalar() == LOST)
