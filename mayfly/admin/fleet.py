"""Cycles, hosts and runners: lists, the last cycle of each host, minutes without a cycle; forget a host."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from mayfly import json_text
from mayfly.admin.auth import Actor, AuditEntry, audited
from mayfly.admin.jobs import facts_of, read_row, read_views, view_statement
from mayfly.clock import milliseconds
from mayfly.db.connection import Connection, numbered_parameters, placeholders
from mayfly.db.database import Database
from mayfly.db.dialects import utc_from_driver
from mayfly.errors import UnknownName
from mayfly.fleet.cycles import FORGOTTEN_AFTER
from mayfly.fleet.runners import JobStart, job_starts
from mayfly.format import format_duration, plural
from mayfly.monitoring.redact import Redactor
from mayfly.stats.history import forget_cycles

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


class HostView(NamedTuple):
    """The last cycle of a host, and how long ago it began."""

    host: str
    last: CycleView
    age_seconds: float

    @property
    def is_stale(self) -> bool:
        return self.age_seconds > STALE_AFTER.total_seconds()


LAST = "SELECT MAX(id) FROM mayfly_cycles WHERE id >= :since GROUP BY host"


def list_cycles(connection: Connection, size: int = 20, before: int | None = None) -> list[CycleView]:
    """The newest first; `before` is the last id of the previous page."""
    older = " WHERE id < :before" if before is not None else ""
    source = f"mayfly_cycles{older} ORDER BY id DESC LIMIT :size"
    return read_views(connection, CycleView, source, {"before": before, "size": size})


KNOWN = "mayfly_cycles WHERE {ids of id} AND forgotten_at IS NULL"


def list_hosts(connection: Connection, now: datetime) -> list[HostView]:
    """Hosts with a cycle in the last day, since they were forgotten. A cycle's id is its start in milliseconds."""
    last = connection.execute(LAST, {"since": milliseconds(now - FORGOTTEN_AFTER)}).scalars()
    views = read_views(connection, CycleView, KNOWN, ids=last) if last else []
    return [
        HostView(each.host, each, max(0.0, (now - each.started_at).total_seconds()))
        for each in sorted(views, key=lambda view: view.host)
    ]


def forget_host(database: Database, name: str, actor: Actor) -> None:
    """Its next cycle, if there is one, makes it known again."""
    now = database.clock.now()
    known = {each.host for each in database.read(lambda connection: list_hosts(connection, now))}
    if name not in known:
        raise UnknownName("host", name, "with a cycle in the last day", known)
    entry = AuditEntry(actor, "forget host", name, now)
    audited(database, entry, lambda connection: forget_cycles(connection, name, now))


MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
FOLLOWING = "SELECT started_at FROM mayfly_cycles WHERE id >= :before AND host = :host ORDER BY id LIMIT 1"
SINCE = "SELECT host, started_at, duration_ms FROM mayfly_cycles WHERE id >= :since ORDER BY id"


class Gap(NamedTuple):
    """Minutes in which a host started no cycle."""

    host: str
    after: datetime  # start of the previous cycle
    until: datetime  # start of the next cycle, or now
    missed_minutes: int

    @property
    def text(self) -> str:
        missed = plural(self.missed_minutes, "minute")
        return f"{missed} missed on {self.host}: no cycle started for {format_duration(self.until - self.after)}"


class CyclesByMinute(NamedTuple):
    """A page of cycles, the newest first, with the gaps between them."""

    rows: tuple[CycleView | Gap, ...]
    next: int | None  # the last cycle of this page, if there are more


class Regularity(NamedTuple):
    """Missed and overlong cycles of a host in the last hour."""

    missed: int = 0
    overruns: int = 0


def missed_between(one: datetime, other: datetime) -> int:
    """Number of missing cycles between two starts; cron may be late by some seconds."""
    return max(0, round((other - one) / MINUTE) - 1)


def is_overrun(cycle: CycleView, now: datetime) -> bool:
    """Whether it took longer than a minute; one without an end counts until now."""
    return _took(cycle.started_at, cycle.duration_ms, now) > MINUTE


def _took(started_at: datetime, duration_ms: int | None, now: datetime) -> timedelta:
    return now - started_at if duration_ms is None else timedelta(milliseconds=duration_ms)


