"""Decide whether Mayfly is well, and read what that needs: a few looks, each along an index."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from typing import NamedTuple

from mayfly.clock import milliseconds
from mayfly.connection import Connection
from mayfly.dialect import utc_from_driver
from mayfly.jobs.browse import list_hosts
from mayfly.jobs.looks import next_due
from mayfly.jobs.pauses import load_pauses
from mayfly.jobs.why import STALE
from mayfly.outcome import Kind
from mayfly.schema import PRIORITIES, JobTable
from mayfly.settings import Settings
from mayfly.spans import span
from mayfly.version import require_version

DEATHS_WITHIN = timedelta(hours=1)

DEATHS = (
    "SELECT lane, SUM(jobs) FROM mayfly_totals"
    f" WHERE cycle_id >= :since AND outcome = '{Kind.DEAD.value}' GROUP BY lane"
)


class Ailment(NamedTuple):
    name: str  # one word, for machines
    text: str


@dataclass(frozen=True)
class Vitals:
    """What is looked at. Lanes that somebody has paused wait because they shall, and are not among the waits."""

    cycle_ages: Mapping[str, timedelta] = field(default_factory=dict)  # of each known host's last cycle
    waits: Mapping[str, timedelta] = field(default_factory=dict)  # of the oldest due job, where a lane has a target
    deaths: Mapping[str, int] = field(default_factory=dict)  # in the last hour, by lane


def ailments(vitals: Vitals, targets: Mapping[str, timedelta], dead_limit: int) -> list[Ailment]:
    """What is not as it should be; nothing where all is well."""
    return [*_silent(vitals), *_late(vitals, targets), *_dead(vitals, dead_limit)]


def _silent(vitals: Vitals) -> Iterator[Ailment]:
    if not vitals.cycle_ages:
        yield Ailment("cycle", "No cycle has run in the last day on any host: is cron at work?")
    for host, age in sorted(vitals.cycle_ages.items()):
        if age > STALE:
            yield Ailment("cycle", f"The last cycle of host {host} was {span(age)} ago: is cron at work there?")


def _late(vitals: Vitals, targets: Mapping[str, timedelta]) -> Iterator[Ailment]:
    for lane, waited in sorted(vitals.waits.items()):
        if waited > targets[lane]:
            late = f"A job of lane {lane} has waited for {span(waited)}"
            yield Ailment("wait", f"{late}; the target is {span(targets[lane])}.")


def _dead(vitals: Vitals, limit: int) -> Iterator[Ailment]:
    total = sum(vitals.deaths.values())
    if total > limit:
        lanes = ", ".join(f"{number} in lane {lane}" for lane, number in sorted(vitals.deaths.items()))
        yield Ailment("dead", f"{total} jobs died in the last hour: {lanes}.")


def targets_of(settings: Settings) -> dict[str, timedelta]:
    """The lanes that have one."""
    given = {lane: own.latency_target for lane, own in settings.lanes.items()}
    return {lane: timedelta(seconds=target) for lane, target in given.items() if target is not None}


def look(connection: Connection, jobs: JobTable, settings: Settings, now: datetime) -> Vitals:
    require_version(connection)
    deaths = connection.execute(DEATHS, {"since": milliseconds(now - DEATHS_WITHIN)}).all()
    paused = load_pauses(connection, now).lanes
    lanes = [lane for lane in targets_of(settings) if lane not in paused]
    return Vitals(
        {each.host: timedelta(seconds=each.age_seconds) for each in list_hosts(connection, now)},
        {lane: now - oldest for lane in lanes if (oldest := _oldest(connection, jobs, lane, now)) is not None},
        {lane: int(number) for lane, number in deaths},
    )


def _oldest(connection: Connection, jobs: JobTable, lane: str, now: datetime) -> datetime | None:
    """Since when the job has been due that has waited longest."""
    found: Sequence[str | datetime] = connection.execute(oldest_statement(jobs), {"lane": lane, "now": now}).scalars()
    return min(map(utc_from_driver, found), default=None)


@cache
def oldest_statement(jobs: JobTable) -> str:
    looks = (next_due(jobs.c.run_at, jobs, priority=str(each), size="1") for each in PRIORITIES)
    parts = (f"SELECT {jobs.c.run_at} FROM ({look}) AS oldest_{number}" for number, look in enumerate(looks))
    return " UNION ALL ".join(parts)
