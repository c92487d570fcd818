"""Is Mayfly healthy? One snapshot of lanes, hosts and dead jobs, and one pure function that lists its problems.

`mayfly status`, `GET /health`, alerts, `mayfly doctor` and the console's overview show its result,
each from its own severity on.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import IntEnum, StrEnum
from typing import Any, NamedTuple

from mayfly.admin.fleet import STALE_AFTER, HostView, list_hosts
from mayfly.admin.jobs import isoformat
from mayfly.admin.lanes import LaneView, list_lanes
from mayfly.clock import milliseconds
from mayfly.db.connection import Connection
from mayfly.format import format_duration, plural
from mayfly.process import exits
from mayfly.queue.outcome import OutcomeKind
from mayfly.schema.tables import require_version
from mayfly.settings import Settings

DEAD_WINDOW = timedelta(hours=1)
ACTIVE_WINDOW = timedelta(minutes=10)  # a lane in which a job was done since then is being worked on
NO_CYCLE_EXIT = 2  # exit code of `mayfly status`: nothing will change until cron runs

DEAD_BY_LANE = (
    "SELECT lane, SUM(jobs) FROM mayfly_totals"
    f" WHERE cycle_id >= :since AND outcome = '{OutcomeKind.DEAD.value}' GROUP BY lane"
)
ACTIVE_LANES = (
    f"SELECT DISTINCT lane FROM mayfly_totals WHERE cycle_id >= :since AND outcome = '{OutcomeKind.DONE.value}'"
)
ANY_CYCLE = "SELECT 1 FROM mayfly_cycles LIMIT 1"


class Severity(IntEnum):
    """Where problems are shown: `mayfly status` from NOTICE on, overview and doctor WARNING, /health DEGRADED."""

    NOTICE = 1  # intended by an operator
    WARNING = 2  # may need action
    DEGRADED = 3  # jobs are late, dead or not started
    DOWN = 4  # no job will run until this is fixed


class ProblemKind(StrEnum):
    DATABASE = "database"
    CYCLE = "cycle"
    EXIT_CODE = "exit_code"
    WAIT = "wait"
    DEAD = "dead"
    BACKLOG = "backlog"
    PAUSED = "paused"
    SCHEDULE = "schedule"


class Problem(NamedTuple):
    kind: ProblemKind
    severity: Severity
    text: str  # a sentence
    subject: str = ""  # the host or lane


@dataclass(frozen=True)
class HealthSnapshot:
    now: datetime
    lanes: tuple[LaneView, ...] = ()
    hosts: tuple[HostView, ...] = ()  # those with a cycle in the last day
    dead: Mapping[str, int] = field(default_factory=dict)  # jobs that died in the last hour, by lane
    active_lanes: frozenset[str] = frozenset()  # a job was done there recently
    has_cycles: bool = True  # a cycle has run at some time


def read_snapshot(connection: Connection, settings: Settings, now: datetime) -> HealthSnapshot:
    require_version(connection)
    hosts = tuple(list_hosts(connection, now))
    dead = connection.execute(DEAD_BY_LANE, {"since": milliseconds(now - DEAD_WINDOW)}).all()
    return HealthSnapshot(
        now=now,
        lanes=tuple(list_lanes(connection, settings, now)),
        hosts=hosts,
        dead={lane: int(number) for lane, number in dead},
        active_lanes=frozenset(
            connection.execute(ACTIVE_LANES, {"since": milliseconds(now - ACTIVE_WINDOW)}).scalars()
        ),
        has_cycles=bool(hosts) or connection.execute(ANY_CYCLE).first() is not None,
    )


def problems(snapshot: HealthSnapshot, settings: Settings) -> list[Problem]:
    """All of them, hosts first. Pure."""
    return [
        *_cycles(snapshot),
        *_late_lanes(snapshot, latency_targets(settings)),
        *_dead_jobs(snapshot, settings.health_dead_limit),
        *_idle_backlogs(snapshot),
        *_paused_lanes(snapshot),
    ]


def latency_targets(settings: Settings) -> dict[str, timedelta]:
    """Of the lanes that have one."""
    given = {lane: own.latency_target for lane, own in settings.lanes.items()}
    return {lane: timedelta(seconds=target) for lane, target in given.items() if target is not None}


def lane_waits(snapshot: HealthSnapshot, settings: Settings) -> dict[str, timedelta]:
    """How long the oldest due job has waited in each lane that has a target and is not paused."""
    targets = latency_targets(settings)
    return {each.lane: _wait(each) for each in snapshot.lanes if each.lane in targets and _is_waiting(each)}


def _cycles(snapshot: HealthSnapshot) -> Iterator[Problem]:
    if not snapshot.has_cycles:
        text = "No cycle has run yet: is cron set up? See scripts/install-cron."
        yield Problem(ProblemKind.CYCLE, Severity.DOWN, text)
    elif not snapshot.hosts:
        text = "No cycle has run in the last day: is cron running? See `mayfly doctor`."
        yield Problem(ProblemKind.CYCLE, Severity.DOWN, text)
    severity = Severity.DOWN if all(each.is_stale for each in snapshot.hosts) else Severity.DEGRADED
    for host in snapshot.hosts:
        if host.is_stale:
            ago = format_duration(timedelta(seconds=host.age_seconds))
            text = f"The last cycle of host {host.host} began {ago} ago: is cron running there?"
            yield Problem(ProblemKind.CYCLE, severity, text, host.host)
        elif host.last.exit_code:
            text = f"The last cycle of host {host.host} ended with code {host.last.exit_code}: see its log."
            yield Problem(ProblemKind.EXIT_CODE, Severity.WARNING, text, host.host)


def _late_lanes(snapshot: HealthSnapshot, targets: Mapping[str, timedelta]) -> Iterator[Problem]:
    for lane in snapshot.lanes:
        target = targets.get(lane.lane)
        if target is not None and _is_waiting(lane) and _wait(lane) > target:
            waited = f"The oldest due job of lane {lane.lane} has waited for {format_duration(_wait(lane))}"
            text = f"{waited}; the target is {format_duration(target)}."
            yield Problem(ProblemKind.WAIT, Severity.DEGRADED, text, lane.lane)


def _dead_jobs(snapshot: HealthSnapshot, limit: int) -> Iterator[Problem]:
    total = sum(snapshot.dead.values())
    if total > limit:
        lanes = ", ".join(f"{number} in lane {lane}" for lane, number in sorted(snapshot.dead.items()))
        text = f"{plural(total, 'job')} died in the last hour: {lanes}. See `mayfly dead`."
        yield Problem(ProblemKind.DEAD, Severity.DEGRADED, text)


def _idle_backlogs(snapshot: HealthSnapshot) -> Iterator[Problem]:
    """Due jobs in a lane that has no runner. A paused lane is meant to wait."""
    for lane in snapshot.lanes:
        is_active = lane.runners or lane.running.number or lane.lane in snapshot.active_lanes
        if _is_waiting(lane) and _wait(lane) > STALE_AFTER and not is_active:
            due = f"Lane {lane.lane} has {lane.pending} due {'job' if lane.pending.number == 1 else 'jobs'}"
            text = f"{due}, the oldest for {format_duration(_wait(lane))}, and no runner."
            yield Problem(ProblemKind.BACKLOG, Severity.WARNING, text, lane.lane)


def _paused_lanes(snapshot: HealthSnapshot) -> Iterator[Problem]:
    for lane in snapshot.lanes:
        if lane.paused:
            yield Problem(ProblemKind.PAUSED, Severity.NOTICE, f"Lane {lane.lane} is {lane.paused}.", lane.lane)


def _is_waiting(lane: LaneView) -> bool:
    return lane.wait_seconds is not None and not lane.paused


def _wait(lane: LaneView) -> timedelta:
    return timedelta(seconds=lane.wait_seconds or 0.0)


class Status(NamedTuple):
    """What `mayfly status` and GET /status show."""

    snapshot: HealthSnapshot
    problems: tuple[Problem, ...]

    @property
    def exit_code(self) -> int:
        """0: no problem. 1: something is degraded or paused. 2: no cycle runs, so nothing will change."""
        if any(each.severity is Severity.DOWN for each in self.problems):
            return NO_CYCLE_EXIT
        return exits.ERROR if self.problems else exits.SUCCESS

    @property
    def text(self) -> str:
        return "\n".join(each.text for each in self.problems) or "No problems."

    def at_least(self, severity: Severity) -> list[Problem]:
        return [each for each in self.problems if each.severity >= severity]

    def facts(self) -> dict[str, Any]:
        return {
            "now": isoformat(self.snapshot.now),
            "exit_code": self.exit_code,
            "complaints": [each.text for each in self.problems],
            "lanes": [each.facts() for each in self.snapshot.lanes],
            "hosts": [each.facts() for each in self.snapshot.hosts],
        }


def read_status(connection: Connection, settings: Settings, now: datetime) -> Status:
    snapshot = read_snapshot(connection, settings, now)
    return Status(snapshot, tuple(problems(snapshot, settings)))
