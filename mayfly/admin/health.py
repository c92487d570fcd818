"""Decide whether Mayfly is well, and read what that needs: a few looks, each along an index."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from typing import Any, NamedTuple

from mayfly.admin.fleet import HostView, list_hosts
from mayfly.admin.jobs import isoformat
from mayfly.admin.lanes import LaneView, list_lanes
from mayfly.admin.why import STALE_AFTER
from mayfly.clock import milliseconds
from mayfly.db.connection import Connection
from mayfly.db.dialects import utc_from_driver
from mayfly.format import format_duration
from mayfly.process import exits
from mayfly.queue.count import next_due
from mayfly.queue.outcome import OutcomeKind
from mayfly.queue.pauses import load_pauses
from mayfly.schema.tables import PRIORITIES
from mayfly.schema.version import require_version
from mayfly.settings import Settings

DEATHS_WITHIN = timedelta(hours=1)

DEATHS = (
    "SELECT lane, SUM(jobs) FROM mayfly_totals"
    f" WHERE cycle_id >= :since AND outcome = '{OutcomeKind.DEAD.value}' GROUP BY lane"
)


class Problem(NamedTuple):
    name: str  # one word, for machines
    text: str


@dataclass(frozen=True)
class HealthSnapshot:
    """What is looked at. Lanes that somebody has paused wait because they shall, and are not among the waits."""

    cycle_ages: Mapping[str, timedelta] = field(default_factory=dict)  # of each known host's last cycle
    waits: Mapping[str, timedelta] = field(default_factory=dict)  # of the oldest due job, where a lane has a target
    deaths: Mapping[str, int] = field(default_factory=dict)  # in the last hour, by lane


def find_problems(vitals: HealthSnapshot, targets: Mapping[str, timedelta], dead_limit: int) -> list[Problem]:
    """What is not as it should be; nothing where all is well."""
    return [*_silent(vitals), *_late(vitals, targets), *_dead(vitals, dead_limit)]


def _silent(vitals: HealthSnapshot) -> Iterator[Problem]:
    if not vitals.cycle_ages:
        yield Problem("cycle", "No cycle has run in the last day on any host: is cron at work?")
    for host, age in sorted(vitals.cycle_ages.items()):
        if age > STALE_AFTER:
            yield Problem(
                "cycle", f"The last cycle of host {host} was {format_duration(age)} ago: is cron at work there?"
            )


def _late(vitals: HealthSnapshot, targets: Mapping[str, timedelta]) -> Iterator[Problem]:
    for lane, waited in sorted(vitals.waits.items()):
        if waited > targets[lane]:
            late = f"A job of lane {lane} has waited for {format_duration(waited)}"
            yield Problem("wait", f"{late}; the target is {format_duration(targets[lane])}.")


def _dead(vitals: HealthSnapshot, limit: int) -> Iterator[Problem]:
    total = sum(vitals.deaths.values())
    if total > limit:
        lanes = ", ".join(f"{number} in lane {lane}" for lane, number in sorted(vitals.deaths.items()))
        yield Problem("dead", f"{total} jobs died in the last hour: {lanes}.")


def targets_of(settings: Settings) -> dict[str, timedelta]:
    """The lanes that have one."""
    given = {lane: own.latency_target for lane, own in settings.lanes.items()}
    return {lane: timedelta(seconds=target) for lane, target in given.items() if target is not None}


def read_snapshot(connection: Connection, settings: Settings, now: datetime) -> HealthSnapshot:
    require_version(connection)
    deaths = connection.execute(DEATHS, {"since": milliseconds(now - DEATHS_WITHIN)}).all()
    paused = load_pauses(connection, now).lanes
    lanes = [lane for lane in targets_of(settings) if lane not in paused]
    return HealthSnapshot(
        {each.host: timedelta(seconds=each.age_seconds) for each in list_hosts(connection, now)},
        {lane: now - oldest for lane in lanes if (oldest := _oldest(connection, lane, now)) is not None},
        {lane: int(number) for lane, number in deaths},
    )


def _oldest(connection: Connection, lane: str, now: datetime) -> datetime | None:
    """Since when the job has been due that has waited longest."""
    found: Sequence[str | datetime] = connection.execute(oldest_statement(), {"lane": lane, "now": now}).scalars()
    return min(map(utc_from_driver, found), default=None)


@cache
def oldest_statement() -> str:
    looks = (next_due("run_at", priority=str(each), size="1") for each in PRIORITIES)
    parts = (f"SELECT run_at FROM ({look}) AS oldest_{number}" for number, look in enumerate(looks))
    return " UNION ALL ".join(parts)


NO_CYCLE = 2  # the exit code that says so


class Status(NamedTuple):
    lanes: tuple[LaneView, ...]
    hosts: tuple[HostView, ...]
    now: datetime

    @property
    def is_stale(self) -> bool:
        """Cron silently not running is the failure that matters most."""
        return all(each.age_seconds > STALE_AFTER.total_seconds() for each in self.hosts)

    @property
    def exit_code(self) -> int:
        """0: fine. 1: something is degraded or paused. 2: no cycle lately, so nothing of it will change."""
        if self.is_stale:
            return NO_CYCLE
        return exits.ERROR if any(self.complaints()) else exits.SUCCESS

    def complaints(self) -> Iterator[str]:
        """What is not as it should be, in sentences."""
        if not self.hosts:
            yield "No cycle has run within a day: is cron set up? See `mayfly doctor`."
        for each in self.hosts:
            if each.age_seconds > STALE_AFTER.total_seconds():
                ago = format_duration(self.now - each.last.started_at)
                yield f"The last cycle of {each.host} began {ago} ago: is cron running there?"
            elif each.last.exit_code:
                yield f"The last cycle of {each.host} ended with code {each.last.exit_code}: see its log."
        for lane in self.lanes:
            if lane.paused:
                yield f"Lane {lane.lane} is {lane.paused}."

    def facts(self) -> dict[str, Any]:
        return {
            "now": isoformat(self.now),
            "exit_code": self.exit_code,
            "complaints": list(self.complaints()),
            "lanes": [each.facts() for each in self.lanes],
            "hosts": [each.facts() for each in self.hosts],
        }


def read_status(connection: Connection, settings: Settings, now: datetime) -> Status:
    return Status(tuple(list_lanes(connection, settings, now)), tuple(list_hosts(connection, now)), now)
