"""The rows of runners: inserted with the plan, taken over by the runner, closed by the process that sees its exit.

Between that, the dispatcher or a lease keeper writes into them what the runner does.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Any, NamedTuple

from mayfly import json_text, log_messages
from mayfly.clock import monotonic
from mayfly.db.connection import Connection, numbered_parameters, placeholders
from mayfly.db.database import Database
from mayfly.db.dialects import utc_from_driver
from mayfly.errors import MayflyError
from mayfly.log import Log
from mayfly.process import timing
from mayfly.process.identity import Host, Process, process_usage
from mayfly.process.status_page import StatusPage

EXTERNAL_PREFIX = "http-"  # prefix of the worker_id of external workers: they have no rows here
MAX_EARLIER_LANES = 100  # that the row of a runner names
LOST = "lost"  # the ending of a runner whose exit no dispatcher observed

TAKE_OVER = (
    "UPDATE mayfly_runners SET pid = :pid, pid_started = :pid_started, heartbeat_at = :now"
    " WHERE worker_id = :worker_id"
)
# Not before the runner has taken over its row: without a heartbeat its pid is that of its planner.
WRITE_FIGURES = (
    "UPDATE mayfly_runners SET heartbeat_at = :now, running = :running, jobs_done = :jobs_done,"
    " jobs_failed = :jobs_failed, average_ms = :average_ms, peak_memory = :peak_memory, cpu_ms = :cpu_ms,"
    " uptime_ms = :uptime_ms WHERE worker_id = :worker_id AND heartbeat_at IS NOT NULL AND finished_at IS NULL"
)
# Entering a lane: the row lock of the planning lock keeps planners out, and other runners that would enter. With the
# LIMIT, MySQL does not merge the inner query, which it would refuse: it reads the table that is updated.
LOCK_PLANNING = "SELECT holder FROM mayfly_locks WHERE name = 'plan'"
ENTER_LANE = (
    "UPDATE mayfly_runners SET lane = :lane, earlier_lanes = :earlier_lanes"
    " WHERE worker_id = :worker_id AND finished_at IS NULL AND NOT EXISTS (SELECT 1 FROM"
    " (SELECT worker_id FROM mayfly_runners WHERE finished_at IS NULL AND lane = :lane LIMIT 2) AS there"
    " WHERE there.worker_id <> :worker_id)"
)
RENEW_HEARTBEAT = "UPDATE mayfly_runners SET heartbeat_at = :now WHERE worker_id = :worker_id"
LIVE_RUNNERS = (
    "SELECT worker_id, cycle_id, lane, host, machine, pid, pid_started, lease_until, heartbeat_at IS NOT NULL,"
    " launcher, ending, exit_code, mayfly_runners.signal, running, CASE WHEN engine_step = 'watch' THEN cause END"
    " FROM mayfly_runners WHERE finished_at IS NULL"
)
LIVE_BY_LANE = "SELECT lane, COUNT(*) FROM mayfly_runners WHERE finished_at IS NULL GROUP BY lane"
RUNNING_BY_LANE = "SELECT lane, running FROM mayfly_runners WHERE finished_at IS NULL"
# Not by the name alone: in Kubernetes all pods have the same one, and each has its own memory and processors.
# Those of launchers use what their engine has granted them, not the slots of a host.
LIVE_BY_LANE_AND_ON_HOST = (
    "SELECT lane, COUNT(*), SUM(CASE WHEN host = :name AND machine = :machine AND launcher IS NULL THEN 1 ELSE 0 END)"
    " FROM mayfly_runners WHERE finished_at IS NULL GROUP BY lane"
)


@dataclass(frozen=True)
class Assignment:
    """The parameters of one runner: its worker_id, its lane, its deadlines."""

    worker_id: str
    lane: str
    cycle_id: int
    deadline: float  # monotonic seconds: when its guard ends it
    window_seconds: float  # the longest time that the guard gives a job
    lease_until: datetime
    is_long: bool = False  # it may outlive its dispatcher; a lease keeper renews its lease
    stays_until: float = 0.0  # monotonic: until then it waits for more jobs when its lane is empty
    begins_with: int | None = None  # its first job: one that was interrupted at the end of a window
    shares: str | None = None  # lanes with these settings wait: it serves them after its own; None: only its own
    is_submitted: bool = False  # a launcher has started it: it has no dispatcher

    @property
    def has_keeper(self) -> bool:
        """Whether a lease keeper renews its lease, because no dispatcher waits for it."""
        return self.is_long or self.is_submitted

    def as_text(self) -> str:
        """As JSON, for argv and the preload process. Contains no secret: argv is public."""
        return json_text.encode({**asdict(self), "lease_until": self.lease_until.isoformat()})

    @classmethod
    def from_text(cls, text: str) -> "Assignment":
        fields = json_text.decode(text)
        return cls(**{**fields, "lease_until": datetime.fromisoformat(fields["lease_until"])})


@dataclass(frozen=True)
class Death:
    """How the process of a submitted runner ended that could not close its row, as its lease keeper has noted it."""

    ending: str
    exit_code: int | None
    signal: int | None
    running: Mapping[int, datetime]
    jobs_done: int = 0
    jobs_failed: int = 0


@dataclass(frozen=True)
class LiveRunner:
    worker_id: str
    cycle_id: int
    lane: str
    host: Host
    process: Process
    lease_until: datetime
    has_started: bool = True  # before that, `process` is the dispatcher that planned it
    launcher: str | None = None  # that has started it; None: a dispatcher
    death: Death | None = None
    cause: str | None = None  # why its process ended, if its engine or its lease keeper has already noted it


@dataclass(frozen=True)
class EndedRunner:
    """How a runner ended, for its row. Of what is not known, the row keeps the last figures."""

    ending: str
    exit_code: int | None = None
    signal: int | None = None
    jobs_done: int | None = None
    jobs_failed: int | None = None
    average_ms: float | None = None
    peak_memory: int | None = None
    cpu_ms: int | None = None
    uptime_ms: int | None = None


class JobStart(NamedTuple):
    """A job that a runner was running when its figures were written."""

    job_id: int
    started_at: datetime


class Entry(Enum):
    """The result of an attempt to enter a lane."""

    ENTERED = auto()
    OCCUPIED = auto()  # another runner is there, or this one has been declared dead
    PLANNING = auto()  # a host counts runners just now: try again in a moment


class LaneActivity(NamedTuple):
    runners: int = 0  # alive
    jobs: int = 0  # that they run


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


def enter_lane(connection: Connection, worker_id: str, lane: str, earlier: Sequence[str]) -> Entry:
    """Move the runner's row to a lane without a runner, at the end of the transaction of its first claim there.

    So the rows always show where runners work, and every plan counts them there: caps hold at any moment.
    """
    if connection.execute(LOCK_PLANNING + connection.dialect.row_lock).scalar() is not None:
        return Entry.PLANNING
    values = {"worker_id": worker_id, "lane": lane, "earlier_lanes": json_text.encode(earlier[-MAX_EARLIER_LANES:])}
    return Entry.ENTERED if connection.execute(ENTER_LANE, values).rowcount == 1 else Entry.OCCUPIED


def renew_heartbeat(connection: Connection, worker_id: str, now: datetime) -> None:
    connection.execute(RENEW_HEARTBEAT, {"worker_id": worker_id, "now": now})


def live_runners(connection: Connection) -> list[LiveRunner]:
    """Runners without a recorded end; the caller checks whether they are alive."""
    found = connection.execute(LIVE_RUNNERS).all()
    return [
        LiveRunner(
            worker_id,
            cycle_id,
            lane,
            Host(host, machine),
            Process(pid, started),
            utc_from_driver(lease),
            bool(beat),
            launcher,
            ending and Death(ending, exit_code, signal, dict(job_starts(running))),
            cause,
        )
        for (worker_id, cycle_id, lane, host, machine, pid, started, lease, beat,
             launcher, ending, exit_code, signal, running, cause) in found
    ]  # fmt: skip


def live_by_lane(connection: Connection) -> dict[str, int]:
    return dict(connection.execute(LIVE_BY_LANE).all())


def live_by_lane_and_on_host(connection: Connection, host: Host) -> tuple[dict[str, int], int]:
    """Of the whole fleet by lane, and those that use the slots of this host: each plan needs both."""
    found = connection.execute(LIVE_BY_LANE_AND_ON_HOST, host._asdict()).all()
    return {lane: live for lane, live, _here in found}, sum(int(here) for _lane, _live, here in found)


def close_runner(connection: Connection, worker_id: str, ended: EndedRunner, now: datetime) -> bool:
    """True if this call closed the row."""
    return close_runners(connection, {worker_id: ended}, now) == 1


def close_runners(connection: Connection, ended: Mapping[str, EndedRunner], now: datetime) -> int:
    """Close the rows of runners by one statement, given their ends by worker_id; returns how many it closed."""
    closed = numbered_parameters(ended, "worker_id")
    values: dict[str, Any] = {"now": now, **closed}
    cases: dict[str, str] = {}  # by column
    for number, row in enumerate(map(asdict, ended.values())):
        for column, value in row.items():
            if value is not None:
                values[f"{column}_{number}"] = value
                cases[column] = f"{cases.get(column, '')} WHEN :worker_id_{number} THEN :{column}_{number}"
    names = {column: connection.dialect.quoted(column) for column in cases}
    changes = ", ".join(
        f"{names[column]} = CASE worker_id{case} ELSE {names[column]} END" for column, case in cases.items()
    )
    # Of a submitted runner that has failed, its engine has the cause and the output.
    failed = [name for name, runner in zip(closed, ended.values(), strict=True) if runner.ending != "ok"]
    is_failed = f"launcher IS NOT NULL AND worker_id IN ({placeholders(failed)})" if failed else ""
    step = f"CASE WHEN {is_failed} THEN 'explain' END" if failed else "NULL"
    closing = (
        f"UPDATE mayfly_runners SET finished_at = :now, running = NULL, engine_step = {step}, {changes}"
        f" WHERE worker_id IN ({placeholders(closed)}) AND finished_at IS NULL"
    )
    return connection.execute(closing, values).rowcount


def is_external(worker_id: str) -> bool:
    return worker_id.startswith(EXTERNAL_PREFIX)


def lost_among(connection: Connection, worker_ids: Iterable[str]) -> Sequence[str]:
    """Those that another host has declared dead."""
    values = numbered_parameters(worker_ids, "worker_id")
    lost = f"SELECT worker_id FROM mayfly_runners WHERE worker_id IN ({placeholders(values)}) AND ending = '{LOST}'"
    return connection.execute(lost, values).scalars()


# --- figures of live runners ------------------------------------------------------------------------------


@dataclass(frozen=True)
class ObservedRunner:
    """A live runner of this host, for the process that writes its figures."""

    worker_id: str
    pid: int
    page: StatusPage
    started: float  # monotonic

    def figures(self, now: datetime, at: float) -> dict[str, Any] | None:
        """The values of its row; None if it has exited. `at` is the monotonic time of `now`."""
        usage, status = process_usage(self.pid), self.page.read()
        if usage is None:
            return None
        running = sorted(status.running, key=lambda job: job.started)
        starts = {job.job_id: (now - timedelta(seconds=at - job.started)).isoformat() for job in running}
        return {
            "worker_id": self.worker_id,
            "now": now,
            "running": json_text.encode(starts),
            "jobs_done": status.done,
            "jobs_failed": status.failed,
            "average_ms": status.average_ms,
            "uptime_ms": round((at - self.started) * 1000),
            **usage._asdict(),
        }


class FiguresWriter:
    """Writes the figures of live runners every two seconds. If the database is slow or fails, they are skipped."""

    def __init__(self, database: Database, log: Log) -> None:
        self._database = database
        self._log = log
        self._is_failing = False
        self.due_at = monotonic() + timing().figures_seconds

    def write(self, runners: Iterable[ObservedRunner]) -> None:
        """Consecutive failures are logged once."""
        try:
            with self._database.bounded(timing().figures_timeout_seconds):
                self._write(runners)
            self._is_failing = False
        except MayflyError as error:
            if not self._is_failing:
                self._log.write(log_messages.figures_skipped(str(error)))
            self._is_failing = True
        self.due_at = monotonic() + timing().figures_seconds

    def _write(self, runners: Iterable[ObservedRunner]) -> None:
        now, at = self._database.clock.now(), monotonic()
        rows = [figures for each in runners if (figures := each.figures(now, at)) is not None]
        if rows:
            self._database.run(lambda connection: connection.execute_many(WRITE_FIGURES, rows))


def job_starts(running: str | None) -> tuple[JobStart, ...]:
    """From the column `running`, the earliest start first."""
    starts = json_text.decode(running) if running else {}
    found = (JobStart(int(job_id), datetime.fromisoformat(at)) for job_id, at in starts.items())
    return tuple(sorted(found, key=lambda each: each.started_at))


def starts_by_runner(connection: Connection, worker_ids: Iterable[str]) -> dict[str, dict[int, datetime]]:
    """The starts of the jobs that these runners run, by job; runners without figures are missing."""
    values = numbered_parameters(sorted(set(worker_ids)), "name")
    if not values:
        return {}
    query = f"SELECT worker_id, running FROM mayfly_runners WHERE worker_id IN ({placeholders(values)})"
    found = connection.execute(query, values)
    return {worker_id: dict(job_starts(running)) for worker_id, running in found.all() if running}


def activity_by_lane(connection: Connection) -> dict[str, LaneActivity]:
    """Live runners of the whole fleet, and the jobs that they run according to their last figures."""
    found: dict[str, LaneActivity] = {}
    for lane, running in connection.execute(RUNNING_BY_LANE).all():
        runners, jobs = found.get(lane, LaneActivity())
        found[lane] = LaneActivity(runners + 1, jobs + len(job_starts(running)))
    return found