def list_minutes(connection: Connection, now: datetime, size: int = 60, before: int | None = None) -> CyclesByMinute:
    """`before` is the `next` of the previous page. The first row may be a gap until now."""
    found = list_cycles(connection, size + 1, before)
    page = found[:size]
    following = {each.host: now for each in list_hosts(connection, now)}
    for host in {each.host for each in page} if before is not None else ():  # its next cycle is on the previous page
        at = connection.execute(FOLLOWING, {"before": before, "host": host}).scalar()
        following |= {} if at is None else {host: utc_from_driver(at)}
    return CyclesByMinute(tuple(with_gaps(page, following)), page[-1].id if len(found) > size else None)


def with_gaps(cycles: Sequence[CycleView], following: Mapping[str, datetime]) -> Iterator[CycleView | Gap]:
    """Cycles, the newest first, each preceded by the gap before the next cycle of its host. Pure."""
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
    uptime_ms: int | None
    launcher: str | None  # that starts it; None: a dispatcher
    external_id: str | None  # in the engine of its launcher
    log_file: str | None
    cause: str | None  # why it ended or was not started, by its engine
    earlier_lanes: tuple[str, ...]  # that it served before, at most the last 100
    running: tuple[JobStart, ...]  # jobs, according to its last figures


OUTPUT = "SELECT output FROM mayfly_runners WHERE worker_id = :worker_id"
# The order of the index.
BEFORE = "finished_at < :at OR lane < :lane OR (lane = :lane AND worker_id < :after)"


def runners_named(connection: Connection, names: Sequence[str]) -> dict[str, RunnerView]:
    """By id, those whose rows are still kept."""
    if not names:
        return {}
    values = numbered_parameters(sorted(set(names)), "name")
    source = f"mayfly_runners WHERE worker_id IN ({placeholders(values)})"
    return {each.worker_id: each for each in _read_runners(connection, source, values)}


class RunnerDetail(NamedTuple):
    runner: RunnerView
    output: str | None  # the end of what it has printed, if it failed

    def facts(self) -> dict[str, Any]:
        return {**facts_of(self.runner), "output": self.output}


def read_runner(connection: Connection, worker_id: str, fields: Sequence[str]) -> RunnerDetail:
    """With its output, in which the secrets of REDACT are masked."""
    found = runners_named(connection, [worker_id]).get(worker_id)
    if found is None:
        raise UnknownName("runner", worker_id, "among the runners that are still recorded", ())
    output = connection.execute(OUTPUT, {"worker_id": worker_id}).scalar()
    return RunnerDetail(found, Redactor(fields).text(output))


def _read_runners(connection: Connection, source: str, values: Mapping[str, Any]) -> list[RunnerView]:
    rows = connection.execute(view_statement(RunnerView, source), values).all()
    return [
        RunnerView(
            **read_row(RunnerView._fields, (*row, tuple(json_text.decode(earlier or "[]")), job_starts(running)))
        )
        for *row, earlier, running in rows
    ]


def list_runners(connection: Connection, size: int = 50, live_only: bool = False) -> list[RunnerView]:
    """Live runners, then the runners that ended last."""
    source = "mayfly_runners WHERE finished_at IS NULL ORDER BY worker_id LIMIT :size"
    live = _read_runners(connection, source, {"size": size})
    return live if live_only or len(live) == size else [*live, *list_ended(connection, size - len(live))]


def list_ended(connection: Connection, size: int = 50, after: str | None = None) -> list[RunnerView]:
    """The newest first; `after` is the last worker_id of the previous page."""
    values: dict[str, Any] = {"size": size}
    if after is not None and (last := runners_named(connection, [after]).get(after)) and last.finished_at:
        values |= {"at": last.finished_at, "lane": last.lane, "after": after}
    return _read_runners(connection, ended_source(is_first="at" not in values), values)


def ended_source(is_first: bool) -> str:
    older = "" if is_first else f" AND finished_at <= :at AND ({BEFORE})"
    where = f"finished_at IS NOT NULL{older}"
    return f"mayfly_runners WHERE {where} ORDER BY finished_at DESC, lane DESC, worker_id DESC LIMIT :size"
