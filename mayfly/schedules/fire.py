"""Turn what is due into jobs: each due time of a schedule once, whichever host comes first.

How far a schedule was dealt with is read under a lock and moved on in the transaction that inserts its jobs. A host
that comes second finds nothing due any more, and says nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from mayfly import jsontext
from mayfly.connection import Connection
from mayfly.engine import Database
from mayfly.jobs.enqueue import Door, NewJob, insert_jobs
from mayfly.schedules.decide import Decision, Known, decide, jitter_of, needs_look_at, next_look_at
from mayfly.schedules.entry import Entry
from mayfly.schedules.store import Progress, add_new, load_known, lock_known, write_progress
from mayfly.schema import JOBS, SCHEDULED


@dataclass(frozen=True)
class Skipped:
    """Due times that became no job, from the first to the last, and why."""

    entry: Entry
    first: datetime
    last: datetime
    because: str


@dataclass(frozen=True)
class Fired:
    """What a cycle did about its schedules."""

    jobs: tuple[tuple[Entry, datetime], ...] = ()
    skipped: tuple[Skipped, ...] = ()
    next_at: datetime | None = None  # when something is due again


@dataclass
class _Firing:
    """One transaction's worth of it; a repeated one starts with a new."""

    door: Door
    jobs: list[tuple[Entry, datetime]] = field(default_factory=list)
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

    def _fire_first(self, connection: Connection, entry: Entry, due: Sequence[datetime]) -> None:
        """The first is in the way of all others, if it is not itself kept out by a job before it."""
        fired = insert_jobs(connection, JOBS, [new_job(self.door, entry, due[0])])
        self.jobs += [(entry, each) for each in due[:fired]]
        if due[fired:]:
            self.skipped.append(Skipped(entry, due[fired], due[-1], "overlap=skip: the job before it is unfinished"))

    def insert_plain(self, connection: Connection) -> None:
        """Those that may overlap, all in one statement."""
        plain = [new_job(self.door, entry, due) for entry, due in self.jobs if entry.overlap == "allow"]
        insert_jobs(connection, JOBS, plain)


def decide_all(entries: Iterable[Entry], known: Mapping[str, Known], now: datetime) -> list[Decision]:
    """Of those that the table knows."""
    found = (decide(each, known[each.name], now) for each in entries if each.name in known)
    return [each for each in found if each is not None]


def fire_due(database: Database, entries: Sequence[Entry], door: Door) -> Fired:
    """Nothing is written, and no lock taken, while nothing is due."""
    now = database.clock.now()
    known = _all_known(database, entries, now)
    looks: dict[Entry, datetime | None] = {each: needs_look_at(each, known[each.name], now) for each in entries}
    waiting = [entry for entry, at in looks.items() if at is not None and at <= now]
    if not waiting:
        return Fired(next_at=_earliest(looks.values()))
    firing = database.run(lambda connection: _fire(connection, waiting, door, now))
    looks |= dict.fromkeys(waiting, None)
    return Fired(tuple(firing.jobs), tuple(firing.skipped), _earliest([*looks.values(), *firing.next_looks]))


def _all_known(database: Database, entries: Sequence[Entry], now: datetime) -> Mapping[str, Known]:
    """New ones are written down first: what has no row yet cannot be locked."""
    known = database.read(load_known)
    new = [each for each in entries if each.name not in known]
    if not new:
        return known
    database.run(lambda connection: add_new(connection, new, now))
    return database.read(load_known)


def _fire(connection: Connection, entries: Sequence[Entry], door: Door, now: datetime) -> _Firing:
    known = lock_known(connection, [each.name for each in entries])
    decisions = decide_all(entries, known, now)  # where somebody else was first, there is none
    firing = _Firing(door)
    for each in decisions:
        firing.fire(connection, each)
    firing.insert_plain(connection)
    last = {entry.name: due for entry, due in firing.jobs}
    write_progress(
        connection,
        [
            Progress(each.entry, each.dealt_until, last.get(each.entry.name, known[each.entry.name].last_due_at))
            for each in decisions
        ],
    )
    dealt = {each.entry: each for each in decisions}
    firing.next_looks = [next_look_at(dealt.get(each, Decision(each, now)), now) for each in entries]
    return firing


def _earliest(times: Iterable[datetime | None]) -> datetime | None:
    return min((each for each in times if each is not None), default=None)


def new_job(door: Door, entry: Entry, due: datetime) -> NewJob:
    """The job of one due time. Its keys: one unfinished job of a schedule at a time, or one for each due time."""
    payload = jsontext.decode(entry.payload) if entry.command is None else {"schedule": entry.name}
    each = f"{SCHEDULED}{entry.name}"
    return door.admit(
        entry.type,
        payload,
        None,
        lane=entry.lane,
        run_at=due + (jitter_of(entry, due) if entry.jitter else timedelta(0)),
        unique_key=each if entry.overlap == "skip" else f"{each}:{due.isoformat()}",
        group_key=each,
        max_attempts=entry.max_attempts,
    )
