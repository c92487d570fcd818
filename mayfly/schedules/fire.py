"""Fire schedules: decide which due times become jobs, insert them, and record up to when each schedule was handled.

`decide` is pure. `fire_due` applies its decisions in one transaction that locks the rows of the schedules, so that of
several hosts only one fires each due time.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice, takewhile
from typing import Any

from mayfly import json_text
from mayfly.db.connection import Connection, numbered_parameters, placeholders
from mayfly.db.database import Database
from mayfly.db.dialects import utc_from_driver
from mayfly.queue.insert import NewJob, insert_jobs
from mayfly.queue.options import JobValidator
from mayfly.schedules.cron import due_times, last_due, next_due
from mayfly.schedules.parse import ScheduleEntry
from mayfly.schema.tables import SCHEDULED

ON_TIME = timedelta(seconds=90)  # there is one cycle per minute, and one may be skipped or slow
MAX_JOBS_PER_FIRING = 1000  # of one schedule in one cycle; with catch_up=all the rest follows in the next cycles

KNOWN_SCHEDULES = (
    "SELECT name, rule, dealt_until, last_due_at, paused_at, paused_until, paused_by, pause_reason"
    " FROM mayfly_schedules"
)
_PAUSE = ("paused_at", "paused_until", "paused_by", "pause_reason")

# --- values -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class KnownSchedule:
    """The row of a schedule in mayfly_schedules."""

    rule: str
    dealt_until: datetime  # every due time up to here was handled
    last_due_at: datetime | None = None  # the last one that became a job
    paused_at: datetime | None = None
    paused_until: datetime | None = None
    paused_by: str | None = None
    pause_reason: str | None = None

    def is_paused(self, now: datetime) -> bool:
        return self.paused_at is not None and (self.paused_until is None or now < self.paused_until)

    def handled_until(self, now: datetime) -> datetime:
        """Due times up to here are not fired any more. Includes a pause that has ended."""
        if self.paused_until is None or self.paused_until > now:
            return self.dealt_until
        return max(self.dealt_until, self.paused_until - timedelta.resolution)


@dataclass(frozen=True)
class Skipped:
    """Due times that became no job, from the first to the last, and why."""

    entry: ScheduleEntry
    first: datetime
    last: datetime
    because: str


@dataclass(frozen=True)
class Decision:
    """What this cycle does with one schedule."""

    entry: ScheduleEntry
    dealt_until: datetime
    due: tuple[datetime, ...] = ()  # these become jobs
    skipped: Skipped | None = None


@dataclass(frozen=True)
class Fired:
    """What a cycle did with its schedules."""

    jobs: tuple[tuple[ScheduleEntry, datetime], ...] = ()
    skipped: tuple[Skipped, ...] = ()
    next_at: datetime | None = None  # when a schedule is due again


# --- fire -------------------------------------------------------------------------------------------------


def fire_due(database: Database, entries: Sequence[ScheduleEntry], validator: JobValidator) -> Fired:
    """Writes nothing and takes no lock while nothing is due."""
    now = database.clock.now()
    known = _load_or_add(database, entries, now)
    checks: dict[ScheduleEntry, datetime | None] = {
        each: now if known[each.name].rule != each.rule else _next(each, known[each.name].handled_until(now))
        for each in entries
    }
    due = [entry for entry, at in checks.items() if at is not None and at <= now]
    if not due:
        return Fired(next_at=_earliest(checks.values()))
    fired, later = database.run(lambda connection: _fire(connection, due, validator, now))
    checks |= dict.fromkeys(due, None)
    return replace(fired, next_at=_earliest([*checks.values(), *later]))


def _load_or_add(database: Database, entries: Sequence[ScheduleEntry], now: datetime) -> Mapping[str, KnownSchedule]:
    """New schedules get a row first: without one they could not be locked."""
    known = database.read(load_known)
    new = [each for each in entries if each.name not in known]
    if not new:
        return known
    database.run(lambda connection: add_new(connection, new, now))
    return database.read(load_known)


def _fire(
    connection: Connection, entries: Sequence[ScheduleEntry], validator: JobValidator, now: datetime
) -> tuple[Fired, list[datetime | None]]:
    """Returns also the times at which these schedules must be checked again."""
    known = lock_known(connection, [each.name for each in entries])
    decisions = decide_all(entries, known, now)  # none for a schedule that another host has just fired
    jobs: list[tuple[ScheduleEntry, datetime]] = []
    skipped: list[Skipped] = []
    for each in decisions:
        skipped += [each.skipped] if each.skipped else []
        fired = _fire_first(connection, validator, each) if each.entry.overlap == "skip" else len(each.due)
        jobs += [(each.entry, due) for due in each.due[:fired]]
        if rest := each.due[fired:]:
            skipped.append(Skipped(each.entry, rest[0], rest[-1], "overlap=skip: the job before it is unfinished"))
    insert_jobs(connection, [new_job(validator, *each) for each in jobs if each[0].overlap == "allow"])
    before = {each.entry.name: known[each.entry.name].last_due_at for each in decisions}
    write_progress(connection, decisions, {**before, **{entry.name: due for entry, due in jobs}})
    until = {each.entry: each.dealt_until for each in decisions}
    later = [_next(each, min(now, until.get(each, now))) for each in entries]  # in the past: more to catch up with
    return Fired(tuple(jobs), tuple(skipped)), later


def _fire_first(connection: Connection, validator: JobValidator, decision: Decision) -> int:
    """For overlap=skip: only the first due time becomes a job, and only if no earlier job is unfinished: 0 or 1."""
    return insert_jobs(connection, [new_job(validator, decision.entry, each) for each in decision.due[:1]])


def new_job(validator: JobValidator, entry: ScheduleEntry, due: datetime) -> NewJob:
    """The job of one due time. Its unique key allows one unfinished job per schedule, or one per due time."""
    payload = json_text.decode(entry.payload) if entry.command is None else {"schedule": entry.name}
    key = f"{SCHEDULED}{entry.name}"
    return validator.validate(
        entry.type,
        payload,
        lane=entry.lane,
        run_at=due + (jitter_of(entry, due) if entry.jitter else timedelta(0)),
        unique_key=key if entry.overlap == "skip" else f"{key}:{due.isoformat()}",
        group_key=key,
        max_attempts=entry.max_attempts,
    )


def jitter_of(entry: ScheduleEntry, due: datetime) -> timedelta:
    """Pseudo-random, but the same on every host."""
    digest = hashlib.sha256(f"{entry.name} {due.isoformat()}".encode()).digest()
    return timedelta(seconds=entry.jitter) * (int.from_bytes(digest[:4]) / 2**32)


def _earliest(times: Iterable[datetime | None]) -> datetime | None:
    return min((each for each in times if each is not None), default=None)


# --- decide: pure -----------------------------------------------------------------------------------------


def decide(entry: ScheduleEntry, known: KnownSchedule, now: datetime) -> Decision | None:
    """None if there is nothing to do and nothing to write."""
    is_new = known.rule != entry.rule  # an edited rule must not fire for times before the edit
    after = max(known.handled_until(now), counts_from(entry, now)) if is_new else known.handled_until(now)
    first = _next(entry, after)
    if first is None or first > now:
        return Decision(entry, after) if is_new else None
    last = last_due(entry.expression, entry.zone, after, now) or first
    if known.is_paused(now):
        because = f"paused: {known.pause_reason}" if known.pause_reason else "paused"
        return Decision(entry, last, skipped=Skipped(entry, first, last, because))
    if entry.catch_up == "all":
        times = islice(due_times(entry.expression, entry.zone, after), MAX_JOBS_PER_FIRING)
        due = tuple(takewhile(lambda at: at <= now, times))
        return Decision(entry, due[-1], due)
    if entry.catch_up == "none" and now - last > ON_TIME:
        return Decision(entry, last, skipped=Skipped(entry, first, last, "catch_up=none"))
    if first == last:
        return Decision(entry, last, (last,))
    before = last_due(entry.expression, entry.zone, first - timedelta.resolution, last - timedelta.resolution)
    return Decision(entry, last, (last,), Skipped(entry, first, before or first, f"catch_up={entry.catch_up}"))


def decide_all(entries: Iterable[ScheduleEntry], known: Mapping[str, KnownSchedule], now: datetime) -> list[Decision]:
    """For the entries that have a row."""
    found = (decide(each, known[each.name], now) for each in entries if each.name in known)
    return [each for each in found if each is not None]


def counts_from(entry: ScheduleEntry, now: datetime) -> datetime:
    """From when a new rule applies: since its file was written, but not for due times that are late already."""
    return min(now, max(entry.written_at or now, now - ON_TIME))


def _next(entry: ScheduleEntry, after: datetime) -> datetime | None:
    return next(iter(next_due(entry.expression, entry.zone, after)), None)


# --- the table mayfly_schedules ---------------------------------------------------------------------------


def load_known(connection: Connection) -> dict[str, KnownSchedule]:
    return {name: _known(*row) for name, *row in connection.execute(KNOWN_SCHEDULES).all()}


def lock_known(connection: Connection, names: Collection[str]) -> dict[str, KnownSchedule]:
    """The rows of these schedules, locked until the end of the transaction.

    Locked in one order on all hosts, and without SKIP LOCKED: a skipped row would be a due time that never fires.
    """
    values = numbered_parameters(sorted(names), "name")
    locking = f"{KNOWN_SCHEDULES} WHERE name IN ({placeholders(values)}) ORDER BY name{connection.dialect.row_lock}"
    return {name: _known(*row) for name, *row in connection.execute(locking, values).all()}


def add_new(connection: Connection, entries: Sequence[ScheduleEntry], now: datetime) -> None:
    """Earlier due times of a new schedule do not fire. A row that another host has added meanwhile is not changed."""
    rows = [{"name": each.name, "rule": each.rule, "dealt_until": counts_from(each, now)} for each in entries]
    if rows:
        connection.execute_many(connection.dialect.insert_missing("mayfly_schedules", ("name",), rows[0]), rows)


def write_progress(
    connection: Connection, decisions: Sequence[Decision], last_due_at: Mapping[str, datetime | None]
) -> None:
    rows = [
        {"name": each.entry.name, "rule": each.entry.rule, "dealt_until": each.dealt_until,
         "last_due_at": last_due_at[each.entry.name]}
        for each in decisions
    ]  # fmt: skip
    if rows:
        connection.execute_many(connection.dialect.upsert("mayfly_schedules", ("name",), rows[0]), rows)


def pause(
    connection: Connection, entry: ScheduleEntry, now: datetime, until: datetime | None, by: str, reason: str | None
) -> None:
    add_new(connection, [entry], now)
    values = dict(zip(_PAUSE, (now, until, by, reason), strict=True))
    connection.execute(_update(connection, values), {**values, "own_name": entry.name})


def resume(connection: Connection, name: str, now: datetime) -> bool:
    """True if it was paused. Due times during the pause are skipped."""
    values = {**dict.fromkeys(_PAUSE), "dealt_until": now}
    resuming = f"{_update(connection, values)} AND paused_at IS NOT NULL"
    return connection.execute(resuming, {**values, "own_name": name}).rowcount == 1


def _update(connection: Connection, columns: Collection[str]) -> str:
    return f"UPDATE mayfly_schedules SET {connection.dialect.assignments(columns)} WHERE name = :own_name"


def _known(rule: str, *rest: Any) -> KnownSchedule:
    *times, paused_by, pause_reason = rest
    dealt_until, last_due_at, paused_at, paused_until = (each and utc_from_driver(each) for each in times)
    return KnownSchedule(rule, dealt_until, last_due_at, paused_at, paused_until, paused_by, pause_reason)
