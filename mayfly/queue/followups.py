"""What else happens when jobs are settled, in the transaction that settles them or right after it.

Buffered jobs: jobs enqueued by a handler are inserted when its own job is done. Chains: when a step is done, the next
one is inserted. Batches: the callback is inserted after the last job. Sources: the row of a job gets its new status.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Unpack

from mayfly import json_text, log_messages
from mayfly.db.connection import AnyConnection, Connection
from mayfly.db.database import Database
from mayfly.errors import BadChain, SourceUnusable, UnknownOption
from mayfly.job import CURRENT_JOB, Job
from mayfly.log_messages import LogMessage
from mayfly.queue.batches import NOT_BATCHES, NewBatch, complete, open_batch
from mayfly.queue.count import KnownLiveJobs
from mayfly.queue.insert import FutureJob, NewJob, insert_job, insert_jobs
from mayfly.queue.options import StepOptions
from mayfly.queue.outcome import OutcomeKind, Settlement, Settler
from mayfly.schema.tables import SCHEDULED

MAX_BATCHES = 100  # open batches; with more, every group is treated as a batch and checked when its jobs end
AWAITING = (
    "SELECT batch_key, 0 FROM (SELECT batch_key FROM mayfly_batches WHERE completed_at IS NULL"
    f" LIMIT {MAX_BATCHES}) AS batches UNION ALL SELECT NULL, job_id FROM mayfly_chains WHERE {{ids of job_id}}"
)
SELECT_STEPS = "SELECT job_id, rest FROM mayfly_chains WHERE {ids of job_id}"
DELETE_STEPS = "DELETE FROM mayfly_chains WHERE {ids of job_id}"
INSERT_STEP = "INSERT INTO mayfly_chains (job_id, previous, rest) VALUES (:job_id, :previous, :rest)"


def has_followups(job: Job) -> bool:
    is_awaited = job.group_key is not None and job.awaited
    return is_awaited or job.buffered_jobs is not None or job.source_row is not None


def mark_awaited(database: Database, claimed: Iterable[Job]) -> None:
    """Mark the jobs that a batch or chain waits for; settling the others needs no further query."""
    grouped = [job for job in claimed if job.group_key is not None]
    asked = [job for job in grouped if not (job.group_key or "").startswith(SCHEDULED)]
    ids = [job.id for job in asked]
    found = database.read(lambda connection: connection.execute(AWAITING, ids=ids).all()) if asked else []
    batches, steps = {key for key, _ in found if key is not None}, {job_id for key, job_id in found if key is None}
    if len(batches) < MAX_BATCHES:
        for job in grouped:
            job.awaited = job.group_key in batches or job.id in steps


# --- buffered jobs ----------------------------------------------------------------------------------------


class NewChain(NamedTuple):
    first: NewJob
    rest: str  # JSON: the steps that follow


BufferedJob = NewJob | NewChain | NewBatch


def buffering_job() -> Job | None:
    """The running job that buffers new jobs; None inside job.transaction(), which commits them with the job."""
    job = CURRENT_JOB.get()
    return None if job is None or job.runtime.in_transaction else job


def transaction_job() -> Job | None:
    """The running job in whose transaction new jobs are inserted."""
    job = CURRENT_JOB.get()
    return job if job is not None and job.runtime.in_transaction else None


def note_uncommitted(job: Job, new: Iterable[NewJob]) -> None:
    """To announce them after the commit. One per lane is enough, and they may be a million."""
    job.uncommitted_jobs = (job.uncommitted_jobs or {}) | {each.lane: each for each in new if each.run_at is None}


def buffer_job(job: Job, new: Iterable[BufferedJob]) -> int:
    """Keep new jobs until this job is done; returns their number."""
    validated = list(new)  # validates all of them before any is buffered
    if job.buffered_jobs is None:
        job.buffered_jobs = []
    job.buffered_jobs += validated
    return len(validated)


def write_buffered(connection: Connection, buffered: Sequence[BufferedJob], now: datetime | None = None) -> None:
    """Insert buffered jobs; those whose unique key is held are skipped.

    A caller that does this before the job is settled (a checkpoint) empties the buffer after the commit, and must not
    repeat a transaction whose COMMIT reply was lost.
    """
    insert_jobs(connection, (each for each in buffered if isinstance(each, NewJob)), now)
    for each in buffered:
        if isinstance(each, NewChain):
            insert_chain(connection, each)
        elif isinstance(each, NewBatch):
            # If another process has taken the name since the handler chose it, these jobs join that batch's group.
            open_batch(connection, each, sealed=True)


def inserted_jobs(settled: Iterable[Settlement]) -> Iterator[NewJob]:
    """Those that `insert_buffered` has inserted, and of job.transaction() one per lane; unless a lease was lost."""
    for job in (each.job for each in settled if each.outcome.kind is OutcomeKind.DONE):
        yield from (job.uncommitted_jobs or {}).values()
        for new in job.buffered_jobs or ():
            if isinstance(new, NewJob | NewChain):
                yield new.first if isinstance(new, NewChain) else new


def insert_buffered(
    connection: Connection, _settler: Settler, settled: Sequence[Settlement], now: datetime
) -> Iterable[LogMessage]:
    done = (each.job for each in settled if each.outcome.kind is OutcomeKind.DONE)
    write_buffered(connection, [new for job in done for new in job.buffered_jobs or ()], now)
    return ()


# --- chains -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """A job that is enqueued later; made by `step`."""

    type: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    options: StepOptions = field(default_factory=StepOptions)


StepLike = Step | str | tuple[Any, ...] | list[Any]  # what chain() accepts as a step, or as several


def step(type: str, payload: Mapping[str, Any] | None = None, **options: Unpack[StepOptions]) -> Step:
    """A job of a chain, or the callback of a batch. Takes these arguments of `enqueue`: lane, priority, max_attempts,
    delay. The delay counts from the time at which the job would otherwise be due."""
    unknown = options.keys() - StepOptions.__annotations__
    if unknown:
        raise UnknownOption("step", min(unknown), StepOptions.__annotations__)
    return Step(type, {} if payload is None else payload, options)


def as_step(given: object) -> Step:
    """From a type, a (type, payload) tuple or a Step."""
    match given:
        case Step():
            return given
        case str(type_name) | (str(type_name),):
            return step(type_name)
        case (str(type_name), Mapping() | None as payload):
            return step(type_name, payload)
    raise BadChain(f"{given!r:.100} is not a step")


def flattened(given: Iterable[object]) -> Iterator[Step]:
    """The steps in nested lists, in order."""
    for each in given:
        yield from flattened(each) if isinstance(each, list) else [as_step(each)]


def insert_chain(connection: AnyConnection, new: NewChain) -> int:
    """The id of its first job."""
    return _insert_step(connection, new.first, None, new.rest)


def advance_chains(
    connection: Connection, _settler: Settler, settled: Sequence[Settlement], now: datetime
) -> Iterator[LogMessage]:
    """The row of a step holds the steps that follow it.

    If the job is dead or cancelled its row is kept: when the job is retried, the chain continues.
    """
    ended = {each.job.id: each for each in settled if _is_awaited_end(each)}
    steps = connection.execute(SELECT_STEPS, ids=ended).all() if ended else []
    done = [job_id for job_id, _rest in steps if ended[job_id].outcome.kind is OutcomeKind.DONE]
    if done:
        connection.execute(DELETE_STEPS, ids=done)
    for job_id, stored in steps:
        job, outcome, rest = ended[job_id].job, ended[job_id].outcome, json_text.decode(stored)
        if outcome.kind is not OutcomeKind.DONE:
            yield log_messages.chain_broken(job.id, job.type, outcome.kind.value, len(rest))
        elif rest:
            following = FutureJob.from_dict(rest[0]).starting_at(now)
            following = following._replace(group_key=job.group_key, parent_id=job.id)
            _insert_step(connection, following, outcome.result, json_text.encode(rest[1:]))


def _insert_step(connection: AnyConnection, new: NewJob, previous: str | None, rest: str) -> int:
    job_id = insert_job(connection, new)
    connection.execute(INSERT_STEP, {"job_id": job_id, "previous": previous, "rest": rest})
    return job_id


def _is_awaited_end(settlement: Settlement) -> bool:
    job = settlement.job
    return settlement.outcome.kind.is_final and job.group_key is not None and job.awaited


# --- rows of sources --------------------------------------------------------------------------------------


def write_source_rows(
    connection: Connection, settler: Settler, settled: Sequence[Settlement], now: datetime
) -> Iterable[LogMessage]:
    if all(each.job.source_row is None for each in settled):
        return ()
    from mayfly.queue.source_outcome import write_rows  # most installations have no sources

    return write_rows(connection, settler, settled, now)


def without_rows(settlements: Sequence[Settlement], unusable: SourceUnusable) -> list[Settlement]:
    from mayfly.queue.source_outcome import without_row  # the same

    return [without_row(each, unusable) for each in settlements]


# --- batches ----------------------------------------------------------------------------------------------


def complete_batches(database: Database, settled: Sequence[Settlement], known: KnownLiveJobs) -> Iterable[LogMessage]:
    """Called after the commit, when other processes see that these jobs have ended."""
    groups = {each.job.group_key or "" for each in settled if _is_awaited_end(each)}
    groups |= {new.key for each in settled for new in each.job.buffered_jobs or () if isinstance(new, NewBatch)}
    groups = {key for key in groups if not key.startswith(NOT_BATCHES)}
    completed = complete(database, groups, known) if groups else ()
    return [log_messages.batch_finished(*each) for each in completed]


# What `settle` calls with the settlements of jobs that `has_followups`. The results are logged after the commit.
IN_TRANSACTION = (insert_buffered, advance_chains, write_source_rows)
AFTER_COMMIT = (complete_batches,)
