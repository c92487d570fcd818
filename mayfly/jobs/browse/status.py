"""How it is with the whole installation, and whether that is well."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

from mayfly import exits
from mayfly.connection import Connection
from mayfly.jobs.browse.capped import told
from mayfly.jobs.browse.cycles import HostView, list_hosts
from mayfly.jobs.browse.lanes import LaneView, list_lanes
from mayfly.jobs.why import STALE
from mayfly.schema import JobTable
from mayfly.settings import Settings
from mayfly.spans import span

NO_CYCLE = 2  # the exit code that says so


class Status(NamedTuple):
    lanes: tuple[LaneView, ...]
    hosts: tuple[HostView, ...]
    now: datetime

    @property
    def is_stale(self) -> bool:
        """Cron silently not running is the failure that matters most."""
        return all(each.age_seconds > STALE.total_seconds() for each in self.hosts)

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
            if each.age_seconds > STALE.total_seconds():
                ago = span(self.now - each.last.started_at)
                yield f"The last cycle of {each.host} began {ago} ago: is cron running there?"
            elif each.last.exit_code:
                yield f"The last cycle of {each.host} ended with code {each.last.exit_code}: see its log."
        for lane in self.lanes:
            if lane.paused:
                yield f"Lane {lane.lane} is {lane.paused}."

    def facts(self) -> dict[str, Any]:
        return {
            "now": told(self.now),
            "exit_code": self.exit_code,
            "complaints": list(self.complaints()),
            "lanes": [each.facts() for each in self.lanes],
            "hosts": [each.facts() for each in self.hosts],
        }


def read_status(connection: Connection, jobs: JobTable, settings: Settings, now: datetime) -> Status:
    return Status(tuple(list_lanes(connection, jobs, settings, now)), tuple(list_hosts(connection, now)), now)
