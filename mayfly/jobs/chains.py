"""Chains: jobs one after the other. The row of a step holds those that follow; whoever is done hands it on."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from mayfly import jsontext
from mayfly.connection import Connection
from mayfly.job import Job
from mayfly.jobs.enqueue import NewJob, insert_job
from mayfly.jobs.foreign import AnyConnection
from mayfly.jobs.later import unpacked
from mayfly.jobs.settlement import Settlement
from mayfly.outcome import Kind
from mayfly.schema import JobTable

STEPS = "SELECT job_id, rest FROM mayfly_chains WHERE {ids of job_id}"
REMOVE = "DELETE FROM mayfly_chains WHERE {ids of job_id}"
INSERT = "INSERT INTO mayfly_chains (job_id, previous, rest) VALUES (:job_id, :previous, :rest)"


class NewChain(NamedTuple):
    first: NewJob
    rest: str  # JSON: the steps that follow


class BrokenChain(NamedTuple):
    """A chain that ended before its last step, and how many never had their turn."""

    job: Job
    outcome: Kind
    steps_left: int


def insert_chain(connection: AnyConnection, jobs: JobTable, new: NewChain) -> int:
    """The id of its first job."""
    return _insert_step(connection, jobs, new.first, None, new.rest)


def advance_chains(
    connection: Connection, jobs: JobTable, ended: Iterable[Settlement], now: datetime
) -> tuple[BrokenChain, ...]:
    """The next step of each that is done, in the transaction in which it is.

    The rest of each other waits as long as its job is kept: who tries that again lets its chain go on.
    """
    by_id = {each.job.id: each for each in ended if each.job.group_key is not None and each.job.awaited}
    found = connection.execute(STEPS, ids=by_id).all() if by_id else []
    if not found:
        return ()
    done = [job_id for job_id, _rest in found if by_id[job_id].outcome.kind is Kind.DONE]
    if done:
        connection.execute(REMOVE, ids=done)
    broken = []
    for job_id, kept in found:
        settlement, rest = by_id[job_id], jsontext.decode(kept)
        if settlement.outcome.kind is not Kind.DONE:
            broken.append(BrokenChain(settlement.job, settlement.outcome.kind, len(rest)))
        elif rest:
            _insert_next(connection, jobs, settlement, rest, now)
    return tuple(broken)


def _insert_next(
    connection: Connection, jobs: JobTable, settlement: Settlement, rest: Sequence[Any], now: datetime
) -> None:
    job, following = settlement.job, unpacked(rest[0]).due_from(now)
    following = following._replace(group_key=job.group_key, parent_id=job.id)
    _insert_step(connection, jobs, following, settlement.outcome.result, jsontext.encode(rest[1:]))


def _insert_step(connection: AnyConnection, jobs: JobTable, new: NewJob, previous: str | None, rest: str) -> int:
    job_id = insert_job(connection, jobs, new)
    connection.execute(INSERT, {"job_id": job_id, "previous": previous, "rest": rest})
    return job_id
