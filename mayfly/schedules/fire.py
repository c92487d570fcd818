"""Decide which due times of a schedule become jobs, and which are left out and why. Pure: now is an argument."""

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
from mayfly.queue.insert import JobValidator, NewJob, insert_jobs
from mayfly.schedules.cron import due_times, last_due, next_due
from mayfly.schedules.parse import ScheduleEntry
from mayfly.schema.tables import SCHEDULED

ON_TIME = timedelta(seconds=90)  # a cycle a minute, one of them skipped or slow
MAX_JOBS_PER_FIRING = 1000  # of one schedule in one cycle; with catch_up=all the rest follows in the next ones


@dataclass(frozen=True)
class KnownSchedule:
    """What the table knows of a schedule."""

    rule: str
    dealt_until: datetime  # every due time up to here was dealt with
    last_due_at: datetime | None = None  # the last that became a job
    paused_at: datetime | None = None
    paused_until: datetime | None = None
    paused_by: str | None = None
    pause_reason: str | None = None

    def is_paused(self, now: datetime) -> bool:
        return self.paused_at is not None and (self.paused_until is None or now < self.paused_until)

    def open_since(self, now: datetime) -> datetime:
        """Since when due times count; those of a pause that is over do not."""
        if self.paused_until is None or self.paused_until > now:
            return self.dealt_until
        return max(self.dealt_until, self.paused_until - timedelta.resolution)


@dataclass(frozen=True)
class Decision:
    """What this cycle does about one schedule."""

    entry: ScheduleEntry
    dealt_until: datetime
    due: tuple[datetime, ...] = ()  # these become jobs
    left_out: tuple[datetime, datetime] | None = None  # the first and the last of those that do not
    because: str = ""


def since(entry: ScheduleEntry, now: datetime) -> datetime:
    """From when on a rule counts that was not there before: since it was written, but never for what is late."""
    return min(now, max(entry.written_at or now, now - ON_TIME))


def needs_check_at(entry: ScheduleEntry, known: KnownSchedule, now: datetime) -> datetime | None:
    """When there is something to decide about it: now, if that is not in the future."""
    return now if known.rule != entry.rule else _next(entry, known.open_since(now))


def decide(entry: ScheduleEntry, known: KnownSchedule, now: datetime) -> Decision | None:
    """None where there is nothing to do or to write down."""
    is_new = known.rule != entry.rule  # a rule that was just edited must not run for what it would have done
    after = max(known.open_since(now), since(entry, now)) if is_new else known.open_since(now)
    first = _next(entry, after)
    if first is None or first > now:
        return Decision(entry, after) if is_new else None
    last = last_due(entry.expression, entry.zone, after, now) or first
    if known.is_paused(now):
        return Decision(entry, last, left_out=(first, last), because=_paused(known))
    if entry.catch_up == "all":
        due = tuple(
            takewhile(
                lambda at: at <= now, islice(due_times(entry.expression, entry.zone, after), MAX_JOBS_PER_FIRING)
            )
        )
        return Decision(entry, due[-1], due)
    if entry.catch_up == "none" and now - last > ON_TIME:
        return Decision(entry, last, left_out=(first, last), because="catch_up=none")
    if first == last:
        return Decision(entry, last, (last,))
    before = last_due(entry.expression, entry.zone, first - timedelta.resolution, last - timedelta.resolution)
    return Decision(entry, last, (last,), (first, before or first), f"catch_up={entry.catch_up}")


def next_check_at(decision: Decision, now: datetime) -> datetime | None:
    """When there will be something to decide again; in the past if there is more to catch up with."""
    return _next(decision.entry, min(now, decision.dealt_until))


def jitter_of(entry: ScheduleEntry, due: datetime) -> timedelta:
    """By chance, but the same for everybody who asks."""
    digest = hashlib.sha256(f"{entry.name} {due.isoformat()}".encode()).digest()
    return timedelta(seconds=entry.jitter) * (int.from_bytes(digest[:4]) / 2**32)


def _next(entry: ScheduleEntry, after: datetime) -> datetime | None:
    return next(iter(next_due(entry.expression, entry.zone, after)), None)


