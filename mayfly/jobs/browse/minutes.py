"""The cycles minute by minute: which of them are missing, and which took longer than their minute."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from mayfly.clock import milliseconds
from mayfly.connection import Connection
from mayfly.dialect import utc_from_driver
from mayfly.jobs.browse.capped import told
from mayfly.jobs.browse.cycles import CycleView, list_cycles, list_hosts
from mayfly.spans import span

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
FOLLOWING = "SELECT started_at FROM mayfly_cycles WHERE id >= :before AND host = :host ORDER BY id LIMIT 1"
SINCE = "SELECT host, started_at, duration_ms FROM mayfly_cycles WHERE id >= :since ORDER BY id"


class Gap(NamedTuple):
    """Minutes in which a host should have begun a cycle and did not."""

    host: str
    after: datetime  # its last one before began then
    until: datetime  # and its next one then; or it is still missing now
    minutes: int

    @property
    def text(self) -> str:
        missed = "1 minute was" if self.minutes == 1 else f"{self.minutes:,} minutes were"
        return f"{missed} missed on {self.host}: no cycle began for {span(self.until - self.after)}"

    def facts(self) -> dict[str, Any]:
        between = {"after": told(self.after), "until": told(self.until)}
        return {"host": self.host, "missed_minutes": self.minutes, **between}


class Minutes(NamedTuple):
    """A page of cycles, the newest first, with what is missing between them."""

    rows: tuple[CycleView | Gap, ...]
    next: int | None  # the last cycle of this page, where there are more

    def facts(self) -> dict[str, Any]:
        return {"rows": [each.facts() for each in self.rows], "next": self.next}


class Regularity(NamedTuple):
    """How regular a host's cycles were within the last hour."""

    missed: int = 0
    overruns: int = 0


def missed_between(one: datetime, other: datetime) -> int:
    """Cycles that should have begun between two that did. Some seconds more or less are cron's own matter."""
    return max(0, round((other - one) / MINUTE) - 1)


def is_overrun(cycle: CycleView, now: datetime) -> bool:
    """It took longer than the minute it has; or still does, or never ended."""
    return _took(cycle.started_at, cycle.duration_ms, now) > MINUTE


def _took(started_at: datetime, duration_ms: int | None, now: datetime) -> timedelta:
    return now - started_at if duration_ms is None else timedelta(milliseconds=duration_ms)


def list_minutes(connection: Connection, now: datetime, size: int = 60, before: int | None = None) -> Minutes:
    """`before` is the `next` of the page before. What is missing until now comes first of all."""
    found = list_cycles(connection, size + 1, before)
    page = found[:size]
    following = {each.host: now for each in list_hosts(connection, now)}
    if before is not None:
        following |= _following(connection, {each.host for each in page}, before)
    return Minutes(tuple(with_gaps(page, following)), page[-1].id if len(found) > size else None)


def _following(connection: Connection, hosts: Collection[str], before: int) -> dict[str, datetime]:
    """When each of these hosts had its next cycle, from the end of the page before on."""
    found = ((host, connection.execute(FOLLOWING, {"before": before, "host": host}).scalar()) for host in hosts)
    return {host: utc_from_driver(at) for host, at in found if at is not None}


def with_gaps(cycles: Sequence[CycleView], following: Mapping[str, datetime]) -> Iterator[CycleView | Gap]:
    """Cycles, the newest first, each after what is missing between it and its host's next one. Pure."""
    next_at = dict(following)
    for each in cycles:
        until = next_at.get(each.host, each.started_at)
        if missed := missed_between(each.started_at, until):
            yield Gap(each.host, each.started_at, until, missed)
        next_at[each.host] = each.started_at
        yield each


def read_regularity(connection: Connection, now: datetime) -> dict[str, Regularity]:
    """Of each host that had a cycle within the last hour."""
    found: dict[str, Regularity] = {}
    last: dict[str, datetime] = {}
    for host, started_at, duration_ms in connection.execute(SINCE, {"since": milliseconds(now - HOUR)}).all():
        at, known = utc_from_driver(started_at), found.get(host, Regularity())
        missed = missed_between(last.get(host, at), at)
        found[host] = Regularity(known.missed + missed, known.overruns + (_took(at, duration_ms, now) > MINUTE))
        last[host] = at
    return {host: each._replace(missed=each.missed + missed_between(last[host], now)) for host, each in found.items()}
