"""Settle jobs: write what became of them, if they are still ours, with the history and the totals of it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from sqlalchemy import Connection, Update, insert, select, update

from mayfly import schema
from mayfly.engine import Database
from mayfly.job import Job
from mayfly.jobs.ids import among
from mayfly.jobs.settlement import Settlement, Settler
from mayfly.jobs.totals import add_to_totals, count
from mayfly.outcome import DONE, Kind, Outcome
from mayfly.schema import JobTable
from mayfly.tally import Count, Key, Tally, add

T = TypeVar("T")


@dataclass(frozen=True)
class Settled:
    settlements: tuple[Settlement, ...]  # what was written
    lost: tuple[Job, ...]  # somebody else owns these now; nothing was changed
    tally: Tally  # everything this process has counted so far


class _NotAllOurs(Exception):
    """A statement for several jobs met one that is no longer ours."""


@dataclass(frozen=True)
class Writing:
    """Outcomes ready to be written: in the transaction, while others wait for its locks, nothing is computed."""

    settler: Settler
    settlements: Sequence[Settlement]
    updates: Sequence[tuple[Update, Sequence[Settlement]]]
    now: datetime
    before: Tally  # what this process had counted before
    counted: Mapping[Key, Count] | None  # None: the totals are left to a later `count_settled`

    def write(self, connection: Connection) -> Settled:
        settled: list[Settlement] = []
        lost: list[Job] = []
        for update_, members in self.updates:
            result = connection.execute(update_)
            if result.rowcount == len(members):
                settled += members
            elif len(members) > 1:
                raise _NotAllOurs
            else:
                lost.append(members[0].job)
        if self.counted is None:
            _write_attempts(connection, self.settler.worker_id, settled, self.now)
            return Settled(tuple(settled), tuple(lost), self.before)
        if lost and not settled and self._was_written(connection, self.counted):
            # The answer to the COMMIT of a first try was lost: these are not somebody else's, they are settled.
            return Settled(tuple(self.settlements), (), add(self.before, self.counted))
        _write_attempts(connection, self.settler.worker_id, settled, self.now)
        counted = count(settled, self.now) if lost else self.counted
        return Settled(tuple(settled), tuple(lost), add_to_totals(connection, self.settler, self.before, counted))

    def _was_written(self, connection: Connection, counted: Mapping[Key, Count]) -> bool:
        """The totals tell, written in the same transaction by nobody but us: they are further than we know of."""
        c = schema.totals.c
        ours = select(c.lane, c.type, c.outcome, c.jobs).where(
            c.cycle_id == self.settler.cycle_id, c.worker_id == self.settler.counted_as
        )
        stored = {(row.lane, row.type, row.outcome): row.jobs for row in connection.execute(ours)}
        total = add(self.before, counted)
        return all(stored.get(key) == total[key].jobs for key in counted)


def settle(
    database: Database,
    jobs: JobTable,
    settler: Settler,
    settlements: Sequence[Settlement],
    tally: Tally,
    with_totals: bool = True,
) -> Settled:
    """Write the outcomes in one transaction. Jobs that are no longer ours are left alone and reported."""
    return settle_and(database, jobs, settler, settlements, tally, _nothing_else, with_totals)[0]


def settle_and(
    database: Database,
    jobs: JobTable,
    settler: Settler,
    settlements: Sequence[Settlement],
    tally: Tally,
    work: Callable[[Connection], T],
    with_totals: bool = True,
) -> tuple[Settled, T]:
    """The same, and `work` after it in the same transaction.

    With `with_totals=False` the totals are left to a later `count_settled`: a commit a job is dear enough.
    """
    now = database.clock.now()

    def run(writing: Writing) -> tuple[Settled, T]:
        return database.run(lambda connection: (writing.write(connection), work(connection)))

    try:
        return run(made_ready(jobs, settler, settlements, now, tally, with_totals=with_totals))
    except _NotAllOurs:
        return run(made_ready(jobs, settler, settlements, now, tally, with_totals=with_totals, one_by_one=True))


def made_ready(
    jobs: JobTable,
    settler: Settler,
    settlements: Sequence[Settlement],
    now: datetime,
    tally: Tally,
    *,
    with_totals: bool = True,
    one_by_one: bool = False,
) -> Writing:
    groups = [[each] for each in settlements] if one_by_one else _grouped(settlements)
    updates = [(settle_statement(jobs, settler.worker_id, members, now), members) for members in groups]
    return Writing(settler, settlements, updates, now, tally, count(settlements, now) if with_totals else None)


def _nothing_else(_connection: Connection) -> None:
    return None


def settle_statement(jobs: JobTable, worker_id: str, members: Sequence[Settlement], now: datetime) -> Update:
    """Fenced: id, worker_id, claims and the old status. One row changed means it was ours."""
    example = members[0]
    return (
        update(jobs.table)
        .where(among(jobs.table.c.id, (each.job.id for each in members)))
        .where(jobs.c.worker_id == worker_id, jobs.c.claims == example.job.claims)
        .where(jobs.c.status == jobs.processing)
        .values(changes_for(jobs, example.outcome, example.duration_ms, now))
    )


def _grouped(settlements: Sequence[Settlement]) -> Iterable[list[Settlement]]:
    """Jobs with the same token and the same outcome share a statement: a batch of fast jobs is one UPDATE."""
    groups: dict[object, list[Settlement]] = {}
    for each in settlements:
        # Most are plainly done; to hash an Outcome takes as long as all else that is done here for a job.
        outcome = None if each.outcome is DONE else each.outcome
        groups.setdefault((each.job.claims, outcome, each.duration_ms), []).append(each)
    return groups.values()


def changes_for(jobs: JobTable, outcome: Outcome, duration_ms: int | None, now: datetime) -> dict[str, Any]:
    """The columns that an outcome sets. A finished job keeps its worker_id: who ran it is worth knowing."""
    ends = {Kind.DONE: jobs.done, Kind.DEAD: jobs.dead, Kind.CANCELLED: jobs.cancelled}
    changes: dict[str, Any] = {"status": ends.get(outcome.kind, jobs.pending), "lease_until": None}
    if outcome.kind in ends:
        changes["finished_at"] = now
    else:
        changes["worker_id"] = None
        changes["locked_at"] = None
    if duration_ms is not None:
        changes["duration_ms"] = duration_ms
        changes["started_at"] = now - timedelta(milliseconds=duration_ms)
    if outcome.run_at is not None:
        changes["run_at"] = outcome.run_at
    if outcome.result is not None:
        changes["result"] = outcome.result
    if outcome.error is not None:
        changes["last_error"] = outcome.error
    if outcome.keeps_attempt:
        changes["attempts"] = jobs.c.attempts - 1
    if outcome.interrupted:
        changes["interruptions"] = jobs.c.interruptions + 1
    if outcome.crashed:
        changes["crashes"] = jobs.c.crashes + 1
    if outcome.suspect:
        changes["suspect"] = 1
    return changes


def _write_attempts(connection: Connection, worker_id: str, settled: Sequence[Settlement], now: datetime) -> None:
    rows = [
        {
            "job_id": each.job.id,
            "attempt": each.job.attempt,
            "worker_id": worker_id,
            "outcome": each.outcome.attempt_ending,
            "error": each.outcome.error or "",
            "fingerprint": each.outcome.fingerprint or "",
            "finished_at": now,
            "duration_ms": each.duration_ms,
        }
        for each in settled
        if each.outcome.attempt_ending is not None
    ]
    if rows:
        connection.execute(insert(schema.attempts), rows)