def _paused(known: KnownSchedule) -> str:
    return f"paused: {known.pause_reason}" if known.pause_reason else "paused"


KNOWN_SCHEDULES = (
    "SELECT name, rule, dealt_until, last_due_at, paused_at, paused_until, paused_by, pause_reason"
    " FROM mayfly_schedules"
)
_PAUSE = ("paused_at", "paused_until", "paused_by", "pause_reason")


@dataclass(frozen=True)
class ScheduleProgress:
    """What is written after a schedule was dealt with."""

    entry: ScheduleEntry
    dealt_until: datetime
    last_due_at: datetime | None


def load_known(connection: Connection) -> dict[str, KnownSchedule]:
    return {name: _known(*row) for name, *row in connection.execute(KNOWN_SCHEDULES).all()}


def lock_known(connection: Connection, names: Collection[str]) -> dict[str, KnownSchedule]:
    """The same of some, and nobody else can deal with them before this transaction ends.

    In one order for all, and waiting: a row that is skipped would be a due time that is forgotten.
    """
    values = {f"name_{number}": name for number, name in enumerate(sorted(names))}
    listed = ", ".join(f":{each}" for each in values)
    locking = f"{KNOWN_SCHEDULES} WHERE name IN ({listed}) ORDER BY name{connection.dialect.row_lock}"
    return {name: _known(*row) for name, *row in connection.execute(locking, values).all()}


def add_new(connection: Connection, entries: Sequence[ScheduleEntry], now: datetime) -> None:
    """What is seen for the first time has no past; whoever comes second leaves it as it is."""
    rows = [{"name": each.name, "rule": each.rule, "dealt_until": since(each, now)} for each in entries]
    if rows:
        connection.execute_many(connection.dialect.insert_missing("mayfly_schedules", ("name",), rows[0]), rows)


def write_progress(connection: Connection, progress: Sequence[ScheduleProgress]) -> None:
    rows = [
        {"name": each.entry.name, "rule": each.entry.rule, "dealt_until": each.dealt_until,
         "last_due_at": each.last_due_at}
        for each in progress
    ]  # fmt: skip
    if rows:
        connection.execute_many(connection.dialect.upsert("mayfly_schedules", ("name",), rows[0]), rows)


def pause(
    connection: Connection, entry: ScheduleEntry, now: datetime, until: datetime | None, by: str, reason: str | None
) -> None:
    add_new(connection, [entry], now)
    values = dict(zip(_PAUSE, (now, until, by, reason), strict=True))
    connection.execute(_change(connection, values), {**values, "own_name": entry.name})


def resume(connection: Connection, name: str, now: datetime) -> bool:
    """True if it was paused. What was due until now is gone with the pause."""
    values = {**dict.fromkeys(_PAUSE), "dealt_until": now}
    changing = f"{_change(connection, values)} AND paused_at IS NOT NULL"
    return connection.execute(changing, {**values, "own_name": name}).rowcount == 1


def _change(connection: Connection, columns: Collection[str]) -> str:
    return f"UPDATE mayfly_schedules SET {connection.dialect.assignments(columns)} WHERE name = :own_name"


def _known(rule: str, *rest: Any) -> KnownSchedule:
    *times, paused_by, pause_reason = rest
    dealt_until, last_due_at, paused_at, paused_until = (each and utc_from_driver(each) for each in times)
    return KnownSchedule(rule, dealt_until, last_due_at, paused_at, paused_until, paused_by, pause_reason)


@dataclass(frozen=True)
class Skipped:
    """Due times that became no job, from the first to the last, and why."""

    entry: ScheduleEntry
    first: datetime
    last: datetime
    because: str


@dataclass(frozen=True)
class Fired:
    """What a cycle did about its schedules."""

    jobs: tuple[tuple[ScheduleEntry, datetime], ...] = ()
    skipped: tuple[Skipped, ...] = ()
    next_at: datetime | None = None  # when something is due again


