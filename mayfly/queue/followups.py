"""Chains: jobs one after the other. The row of a step holds those that follow; whoever is done hands it on."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from mayfly import json_text
from mayfly.db.connection import AnyConnection, Connection
from mayfly.db.database import Database
from mayfly.job import CURRENT_JOB, Job
from mayfly.queue.batches import NewBatch, open_batch
from mayfly.queue.insert import NewJob, insert_job, insert_jobs, unpacked
from mayfly.queue.outcome import OutcomeKind, Settlement
from mayfly.schema.tables import SCHEDULED

STEPS = "SELECT job_id, rest FROM mayfly_chains WHERE {ids of job_id}"
REMOVE = "DELETE FROM mayfly_chains WHERE {ids of job_id}"
INSERT = "INSERT INTO mayfly_chains (job_id, previous, rest) VALUES (:job_id, :previous, :rest)"


class NewChain(NamedTuple):
    first: NewJob
    rest: str  # JSON: the steps that follow


class BrokenChain(NamedTuple):
    """A chain that ended before its last step, and how many never had their turn."""

    job: Job
    outcome: OutcomeKind
    steps_left: int


def insert_chain(connection: AnyConnection, new: NewChain) -> int:
    """The id of its first job."""
    return _insert_step(connection, new.first, None, new.rest)


def advance_chains(connection: Connection, ended: Iterable[Settlement], now: datetime) -> tuple[BrokenChain, ...]:
    """The next step of each that is done, in the transaction in which it is.

    The rest of each other waits as long as its job is kept: who tries that again lets its chain go on.
    """
    by_id = {each.job.id: each for each in ended if each.job.group_key is not None and each.job.awaited}
    found = connection.execute(STEPS, ids=by_id).all() if by_id else []
    if not found:
        return ()
    done = [job_id for job_id, _rest in found if by_id[job_id].outcome.kind is OutcomeKind.DONE]
    if done:
        connection.execute(REMOVE, ids=done)
    broken = []
    for job_id, kept in found:
        settlement, rest = by_id[job_id], json_text.decode(kept)
        if settlement.outcome.kind is not OutcomeKind.DONE:
            broken.append(BrokenChain(settlement.job, settlement.outcome.kind, len(rest)))
        elif rest:
            _insert_next(connection, settlement, rest, now)
    return tuple(broken)


def _insert_next(connection: Connection, settlement: Settlement, rest: Sequence[Any], now: datetime) -> None:
    job, following = settlement.job, unpacked(rest[0]).due_from(now)
    following = following._replace(group_key=job.group_key, parent_id=job.id)
    _insert_step(connection, following, settlement.outcome.result, json_text.encode(rest[1:]))


def _insert_step(connection: AnyConnection, new: NewJob, previous: str | None, rest: str) -> int:
    job_id = insert_job(connection, new)
    connection.execute(INSERT, {"job_id": job_id, "previous": previous, "rest": rest})
    return job_id


BufferedJob = NewJob | NewChain | NewBatch


def buffering_job() -> Job | None:
    """The job that what is enqueued here waits for; none in job.transaction(), which commits with the job anyway."""
    job = CURRENT_JOB.get()
    return None if job is None or job.runtime.in_transaction else job


def buffer_job(job: Job, new: Iterable[BufferedJob]) -> int:
    """Taken from the job once it is settled; how many that were."""
    given = list(new)  # all of them have passed the door before any is held
    if job.held is None:
        job.held = []
    job.held += given
    return len(given)


def write_buffered(connection: Connection, held: Sequence[BufferedJob], now: datetime | None = None) -> None:
    """Insert what was held back, in the transaction that makes it true. Those whose unique key is held are left out.

    Whoever calls this before its job is settled (a checkpoint) takes it from the job when that is committed, and
    must not repeat a COMMIT whose answer was lost.
    """
    insert_jobs(connection, (each for each in held if isinstance(each, NewJob)), now)
    for each in held:
        if isinstance(each, NewChain):
            insert_chain(connection, each)
        elif isinstance(each, NewBatch):
            # Another one may have taken the name since the handler asked: these jobs are in its group, then.
            open_batch(connection, each, sealed=True)


MAX_BATCHES = 100  # open at a time: beyond, every group is taken for a batch's, and looked at when its jobs end
WAITING = (
    "SELECT batch_key, 0 FROM (SELECT batch_key FROM mayfly_batches WHERE completed_at IS NULL"
    f" LIMIT {MAX_BATCHES}) AS batches UNION ALL SELECT NULL, job_id FROM mayfly_chains WHERE {{ids of job_id}}"
)


def mark_awaited(database: Database, claimed: Iterable[Job]) -> None:
    """Mark those that nothing waits for."""
    grouped = [job for job in claimed if job.group_key is not None]
    asked = [job for job in grouped if not (job.group_key or "").startswith(SCHEDULED)]
    batches, steps = database.read(lambda connection: _waiting(connection, asked)) if asked else (set(), set())
    if len(batches) < MAX_BATCHES:
        for job in grouped:
            job.awaited = job.group_key in batches or job.id in steps


def _waiting(connection: Connection, asked: Sequence[Job]) -> tuple[set[str], set[int]]:
    """The open batches, and those of the jobs that are steps of chains."""
    found = connection.execute(WAITING, ids=[job.id for job in asked]).all()
    return {key for key, _ in found if key is not None}, {job_id for key, job_id in found if key is None}


ENDS = (OutcomeKind.DONE, OutcomeKind.DEAD, OutcomeKind.CANCELLED)
NOT_BATCHES = ("chain:", SCHEDULED)


def run_followups(connection: Connection, settled: Sequence[Settlement], now: datetime) -> tuple[BrokenChain, ...]:
    """What handlers of jobs that are done have enqueued, and the next steps of chains."""
    done = [each.job for each in settled if each.outcome.kind is OutcomeKind.DONE]
    write_buffered(connection, [new for job in done for new in job.held or ()], now)
    return advance_chains(connection, (each for each in settled if each.outcome.kind in ENDS), now)


def groups_to_check(followed: Iterable[Settlement]) -> set[str]:
    """Of jobs that have ended, and batches that were opened: some may be over now."""
    groups: set[str] = set()
    for each in followed:
        if each.outcome.kind in ENDS and each.job.group_key is not None and each.job.awaited:
            groups.add(each.job.group_key)
        groups.update(new.key for new in each.job.held or () if isinstance(new, NewBatch))
    return {key for key in groups if not key.startswith(NOT_BATCHES)}
