"""Fire schedules: decide which due times become jobs, insert these, and record how far each schedule was handled.

`decide` is pure. `fire_due` applies its decisions in one transaction that locks the rows of the schedules, so that of
several hosts only one fires each due time.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice, takewhile
from typing import Any

from mayfly import json_text
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.db.dialects import utc_from_driver
from mayfly.queue.insert import NewJob, insert_jobs
from mayfly.queue.options import JobValidator
from mayfly.schedules.cron import due_times, last_due, next_due
from mayfly.schedules.parse import ScheduleEntry
from mayfly.schema.tables import SCHEDULED

ON_TIME = timedelta(seconds=90)  # one cycle per minute, of which one may be skipped or slow
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
        """Due times up to here are not fired any more, those of a pause that has ended included."""
        if self.paused_until is None or self.paused_until > now:
            return self.dealt_until
        return max(self.dealt_until, self.paused_until - timedelta.resolution)


@dataclass(frozen=True)
class Decision:
    """What this cycle does with one schedule."""

    entry: ScheduleEntry
    dealt_until: datetime
    due: tuple[datetime, ...] = ()  # these become jobs
    skipped: tuple[datetime, datetime] | None = None  # the first and the last of those that do not
    because: str = ""


@dataclass(frozen=True)
class Skipped:
    """Due times that became no job, from the first to the last, and why."""

    entry: ScheduleEntry
    first: datetime
    last: datetime
    because: str


@dataclass(frozen=True)
class Fired:
    """What a cycle did with its schedules."""

    jobs: tuple[tuple[ScheduleEntry, datetime], ...] = ()
    skipped: tuple[Skipped, ...] = ()
    next_at: datetime | None = None  # when a schedule is due again


# --- fire -------------------------------------------------------------------------------------------------


def fire_due(database: Database, entries: Sequence[ScheduleEntry], validator: JobValidator) -> Fired:
    """While nothing is due, nothing is written and no lock is taken."""
    now = database.clock.now()
    known = _load_or_add(database, entries, now)
    checks: dict[ScheduleEntry, datetime | None] = {
        each: needs_check_at(each, known[each.name], now) for each in entries
    }
    due = [entry for entry, at in checks.items() if at is not None and at <= now]
    if not due:
        return Fired(next_at=_earliest(checks.values()))
    firing = database.run(lambda connection: _fire(connection, due, validator, now))
    checks |= dict.fromkeys(due, None)
    return Fired(tuple(firing.jobs), tuple(firing.skipped), _earliest([*checks.values(), *firing.next_checks]))


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
) -> "_Firing":
    known = lock_known(connection, [each.name for each in entries])
    decisions = decide_all(entries, known, now)  # none for a schedule that another host has just fired
    firing = _Firing(validator)
    for each in decisions:
        firing.fire(connection, each)
    firing.insert_overlapping(connection)
    last = {entry.name: due for entry, due in firing.jobs}
    before = {each.entry.name: known[each.entry.name].last_due_at for each in decisions}
    write_progress(connection, decisions, {**before, **last})
    handled = {each.entry: each for each in decisions}
    firing.next_checks = [next_check_at(handled.get(each, Decision(each, now)), now) for each in entries]
    return firing


@dataclass
class _Firing:
    """What one transaction does; a repeated transaction starts with a new one."""

    validator: JobValidator
    jobs: list[tuple[ScheduleEntry, datetime]] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    next_checks: list[datetime | None] = field(default_factory=list)

    def fire(self, connection: Connection, decision: Decision) -> None:
        entry = decision.entry
        if decision.skipped is not None:
            self.skipped.append(Skipped(entry, *decision.skipped, decision.because))
        if entry.overlap == "skip" and decision.due:
            self._fire_first(connection, entry, decision.due)
        else:
            self.jobs += [(entry, due) for due in decision.due]

    def _fire_first(self, connection: Connection, entry: ScheduleEntry, due: Sequence[datetime]) -> None:
        """With overlap=skip the first due time excludes all others, unless an earlier job excludes it."""
        fired = insert_jobs(connection, [new_job(self.validator, entry, due[0])])
        self.jobs += [(entry, each) for each in due[:fired]]
        if due[fired:]:
            self.skipped.append(Skipped(entry, due[fired], due[-1], "overlap=skip: the job before it is unfinished"))

    def insert_overlapping(self, connection: Connection) -> None:
        """Jobs of schedules with overlap=allow, all in one statement."""
        new = [new_job(self.validator, entry, due) for entry, due in self.jobs if entry.overlap == "allow"]
        insert_jobs(connection, new)


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
    is_new = known.rule != entry.rule  # an edited rule must not fire for the time before the edit
    after = max(known.handled_until(now), counts_from(entry, now)) if is_new else known.handled_until(now)
    first = _next(entry, after)
    if first is None or first > now:
        return Decision(entry, after) if is_new else None
    last = last_due(entry.expression, entry.zone, after, now) or first
    if known.is_paused(now):
        return Decision(entry, last, skipped=(first, last), because=_paused(known))
    if entry.catch_up == "all":
        due = _due_between(entry, after, now)
        return Decision(entry, due[-1], due)
    if entry.catch_up == "none" and now - last > ON_TIME:
        return Decision(entry, last, skipped=(first, last), because="catch_up=none")
    if first == last:
        return Decision(entry, last, (last,))
    before = last_due(entry.expression, entry.zone, first - timedelta.resolution, last - timedelta.resolution)
    return Decision(entry, last, (last,), (first, before or first), f"catch_up={entry.catch_up}")


def decide_all(entries: Iterable[ScheduleEntry], known: Mapping[str, KnownSchedule], now: datetime) -> list[Decision]:
    """Of the entries that have a row."""
    found = (decide(each, known[each.name], now) for each in entries if each.name in known)
    return [each for each in found if each is not None]


def counts_from(entry: ScheduleEntry, now: datetime) -> datetime:
    """From when a new rule counts: when its file was written, but not for times that are already late."""
    return min(now, max(entry.written_at or now, now - ON_TIME))


def needs_check_at(entry: ScheduleEntry, known: KnownSchedule, now: datetime) -> datetime | None:
    """When `decide` has something to decide: now, or the next due time."""
    return now if known.rule != entry.rule else _next(entry, known.handled_until(now))


def next_check_at(decision: Decision, now: datetime) -> datetime | None:
    """The same after a decision; in the past if there is more to catch up with."""
    return _next(decision.entry, min(now, decision.dealt_until))


def _due_between(entry: ScheduleEntry, after: datetime, until: datetime) -> tuple[datetime, ...]:
    times = islice(due_times(entry.expression, entry.zone, after), MAX_JOBS_PER_FIRING)
    return tuple(takewhile(lambda at: at <= until, times))


def _next(entry: ScheduleEntry, after: datetime) -> datetime | None:
    return next(iter(next_due(entry.expression, entry.zone, after)), None)


def _paused(known: KnownSchedule) -> str:
    return f"paused: {known.pause_reason}" if known.pause_reason else "paused"


# --- the table mayfly_schedules ---------------------------------------------------------------------------


def load_known(connection: Connection) -> dict[str, KnownSchedule]:
    return {name: _known(*row) for name, *row in connection.execute(KNOWN_SCHEDULES).all()}


def lock_known(connection: Connection, names: Collection[str]) -> dict[str, KnownSchedule]:
    """The rows of these, locked until the end of the transaction.

    Locked in one order on all hosts, and without SKIP LOCKED: a skipped row would be a due time that never fires.
    """
    values = {f"name_{number}": name for number, name in enumerate(sorted(names))}
    listed = ", ".join(f":{each}" for each in values)
    locking = f"{KNOWN_SCHEDULES} WHERE name IN ({listed}) ORDER BY name{connection.dialect.row_lock}"
    return {name: _known(*row) for name, *row in connection.execute(locking, values).all()}


def add_new(connection: Connection, entries: Sequence[ScheduleEntry], now: datetime) -> None:
    """A new schedule has no past. A row that another host has added in the meantime stays as it is."""
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
    """True if it was paused. Due times of the pause are not made up for."""
    values = {**dict.fromkeys(_PAUSE), "dealt_until": now}
    resuming = f"{_update(connection, values)} AND paused_at IS NOT NULL"
    return connection.execute(resuming, {**values, "own_name": name}).rowcount == 1


def _update(connection: Connection, columns: Collection[str]) -> str:
    return f"UPDATE mayfly_schedules SET {connection.dialect.assignments(columns)} WHERE name = :own_name"


def _known(rule: str, *rest: Any) -> KnownSchedule:
    *times, paused_by, pause_reason = rest
    dealt_until, last_due_at, paused_at, paused_until = (each and utc_from_driver(each) for each in times)
    return KnownSchedule(rule, dealt_until, last_due_at, paused_at, paused_until, paused_by, pause_reason)
