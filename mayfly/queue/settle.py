"""Settle jobs: write what became of them, if they are still ours, with the history and the totals of it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from typing import Any, NamedTuple

from mayfly import log_messages
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.job import Job
from mayfly.log_messages import LogMessage
from mayfly.queue.batches import Completed, complete
from mayfly.queue.followups import BrokenChain, groups_to_check, run_followups
from mayfly.queue.outcome import DONE, Outcome, OutcomeKind, Settlement, Settler
from mayfly.schema.tables import CANCELLED, DEAD, PENDING
from mayfly.stats.histograms import Count, Key, Tally, add
from mayfly.stats.totals import add_to_totals, count

OWN_TOTALS = (
    "SELECT lane, type, outcome, jobs FROM mayfly_totals WHERE cycle_id = :cycle_id AND worker_id = :worker_id"
)


@dataclass(frozen=True)
class Settled:
    settlements: tuple[Settlement, ...]  # what was written
    lost: tuple[Job, ...]  # somebody else owns these now; nothing was changed
    tally: Tally  # everything this process has counted so far
    broken: tuple[BrokenChain, ...] = ()  # chains that end with these
    completed: tuple[Completed, ...] = ()  # batches that are over by it


class _NotAllOurs(Exception):
    """A statement for several jobs met one that is no longer ours."""


class Update(NamedTuple):
    """One statement, for jobs that share a token and an outcome."""

    statement: str
    values: Mapping[str, Any]
    members: Sequence[Settlement]


@dataclass(frozen=True)
class SettleTransaction:
    """Outcomes ready to be written: in the transaction, while others wait for its locks, nothing is computed."""

    settler: Settler
    settlements: Sequence[Settlement]
    updates: Sequence["Update"]
    now: datetime
    before: Tally  # what this process had counted before
    counted: Mapping[Key, Count] | None  # None: the totals are left to a later `add_to_totals`
    followed: Sequence[Settlement]  # those on which more may hang: what they enqueued, or what their group is

    @property
    def is_single(self) -> bool:
        """Whether one statement about one job is all there is to write."""
        alone = len(self.settlements) == 1 and self.counted is None and not self.followed
        return alone and self.settlements[0].outcome.attempt_ending is None

    def write(self, connection: Connection) -> Settled:
        settled: list[Settlement] = []
        lost: list[Job] = []
        for statement, values, members in self.updates:
            ids = [each.job.id for each in members] if len(members) > 1 else None
            result = connection.execute(statement, values, ids)
            if result.rowcount == len(members):
                settled += members
            elif len(members) > 1:
                raise _NotAllOurs
            else:
                lost.append(members[0].job)
        broken: tuple[BrokenChain, ...] = ()
        if self.followed:
            ours = [each for each in self.followed if each.job not in lost]
            broken = run_followups(connection, ours, self.now)
        if self.counted is None:
            done = [each for each in self.settlements if each.job in lost and self._was_done(connection, each)]
            _write_attempts(connection, self.settler.worker_id, settled, self.now)
            lost = [job for job in lost if all(job is not each.job for each in done)]
            return Settled((*settled, *done), tuple(lost), self.before, broken)
        if lost and not settled and self._was_written(connection, self.counted):
            # The answer to the COMMIT of a first try was lost: these are not somebody else's, they are settled.
            return Settled(tuple(self.settlements), (), add(self.before, self.counted))
        _write_attempts(connection, self.settler.worker_id, settled, self.now)
        counted = count(settled, self.now) if lost else self.counted
        tally = add_to_totals(connection, self.settler, self.before, counted)
        return Settled(tuple(settled), tuple(lost), tally, broken)

    def look_after(self, database: Database, settled: Settled) -> Settled:
        """When all is committed: batches may be over by it."""
        groups = groups_to_check(self.followed)
        if not groups:
            return settled
        return replace(settled, completed=complete(database, groups, self.settler.witnesses))

    def _was_done(self, connection: Connection, settlement: Settlement) -> bool:
        """By a first try whose answer was lost: nobody but its owner says of a job that it is done."""
        job = settlement.job
        whose = {"id": job.id, "owner": self.settler.worker_id, "token": job.claims}
        fence = "id = :id AND worker_id = :owner AND claims = :token AND status = 'done'"
        look = f"SELECT id FROM mayfly_jobs WHERE {fence}"
        return settlement.outcome.kind is OutcomeKind.DONE and connection.execute(look, whose).first() is not None

    def _was_written(self, connection: Connection, counted: Mapping[Key, Count]) -> bool:
        """The totals tell, written in the same transaction by nobody but us: they are further than we know of."""
        whose = {"cycle_id": self.settler.cycle_id, "worker_id": self.settler.counted_as}
        found = connection.execute(OWN_TOTALS, whose).all()
        stored = {(lane, type_name, outcome): jobs for lane, type_name, outcome, jobs in found}
        total = add(self.before, counted)
        return all(stored.get(key) == total[key].jobs for key in counted)


def settle(
    database: Database,
    settler: Settler,
    settlements: Sequence[Settlement],
    tally: Tally,
    with_totals: bool = True,
) -> Settled:
    """Write the outcomes in one transaction. Jobs that are no longer ours are left alone and reported.

    With `with_totals=False` the totals are left to a later `add_to_totals`: a commit a job is dear enough.
    """
    now = database.clock.now()

    def write(one_by_one: bool) -> Settled:
        ready = build_update(settler, settlements, now, tally, with_totals=with_totals, one_by_one=one_by_one)
        settled = database.once(ready.write) if ready.is_single else database.run(ready.write)
        return ready.look_after(database, settled) if ready.followed else settled

    try:
        return write(one_by_one=False)
    except _NotAllOurs:
        return write(one_by_one=True)


def followup_events(settled: Settled) -> Iterator[LogMessage]:
    """For the log: what ended beside the jobs themselves."""
    for job, outcome, steps_left in settled.broken:
        yield log_messages.chain_broken(job.id, job.type, outcome.value, steps_left)
    for each in settled.completed:
        yield log_messages.batch_finished(*each)


def settle_done(database: Database, worker_id: str, settlement: Settlement) -> bool:
    """A single job that is plainly done, its totals left to later: one statement, and nothing around it.

    False if it changed no row; `settle` then finds out why.
    """
    job, _done, duration_ms = settlement
    changes = _values(DONE, duration_ms, database.clock.now())
    statement = done_statement(tuple(changes))
    values = {**changes, "owner": worker_id, "token": job.claims, "id": job.id}
    return database.once(lambda connection: connection.execute(statement, values).rowcount) == 1


@cache
def done_statement(given: tuple[str, ...]) -> str:
    return settle_statement(_Shape.of(DONE, given, alone=True))


def build_update(
    settler: Settler,
    settlements: Sequence[Settlement],
    now: datetime,
    tally: Tally,
    *,
    with_totals: bool = True,
    one_by_one: bool = False,
) -> SettleTransaction:
    groups = [[each] for each in settlements] if one_by_one else _grouped(settlements)
    updates = [settle_update(settler.worker_id, members, now) for members in groups]
    counted = count(settlements, now) if with_totals else None
    followed = [
        each
        for each in settlements
        if each.job.held is not None or (each.job.group_key is not None and each.job.awaited)
    ]
    return SettleTransaction(settler, settlements, updates, now, tally, counted, followed)


def settle_update(worker_id: str, members: Sequence[Settlement], now: datetime) -> Update:
    """Fenced: id, worker_id, claims and the old status. One row changed means it was ours."""
    job, outcome, duration_ms = members[0]
    values = _values(outcome, duration_ms, now)
    statement = settle_statement(_Shape.of(outcome, tuple(values), alone=len(members) == 1))
    return Update(statement, {**values, "owner": worker_id, "token": job.claims, "id": job.id}, members)


def _grouped(settlements: Sequence[Settlement]) -> Iterable[list[Settlement]]:
    """Jobs with the same token and the same outcome share a statement: a batch of fast jobs is one UPDATE."""
    groups: dict[object, list[Settlement]] = {}
    for each in settlements:
        # Most are plainly done; to hash an Outcome takes as long as all else that is done here for a job.
        outcome = None if each.outcome is DONE else each.outcome
        groups.setdefault((each.job.claims, outcome, each.duration_ms), []).append(each)
    return groups.values()


class _Shape(NamedTuple):
    """All of an outcome that its statement's text depends on."""

    kind: OutcomeKind
    keeps_attempt: bool
    interrupted: bool
    crashed: bool
    suspect: bool
    given: tuple[str, ...]  # columns that are set to a value
    alone: bool

    @classmethod
    def of(cls, outcome: Outcome, given: tuple[str, ...], alone: bool) -> "_Shape":
        flags = (outcome.keeps_attempt, outcome.interrupted, outcome.crashed, outcome.suspect)
        return cls(outcome.kind, *flags, given, alone)


