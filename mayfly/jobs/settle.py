"""Settle jobs: write what became of them, if they are still ours, with the history and the totals of it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import Connection, Update, insert, select, update

from mayfly import dialect, schema
from mayfly.engine import Database
from mayfly.job import Job
from mayfly.jobs.ids import among
from mayfly.outcome import DONE, Kind, Outcome
from mayfly.schema import JobTable
from mayfly.tally import Count, Key, Sample, Tally, add, count_samples, histogram_text

MILLISECOND = timedelta(milliseconds=1)


class Settlement(NamedTuple):
    """A job and what became of it. A tuple, because a fast lane makes twenty thousand a second."""

    job: Job
    outcome: Outcome
    duration_ms: int | None = None  # None: its handler never started, or nobody saw it end


@dataclass(frozen=True)
class Settler:
    """Who settles: the owner named in every WHERE, and under which cycle it is counted."""

    worker_id: str
    cycle_id: int
    counted_as: str  # the writer of the totals: one process writes its own rows only


@dataclass(frozen=True)
class Settled:
    settlements: tuple[Settlement, ...]  # what was written
    lost: tuple[Job, ...]  # somebody else owns these now; nothing was changed
    tally: Tally  # everything this process has counted so far


class _NotAllOurs(Exception):
    """A statement for several jobs met one that is no longer ours."""


def settle(
    database: Database,
    jobs: JobTable,
    settler: Settler,
    settlements: Sequence[Settlement],
    tally: Tally,
    count: bool = True,
) -> Settled:
    """Write the outcomes in one transaction. Jobs that are no longer ours are left alone and reported.

    With count=False the totals are left to a later `count_settled`: a commit a job is dear enough.
    """
    now = database.clock.now()
    try:
        return database.run(lambda c: settle_on(c, jobs, settler, settlements, now, tally, count=count))
    except _NotAllOurs:
        return database.run(
            lambda c: settle_on(c, jobs, settler, settlements, now, tally, count=count, one_by_one=True)
        )


def settle_on(
    connection: Connection,
    jobs: JobTable,
    settler: Settler,
    settlements: Sequence[Settlement],
    now: datetime,
    tally: Tally,
    *,
    count: bool = True,
    one_by_one: bool = False,
) -> Settled:
    """The same on a transaction of the caller's."""
    settled: list[Settlement] = []
    lost: list[Job] = []
    for members in [[each] for each in settlements] if one_by_one else _grouped(settlements):
        result = connection.execute(settle_statement(jobs, settler.worker_id, members, now))
        if result.rowcount == len(members):
            settled += members
        elif len(members) > 1:
            raise _NotAllOurs
        else:
            lost.append(members[0].job)
    if count and lost and not settled and _was_written(connection, settler, settlements, now, tally):
        # The answer to the COMMIT of a first try was lost: these are not somebody else's, they are settled.
        return Settled(tuple(settlements), (), add(tally, _counted(settlements, now)))
    _write_attempts(connection, settler.worker_id, settled, now)
    counted = count_settled(connection, settler, settled, now, tally) if count else tally
    return Settled(tuple(settled), tuple(lost), counted)


def count_settled(
    connection: Connection, settler: Settler, settled: Sequence[Settlement], now: datetime, tally: Tally
) -> Tally:
    """Add to what this process has counted so far, and write the new figures."""
    now_counted = _counted(settled, now)
    total = add(tally, now_counted)
    write_totals(connection, settler.cycle_id, settler.counted_as, {key: total[key] for key in now_counted})
    return total


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


def _was_written(
    connection: Connection, settler: Settler, settlements: Sequence[Settlement], now: datetime, tally: Tally
) -> bool:
    """The totals tell, written in the same transaction by nobody but us: they are further than we know of."""
    c = schema.totals.c
    ours = select(c.lane, c.type, c.outcome, c.jobs).where(
        c.cycle_id == settler.cycle_id, c.worker_id == settler.counted_as
    )
    stored = {(row.lane, row.type, row.outcome): row.jobs for row in connection.execute(ours)}
    counted = _counted(settlements, now)
    total = add(tally, counted)
    return all(stored.get(key) == total[key].jobs for key in counted)


def _counted(settlements: Iterable[Settlement], now: datetime) -> dict[Key, Count]:
    return count_samples(_sample(each, now) for each in settlements)


def _sample(settlement: Settlement, now: datetime) -> Sample:
    job, duration_ms = settlement.job, settlement.duration_ms
    key = (job.lane, job.type, settlement.outcome.kind.value)
    if duration_ms is None or job.run_at is None:
        return key, duration_ms, None
    waited_ms = (now - job.run_at) // MILLISECOND - duration_ms
    return key, duration_ms, max(0, waited_ms)


def write_totals(connection: Connection, cycle_id: int, counted_as: str, tally: Tally) -> None:
    """Absolute figures of one writer: writing them twice changes nothing."""
    if not tally:
        return
    rows = [
        {
            **_key_columns(key),
            "cycle_id": cycle_id,
            "worker_id": counted_as,
            "jobs": count.jobs,
            "durations": histogram_text(count.durations),
            "waits": histogram_text(count.waits),
        }
        for key, count in sorted(tally.items())
    ]
    key = ("cycle_id", "lane", "type", "outcome", "worker_id")
    connection.execute(dialect.upsert(connection.dialect, schema.totals, key, rows[0]), rows)


def _key_columns(key: Key) -> dict[str, str]:
    lane, type_name, outcome = key
    return {"lane": lane, "type": type_name, "outcome": outcome}
