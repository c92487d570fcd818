"""Cycles, hosts and runners: lists of them, the last cycle of each host, and minutes without a cycle."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from mayfly.admin.jobs import facts_of, isoformat, read_row
from mayfly.clock import milliseconds
from mayfly.db.connection import Connection
from mayfly.db.dialects import utc_from_driver
from mayfly.format import format_duration

DAY = timedelta(days=1)  # a host without a cycle for longer has been taken out of service
STALE_AFTER = timedelta(minutes=3)  # without a new cycle: cron has missed more than one minute


class CycleView(NamedTuple):
    id: int
    host: str
    started_at: datetime
    finished_at: datetime | None
    exit_code: int | None
    pending: int
    planned: int
    spawned: int
    successful: int
    failed: int
    timed_out: int
    rescued: int
    repeated: int
    pruned: int
    duration_ms: int | None
    note: str | None

    def facts(self) -> dict[str, Any]:
        return facts_of(self)


class HostView(NamedTuple):
    """The last cycle of a host, and how long ago it began."""

    host: str
    last: CycleView
    age_seconds: float

    @property
    def is_stale(self) -> bool:
        return self.age_seconds > STALE_AFTER.total_seconds()

    def facts(self) -> dict[str, Any]:
        return {"host": self.host, "age_seconds": self.age_seconds, "last": self.last.facts()}


COLUMNS = ", ".join(CycleView._fields)
LAST = "SELECT MAX(id) FROM mayfly_cycles WHERE id >= :since GROUP BY host"


def list_cycles(connection: Connection, size: int = 20, before: int | None = None) -> list[CycleView]:
    """The newest first; `before` is the last id of the previous page."""
    older = " WHERE id < :before" if before is not None else ""
    statement = f"SELECT {COLUMNS} FROM mayfly_cycles{older} ORDER BY id DESC LIMIT :size"
    return [_cycle(row) for row in connection.execute(statement, {"before": before, "size": size}).all()]


def list_hosts(connection: Connection, now: datetime) -> list[HostView]:
    """Every host with a cycle in the last day; the id of a cycle is the millisecond in which it began."""
    last = connection.execute(LAST, {"since": milliseconds(now - DAY)}).scalars()
    if not last:
        return []
    found = connection.execute(f"SELECT {COLUMNS} FROM mayfly_cycles WHERE {{ids of id}}", ids=last).all()
    views = [_cycle(row) for row in found]
    return [
        HostView(each.host, each, max(0.0, (now - each.started_at).total_seconds()))
        for each in sorted(views, key=lambda view: view.host)
    ]


def _cycle(row: Any) -> CycleView:
    return CycleView(**read_row(CycleView._fields, row))


MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
FOLLOWING = "SELECT started_at FROM mayfly_cycles WHERE id >= :before AND host = :host ORDER BY id LIMIT 1"
SINCE = "SELECT host, started_at, duration_ms FROM mayfly_cycles WHERE id >= :since ORDER BY id"


class Gap(NamedTuple):
    """Minutes in which a host should have begun a cycle and did not."""

    host: str
    after: datetime  # when its previous cycle began
    until: datetime  # when its next one began, or now
    minutes: int

    @property
    def text(self) -> str:
        missed = "1 minute was" if self.minutes == 1 else f"{self.minutes:,} minutes were"
        return f"{missed} missed on {self.host}: no cycle began for {format_duration(self.until - self.after)}"

    def facts(self) -> dict[str, Any]:
        between = {"after": isoformat(self.after), "until": isoformat(self.until)}
        return {"host": self.host, "missed_minutes": self.minutes, **between}


class CyclesByMinute(NamedTuple):
    """A page of cycles, the newest first, with the gaps between them."""

    rows: tuple[CycleView | Gap, ...]
    next: int | None  # the last cycle of this page, if there are more

    def facts(self) -> dict[str, Any]:
        return {"rows": [each.facts() for each in self.rows], "next": self.next}


class Regularity(NamedTuple):
    """Missed and overlong cycles of a host in the last hour."""

    missed: int = 0
    overruns: int = 0


def missed_between(one: datetime, other: datetime) -> int:
    """Cycles missing between two; cron may be late by some seconds."""
    return max(0, round((other - one) / MINUTE) - 1)


def is_overrun(cycle: CycleView, now: datetime) -> bool:
    """It took longer than a minute, or has been running for longer, or never ended."""
    return _took(cycle.started_at, cycle.duration_ms, now) > MINUTE


def _took(started_at: datetime, duration_ms: int | None, now: datetime) -> timedelta:
    return now - started_at if duration_ms is None else timedelta(milliseconds=duration_ms)


def list_minutes(connection: Connection, now: datetime, size: int = 60, before: int | None = None) -> CyclesByMinute:
    """`before` is the `next` of the previous page. A gap until now comes first."""
    found = list_cycles(connection, size + 1, before)
    page = found[:size]
    following = {each.host: now for each in list_hosts(connection, now)}
    if before is not None:
        following |= _following(connection, {each.host for each in page}, before)
    return CyclesByMinute(tuple(with_gaps(page, following)), page[-1].id if len(found) > size else None)


def _following(connection: Connection, hosts: Collection[str], before: int) -> dict[str, datetime]:
    """When each of these hosts had its next cycle, on the previous page."""
    found = ((host, connection.execute(FOLLOWING, {"before": before, "host": host}).scalar()) for host in hosts)
    return {host: utc_from_driver(at) for host, at in found if at is not None}


def with_gaps(cycles: Sequence[CycleView], following: Mapping[str, datetime]) -> Iterator[CycleView | Gap]:
    """Cycles, the newest first, each after the gap between it and its host's next one. Pure."""
    next_at = dict(following)
    for each in cycles:
        until = next_at.get(each.host, each.started_at)
        if missed := missed_between(each.started_at, until):
            yield Gap(each.host, each.started_at, until, missed)
        next_at[each.host] = each.started_at
        yield each