@cache
def settle_statement(shape: _Shape) -> str:
    """One job is named by a parameter: a database that knows the statement already need not read it again."""
    changes = ", ".join(f"{name} = {value}" for name, value in _changes(shape).items())
    which = "id = :id" if shape.alone else "{ids of id}"
    fence = "worker_id = :owner AND claims = :token AND status = 'processing'"
    return f"UPDATE mayfly_jobs SET {changes} WHERE {which} AND {fence}"


def _changes(shape: _Shape) -> Mapping[str, str]:
    """The columns that an outcome sets. A finished job keeps its worker_id: who ran it is worth knowing."""
    ends = {OutcomeKind.DONE: "done", OutcomeKind.DEAD: DEAD, OutcomeKind.CANCELLED: CANCELLED}
    changes = {"status": f"'{ends.get(shape.kind, PENDING)}'", "lease_until": "NULL"}
    if shape.kind not in ends:
        changes |= {"worker_id": "NULL", "locked_at": "NULL"}
    if shape.keeps_attempt:
        changes["attempts"] = "attempts - 1"
    if shape.kind is OutcomeKind.SLICED:
        # `stalled` comes to 0 where it has moved; who ends a slice may crash as often as ever.
        changes |= {"slices": "slices + 1", "stalled": "stalled + 1", "forgiven": "0"}
    if shape.interrupted:
        changes["interruptions"] = "interruptions + 1"
    if shape.crashed:
        changes["crashes"] = "crashes + 1"
    if shape.suspect:
        changes["suspect"] = "1"
    return changes | {name: f":{name}" for name in shape.given}


