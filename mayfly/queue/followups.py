"""What else happens when jobs are settled: a list of steps, each in the transaction that settles them or right after.

Buffered jobs: what a handler enqueues is inserted when its job is done. Chains: the next step follows the one that is
done. Batches: the callback follows the last job. `settle` runs the steps of FOLLOW_UPS and knows none of them.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from mayfly import json_text, log_messages
from mayfly.db.connection import AnyConnection, Connection
from mayfly.db.database import Database
from mayfly.job import CURRENT_JOB, Job
from mayfly.log_messages import LogMessage
from mayfly.queue.batches import NewBatch, complete, open_batch
from mayfly.queue.count import KnownLiveJobs
from mayfly.queue.insert import FutureJob, NewJob, insert_job, insert_jobs
from mayfly.queue.outcome import FINAL_KINDS, OutcomeKind, Settlement
from mayfly.schema.tables import SCHEDULED

NOT_BATCHES = ("chain:", SCHEDULED)  # prefixes of groups

MAX_BATCHES = 100  # open at a time: beyond that every group is taken for a batch, and checked when its jobs end
AWAITING = (
    "SELECT batch_key, 0 FROM (SELECT batch_key FROM mayfly_batches WHERE completed_at IS NULL"
    f" LIMIT {MAX_BATCHES}) AS batches UNION ALL SELECT NULL, job_id FROM mayfly_chains WHERE {{ids of job_id}}"
)
SELECT_STEPS = "SELECT job_id, rest FROM mayfly_chains WHERE {ids of job_id}"
DELETE_STEPS = "DELETE FROM mayfly_chains WHERE {ids of job_id}"
INSERT_STEP = "INSERT INTO mayfly_chains (job_id, previous, rest) VALUES (:job_id, :previous, :rest)"


class FollowUp:
    """One step. Gets the settlements of jobs that `has_followups`; what it returns is logged after the commit."""

    def write(self, _connection: Connection, _settled: Sequence[Settlement], _now: datetime) -> Iterable[LogMessage]:
        """In the transaction that settles the jobs."""
        return ()

    def after_commit(
        self, _database: Database, _settled: Sequence[Settlement], _known: KnownLiveJobs
    ) -> Iterable[LogMessage]:
        return ()


def has_followups(job: Job) -> bool:
    return job.held is not None or (job.group_key is not None and job.awaited)


def mark_awaited(database: Database, claimed: Iterable[Job]) -> None:
    """Mark the jobs that no batch or chain waits for, so that settling them costs nothing more."""
    grouped = [job for job in claimed if job.group_key is not None]
    asked = [job for job in grouped if not (job.group_key or "").startswith(SCHEDULED)]
    batches, steps = database.read(lambda connection: _awaiting(connection, asked)) if asked else (set(), set())
    if len(batches) < MAX_BATCHES:
        for job in grouped:
            job.awaited = job.group_key in batches or job.id in steps


def _awaiting(connection: Connection, jobs: Sequence[Job]) -> tuple[set[str], set[int]]:
    """The open batches, and those of the jobs that are steps of chains."""
    found = connection.execute(AWAITING, ids=[job.id for job in jobs]).all()
    return {key for key, _ in found if key is not None}, {job_id for key, job_id in found if key is None}


# --- buffered jobs ----------------------------------------------------------------------------------------


class NewChain(NamedTuple):
    first: NewJob
    rest: str  # JSON: the steps that follow


BufferedJob = NewJob | NewChain | NewBatch


def buffering_job() -> Job | None:
    """The running job that buffers what is enqueued here; None in job.transaction(), which commits with the job."""
    job = CURRENT_JOB.get()
    return None if job is None or job.runtime.in_transaction else job


def buffer_job(job: Job, new: Iterable[BufferedJob]) -> int:
    """Insert them when the job is done; how many they are."""
    validated = list(new)  # all of them, before any is buffered
    if job.held is None:
        job.held = []
    job.held += validated
    return len(validated)


def write_buffered(connection: Connection, buffered: Sequence[BufferedJob], now: datetime | None = None) -> None:
    """Insert buffered jobs; those whose unique key is held are skipped.

    A caller that does this before the job is settled (a checkpoint) empties the buffer after the commit, and must not
    repeat a COMMIT whose answer was lost.
    """
    insert_jobs(connection, (each for each in buffered if isinstance(each, NewJob)), now)
    for each in buffered:
        if isinstance(each, NewChain):
            insert_chain(connection, each)
        elif isinstance(each, NewBatch):
            # If another process has taken the name since the handler asked for it, these jobs are in its group.
            open_batch(connection, each, sealed=True)


class BufferedJobs(FollowUp):
    def write(self, connection: Connection, settled: Sequence[Settlement], now: datetime) -> Iterable[LogMessage]:
        done = (each.job for each in settled if each.outcome.kind is OutcomeKind.DONE)
        write_buffered(connection, [new for job in done for new in job.held or ()], now)
        return ()


# --- chains -----------------------------------------------------------------------------------------------


def insert_chain(connection: AnyConnection, new: NewChain) -> int:
    """The id of its first job."""
    return _insert_step(connection, new.first, None, new.rest)


class Chains(FollowUp):
    """The row of a step holds the steps that follow it.

    Those of a job that is dead or cancelled stay as long as the job: if it is retried, the chain goes on.
    """

    def write(self, connection: Connection, settled: Sequence[Settlement], now: datetime) -> Iterable[LogMessage]:
        ended = {each.job.id: each for each in settled if _is_awaited_end(each)}
        steps = connection.execute(SELECT_STEPS, ids=ended).all() if ended else []
        done = [job_id for job_id, _rest in steps if ended[job_id].outcome.kind is OutcomeKind.DONE]
        if done:
            connection.execute(DELETE_STEPS, ids=done)
        return [message for job_id, rest in steps for message in self._advance(connection, ended[job_id], rest, now)]

    def _advance(
        self, connection: Connection, settlement: Settlement, stored: str, now: datetime
    ) -> Iterator[LogMessage]:
        job, outcome, rest = settlement.job, settlement.outcome, json_text.decode(stored)
        if outcome.kind is not OutcomeKind.DONE:
            yield log_messages.chain_broken(job.id, job.type, outcome.kind.value, len(rest))
        elif rest:
            following: Any = FutureJob.from_dict(rest[0]).starting_at(now)
            following = following._replace(group_key=job.group_key, parent_id=job.id)
            _insert_step(connection, following, outcome.result, json_text.encode(rest[1:]))


def _insert_step(connection: AnyConnection, new: NewJob, previous: str | None, rest: str) -> int:
    job_id = insert_job(connection, new)
    connection.execute(INSERT_STEP, {"job_id": job_id, "previous": previous, "rest": rest})
    return job_id


def _is_awaited_end(settlement: Settlement) -> bool:
    job = settlement.job
    return settlement.outcome.kind in FINAL_KINDS and job.group_key is not None and job.awaited


# --- batches ----------------------------------------------------------------------------------------------


class Batches(FollowUp):
    """After the commit: only then other processes see that these jobs have ended."""

    def after_commit(
        self, database: Database, settled: Sequence[Settlement], known: KnownLiveJobs
    ) -> Iterable[LogMessage]:
        groups = {each.job.group_key or "" for each in settled if _is_awaited_end(each)}
        groups |= {new.key for each in settled for new in each.job.held or () if isinstance(new, NewBatch)}
        groups = {key for key in groups if not key.startswith(NOT_BATCHES)}
        completed = complete(database, groups, known) if groups else ()
        return [log_messages.batch_finished(*each) for each in completed]


FOLLOW_UPS: tuple[FollowUp, ...] = (BufferedJobs(), Chains(), Batches())