def read_regularity(connection: Connection, now: datetime) -> dict[str, Regularity]:
    """Of each host with a cycle in the last hour."""
    found: dict[str, Regularity] = {}
    last: dict[str, datetime] = {}
    for host, started_at, duration_ms in connection.execute(SINCE, {"since": milliseconds(now - HOUR)}).all():
        at, known = utc_from_driver(started_at), found.get(host, Regularity())
        missed = missed_between(last.get(host, at), at)
        found[host] = Regularity(known.missed + missed, known.overruns + (_took(at, duration_ms, now) > MINUTE))
        last[host] = at
    return {host: each._replace(missed=each.missed + missed_between(last[host], now)) for host, each in found.items()}


class RunnerView(NamedTuple):
    worker_id: str
    cycle_id: int
    lane: str
    host: str
    pid: int
    planned_at: datetime
    heartbeat_at: datetime | None
    lease_until: datetime
    finished_at: datetime | None
    ending: str | None
    exit_code: int | None
    signal: int | None
    jobs_done: int
    jobs_failed: int
    average_ms: float | None
    peak_memory: int | None
    cpu_ms: int | None

    def facts(self) -> dict[str, Any]:
        return facts_of(self)


NAMES = ", ".join(f"r.{name}" for name in RunnerView._fields)  # SIGNAL is a keyword in MySQL

# The order of the index.
BEFORE = "r.finished_at < :at OR r.lane < :lane OR (r.lane = :lane AND r.worker_id < :after)"


def runners_named(connection: Connection, names: Sequence[str]) -> dict[str, RunnerView]:
    """By id, those whose rows are still kept."""
    if not names:
        return {}
    values = {f"name_{number}": name for number, name in enumerate(sorted(set(names)))}
    among = ", ".join(f":{each}" for each in values)
    rows = connection.execute(f"SELECT {NAMES} FROM mayfly_runners AS r WHERE r.worker_id IN ({among})", values)
    views = (RunnerView(**read_row(RunnerView._fields, row)) for row in rows.all())
    return {each.worker_id: each for each in views}


def list_runners(connection: Connection, size: int = 50, live_only: bool = False) -> list[RunnerView]:
    """Live runners, then the newest that ended."""
    select = f"SELECT {NAMES} FROM mayfly_runners AS r WHERE r.finished_at"
    rows = connection.execute(f"{select} IS NULL ORDER BY r.worker_id LIMIT :size", {"size": size}).all()
    if not live_only and len(rows) < size:
        ended = f"{select} IS NOT NULL ORDER BY r.finished_at DESC LIMIT :size"
        rows = [*rows, *connection.execute(ended, {"size": size - len(rows)}).all()]
    return [RunnerView(**read_row(RunnerView._fields, row)) for row in rows]


def list_ended(connection: Connection, size: int = 50, after: str | None = None) -> list[RunnerView]:
    """The newest first; `after` is the last of the previous page, if its row is still kept."""
    values: dict[str, Any] = {"size": size}
    if after is not None and (last := runners_named(connection, [after]).get(after)) and last.finished_at:
        values |= {"at": last.finished_at, "lane": last.lane, "after": after}
    rows = connection.execute(ended_statement(is_first="at" not in values), values).all()
    return [RunnerView(**read_row(RunnerView._fields, row)) for row in rows]


def ended_statement(is_first: bool) -> str:
    older = "" if is_first else f" AND r.finished_at <= :at AND ({BEFORE})"
    select = f"SELECT {NAMES} FROM mayfly_runners AS r WHERE r.finished_at IS NOT NULL{older}"
    return f"{select} ORDER BY r.finished_at DESC, r.lane DESC, r.worker_id DESC LIMIT :size"