def _values(outcome: Outcome, duration_ms: int | None, now: datetime) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if outcome.kind in (OutcomeKind.DONE, OutcomeKind.DEAD, OutcomeKind.CANCELLED):
        values["finished_at"] = now
    if duration_ms is not None:
        values["duration_ms"] = duration_ms
        values["started_at"] = now - timedelta(milliseconds=duration_ms)
    if outcome.run_at is not None:
        values["run_at"] = outcome.run_at
        values["waiting_for"] = outcome.waiting_for  # the two go together: see docs/decisions.md
    if outcome.result is not None:
        values["result"] = outcome.result
    if outcome.error is not None:
        values["last_error"] = outcome.error
    return values


def _write_attempts(connection: Connection, worker_id: str, settled: Sequence[Settlement], now: datetime) -> None:
    rows = [
        {
            "job_id": each.job.id,
            "attempt": each.job.attempt,
            "worker_id": worker_id,
            "outcome": each.outcome.attempt_ending.value,
            "error": each.outcome.error or "",
            "fingerprint": each.outcome.fingerprint or "",
            "finished_at": now,
            "duration_ms": each.duration_ms,
        }
        for each in settled
        if each.outcome.attempt_ending is not None
    ]
    if rows:
        connection.execute_many(connection.dialect.insert("mayfly_attempts", rows[0]), rows)
