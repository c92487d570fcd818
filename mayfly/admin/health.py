"""Health: a snapshot of lanes, hosts and dead jobs, and a pure function that lists its problems and warnings.

`mayfly status`, `GET /health`, alerts, `mayfly doctor` and the console's overview all show these, each from a certain
severity on. Only problems degrade the status; warnings do not.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import IntEnum, StrEnum
from typing import Any, NamedTuple

from mayfly.admin.fleet import STALE_AFTER, HostView, list_hosts
from mayfly.admin.jobs import json_value
from mayfly.admin.lanes import LaneView, list_lanes
from mayfly.clock import milliseconds
from mayfly.db.connection import Connection
from mayfly.fleet.cycles import UnrecordedCycle, read_unrecorded
from mayfly.format import format_duration, plural
from mayfly.process import exits
from mayfly.process.state_dir import state_dir
from mayfly.queue.outcome import OutcomeKind
from mayfly.schema.tables import PRIORITIES, require_version
from mayfly.settings import Settings

OK, DEGRADED = "ok", "degraded"  # the status in JSON
DEAD_WINDOW = timedelta(hours=1)
MAX_DEAD_READ = 5_000  # the newest dead jobs: those that died in the last hour are found among them
ACTIVE_WINDOW = timedelta(minutes=10)  # a lane with a job done in this time is active
NO_CYCLE_EXIT = 2  # exit code of `mayfly status`: no job runs until cron does

DEAD_BY_LANE = (
    "SELECT lane, SUM(jobs) FROM mayfly_totals"
    f" WHERE cycle_id >= :since AND outcome = '{OutcomeKind.DEAD.value}' GROUP BY lane"
)
ACTIVE_LANES = (
    f"SELECT DISTINCT lane FROM mayfly_totals WHERE cycle_id >= :since AND outcome = '{OutcomeKind.DONE.value}'"
)
ANY_CYCLE = "SELECT 1 FROM mayfly_cycles LIMIT 1"
# The newest dead jobs of a lane, along the claim index: how many, and how many of them died recently.
_NEWEST_DEAD = " UNION ALL ".join(
    "SELECT finished_at FROM (SELECT finished_at FROM mayfly_jobs WHERE lane = :lane AND status = 'dead'"
    f" AND priority = {each} ORDER BY run_at DESC, id DESC LIMIT :size) AS dead_{each}"
    for each in PRIORITIES
)
STILL_DEAD = (
    f"SELECT COUNT(*), SUM(CASE WHEN finished_at >= :since THEN 1 ELSE 0 END) FROM ({_NEWEST_DEAD}) AS newest"
)


class Severity(IntEnum):
    """`mayfly status` shows all, the others WARNING and above. From DEGRADED on it is a problem: exit code 1, 503."""

    NOTICE = 1  # intended by an operator
    WARNING = 2  # may need action: a job or its handler is at fault, the installation works
    DEGRADED = 3  # jobs are late or not started
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
    SOURCE = "source"


class Problem(NamedTuple):
    """A problem, or below DEGRADED a warning or notice."""

    kind: ProblemKind
    severity: Severity
    text: str  # a sentence
    subject: str = ""  # the host or lane


@dataclass(frozen=True)
class HealthSnapshot:
    now: datetime
    lanes: tuple[LaneView, ...] = ()
    hosts: tuple[HostView, ...] = ()  # those with a cycle in the last day
    dead: Mapping[str, int] = field(default_factory=dict)  # jobs that died in the last hour and still are, by lane
    active_lanes: frozenset[str] = frozenset()  # a job was done there recently
    has_cycles: bool = True  # a cycle has been recorded
    broken_sources: Mapping[str, str] = field(default_factory=dict)  # why each cannot be used
    unrecorded: UnrecordedCycle | None = None  # the last cycle of this host, if the database could not record it


def read_snapshot(connection: Connection, settings: Settings, now: datetime) -> HealthSnapshot:
    require_version(connection)
    hosts = tuple(list_hosts(connection, now))
    return HealthSnapshot(
        now=now,
        lanes=tuple(list_lanes(connection, settings, now)),
        hosts=hosts,
        dead=recently_dead(connection, now - DEAD_WINDOW),
        active_lanes=frozenset(
            connection.execute(ACTIVE_LANES, {"since": milliseconds(now - ACTIVE_WINDOW)}).scalars()
        ),
        broken_sources=_broken_sources(connection, settings, now),
        unrecorded=read_unrecorded(state_dir(settings)),
        has_cycles=bool(hosts) or connection.execute(ANY_CYCLE).first() is not None,
    )


def _broken_sources(connection: Connection, settings: Settings, now: datetime) -> Mapping[str, str]:
    if not settings.sources:
        return {}
    from mayfly.admin.sources import find_problems  # most installations have no sources

    return find_problems(connection, settings, now)


def recently_dead(connection: Connection, since: datetime) -> dict[str, int]:
    """Jobs that died since then and are still dead, by lane: not those that were retried or discarded.

    The totals know the lanes; usually there are none, and the jobs table is not read.
    """
    died = connection.execute(DEAD_BY_LANE, {"since": milliseconds(since)}).all()
    found: dict[str, int] = {}
    for lane, number in died:
        size = max(1, MAX_DEAD_READ // len(died))
        dead, recent = connection.execute(STILL_DEAD, {"lane": lane, "since": since, "size": size}).first()
        # With more dead jobs than are read, the total: it also has those that were retried.
        found[lane] = int(number) if dead >= size else int(recent or 0)
    return {lane: number for lane, number in found.items() if number}


def problems(snapshot: HealthSnapshot, settings: Settings) -> list[Problem]:
    """All problems, warnings and notices, hosts first. Pure."""
    return [
        *_cycles(snapshot),
        *_late_lanes(snapshot, latency_targets(settings)),
        *_dead_jobs(snapshot, settings.health_dead_limit),
        *_idle_backlogs(snapshot),
        *(
            Problem(ProblemKind.SOURCE, Severity.DEGRADED, text, name)
            for name, text in snapshot.broken_sources.items()
        ),
        *(
            Problem(ProblemKind.PAUSED, Severity.NOTICE, f"Lane {each.lane} is {each.paused}.", each.lane)
            for each in snapshot.lanes
            if each.paused
        ),
    ]


def latency_targets(settings: Settings) -> dict[str, timedelta]:
    given = ((lane, own.latency_target) for lane, own in settings.lanes.items())
    return {lane: timedelta(seconds=target) for lane, target in given if target is not None}


def lane_waits(snapshot: HealthSnapshot, settings: Settings) -> dict[str, timedelta]:
    """How long the oldest due job has waited in each lane that has a target and is not paused."""
    targets = latency_targets(settings)
    waits = {each.lane: each.late_by for each in snapshot.lanes if each.lane in targets}
    return {lane: wait for lane, wait in waits.items() if wait is not None}


def _cycles(snapshot: HealthSnapshot) -> Iterator[Problem]:
    if snapshot.unrecorded is not None:
        ago = format_duration(max(timedelta(0), snapshot.now - snapshot.unrecorded.at))
        text = f"The last cycle of this host, {ago} ago, could not be recorded: {snapshot.unrecorded.reason}"
        yield Problem(ProblemKind.EXIT_CODE, Severity.DEGRADED, text)
    if not snapshot.has_cycles:
        text = "No cycle has run yet: is cron set up? Run `mayfly cron install`."
        yield Problem(ProblemKind.CYCLE, Severity.DOWN, text)
    elif not snapshot.hosts:
        text = "No known host has started a cycle in the last day: is cron running? See `mayfly doctor`."
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
        target, wait = targets.get(lane.lane), lane.late_by
        if target is not None and wait is not None and wait > target:
            waited = f"The oldest due job of lane {lane.lane} has waited for {format_duration(wait)}"
            text = f"{waited}; the target is {format_duration(target)}."
            yield Problem(ProblemKind.WAIT, Severity.DEGRADED, text, lane.lane)


def _dead_jobs(snapshot: HealthSnapshot, limit: int) -> Iterator[Problem]:
    total = sum(snapshot.dead.values())
    if total > limit:
        lanes = ", ".join(f"{number} in lane {lane}" for lane, number in sorted(snapshot.dead.items()))
        text = f"{plural(total, 'job')} died in the last hour: {lanes}. See `mayfly dead`."
        yield Problem(ProblemKind.DEAD, Severity.WARNING, text)


def _idle_backlogs(snapshot: HealthSnapshot) -> Iterator[Problem]:
    for lane in snapshot.lanes:
        is_active = lane.runners or lane.has_jobs_in_progress or lane.lane in snapshot.active_lanes
        if lane.late_by is not None and lane.late_by > STALE_AFTER and not is_active:
            since = f"the oldest for {format_duration(lane.late_by)}"
            text = f"Lane {lane.lane} has {lane.pending.plural('due job')}, {since}, and no runners."
            yield Problem(ProblemKind.BACKLOG, Severity.WARNING, text, lane.lane)


class Status(NamedTuple):
    snapshot: HealthSnapshot
    problems: tuple[Problem, ...]  # warnings and notices too

    @property
    def exit_code(self) -> int:
        """0: no problem, perhaps warnings. 1: something is degraded. 2: no cycle has run recently."""
        if self.at_least(Severity.DOWN):
            return NO_CYCLE_EXIT
        return exits.ERROR if self.name == DEGRADED else exits.SUCCESS

    @property
    def name(self) -> str:
        return DEGRADED if self.at_least(Severity.DEGRADED) else OK

    @property
    def worst(self) -> Severity | None:
        return max((each.severity for each in self.problems), default=None)

    def at(self, severity: Severity) -> list[Problem]:
        return [each for each in self.problems if each.severity is severity]

    @property
    def text(self) -> str:
        return "\n".join(each.text for each in self.problems) or "No problems."

    def at_least(self, severity: Severity) -> list[Problem]:
        return [each for each in self.problems if each.severity >= severity]

    def facts(self) -> dict[str, Any]:
        return {
            "now": json_value(self.snapshot.now),
            "status": self.name,
            "exit_code": self.exit_code,
            "complaints": [each.text for each in self.at_least(Severity.DEGRADED)],
            "warnings": [each.text for each in self.at(Severity.WARNING)],
            "notices": [each.text for each in self.at(Severity.NOTICE)],
            "lanes": json_value(self.snapshot.lanes),
            "hosts": json_value(self.snapshot.hosts),
        }


def read_status(connection: Connection, settings: Settings, now: datetime) -> Status:
    snapshot = read_snapshot(connection, settings, now)
    return Status(snapshot, tuple(problems(snapshot, settings)))