@dataclass
class _Firing:
    """One transaction's worth of it; a repeated one starts with a new."""

    validator: JobValidator
    jobs: list[tuple[ScheduleEntry, datetime]] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    next_looks: list[datetime | None] = field(default_factory=list)

    def fire(self, connection: Connection, decision: Decision) -> None:
        entry = decision.entry
        if decision.left_out is not None:
            self.skipped.append(Skipped(entry, *decision.left_out, decision.because))
        if entry.overlap == "skip" and decision.due:
            self._fire_first(connection, entry, decision.due)
        else:
            self.jobs += [(entry, due) for due in decision.due]

    def _fire_first(self, connection: Connection, entry: ScheduleEntry, due: Sequence[datetime]) -> None:
        """The first is in the way of all others, if it is not itself kept out by a job before it."""
        fired = insert_jobs(connection, [new_job(self.validator, entry, due[0])])
        self.jobs += [(entry, each) for each in due[:fired]]
        if due[fired:]:
            self.skipped.append(Skipped(entry, due[fired], due[-1], "overlap=skip: the job before it is unfinished"))

    def insert_plain(self, connection: Connection) -> None:
        """Those that may overlap, all in one statement."""
        plain = [new_job(self.validator, entry, due) for entry, due in self.jobs if entry.overlap == "allow"]
        insert_jobs(connection, plain)


def decide_all(entries: Iterable[ScheduleEntry], known: Mapping[str, KnownSchedule], now: datetime) -> list[Decision]:
    """Of those that the table knows."""
    found = (decide(each, known[each.name], now) for each in entries if each.name in known)
    return [each for each in found if each is not None]


def fire_due(database: Database, entries: Sequence[ScheduleEntry], validator: JobValidator) -> Fired:
    """Nothing is written, and no lock taken, while nothing is due."""
    now = database.clock.now()
    known = _all_known(database, entries, now)
    looks: dict[ScheduleEntry, datetime | None] = {
        each: needs_check_at(each, known[each.name], now) for each in entries
    }
    waiting = [entry for entry, at in looks.items() if at is not None and at <= now]
    if not waiting:
        return Fired(next_at=_earliest(looks.values()))
    firing = database.run(lambda connection: _fire(connection, waiting, validator, now))
    looks |= dict.fromkeys(waiting, None)
    return Fired(tuple(firing.jobs), tuple(firing.skipped), _earliest([*looks.values(), *firing.next_looks]))


def _all_known(database: Database, entries: Sequence[ScheduleEntry], now: datetime) -> Mapping[str, KnownSchedule]:
    """New ones are written down first: what has no row yet cannot be locked."""
    known = database.read(load_known)
    new = [each for each in entries if each.name not in known]
    if not new:
        return known
    database.run(lambda connection: add_new(connection, new, now))
    return database.read(load_known)


def _fire(
    connection: Connection, entries: Sequence[ScheduleEntry], validator: JobValidator, now: datetime
) -> _Firing:
    known = lock_known(connection, [each.name for each in entries])
    decisions = decide_all(entries, known, now)  # where somebody else was first, there is none
    firing = _Firing(validator)
    for each in decisions:
        firing.fire(connection, each)
    firing.insert_plain(connection)
    last = {entry.name: due for entry, due in firing.jobs}
    write_progress(
        connection,
        [
            ScheduleProgress(
                each.entry, each.dealt_until, last.get(each.entry.name, known[each.entry.name].last_due_at)
            )
            for each in decisions
        ],
    )
    dealt = {each.entry: each for each in decisions}
    firing.next_looks = [next_check_at(dealt.get(each, Decision(each, now)), now) for each in entries]
    return firing


def _earliest(times: Iterable[datetime | None]) -> datetime | None:
    return min((each for each in times if each is not None), default=None)


def new_job(validator: JobValidator, entry: ScheduleEntry, due: datetime) -> NewJob:
    """The job of one due time. Its keys: one unfinished job of a schedule at a time, or one for each due time."""
    payload = json_text.decode(entry.payload) if entry.command is None else {"schedule": entry.name}
    each = f"{SCHEDULED}{entry.name}"
    return validator.validate(
        entry.type,
        payload,
        lane=entry.lane,
        run_at=due + (jitter_of(entry, due) if entry.jitter else timedelta(0)),
        unique_key=each if entry.overlap == "skip" else f"{each}:{due.isoformat()}",
        group_key=each,
        max_attempts=entry.max_attempts,
    )
