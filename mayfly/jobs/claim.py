"""Claim a batch: lock due rows, write the new owner, commit. No handler runs before the commit is known."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from mayfly.connection import Connection
from mayfly.dialect import Dialect, utc_from_driver
from mayfly.job import Job
from mayfly.jobs.looks import next_due
from mayfly.schema import PRIORITIES, JobTable

Found = Sequence[Any]  # a row, in the order of `due_statement`


@dataclass(frozen=True)
class Claimant:
    """Who claims: a runner in its lane, until when its lease holds."""

    worker_id: str
    lane: str
    lease_until: datetime
    fresh: bool = True  # has run nothing yet: only such a runner may take a job that killed another


def claim(connection: Connection, jobs: JobTable, claimant: Claimant, size: int, now: datetime) -> Sequence[Found]:
    """The next due jobs, high priority first, oldest first, now owned by the claimant.

    As they were found: to make them Jobs is left to `jobs_from`, when nobody waits for our locks any more.
    """
    due = due_statement(connection.dialect, jobs)
    found: list[Found] = []
    for priority in PRIORITIES:
        wanted = {"lane": claimant.lane, "priority": priority, "now": now, "size": size - len(found)}
        found += connection.execute(due, wanted).all()
        if len(found) == size:
            break
    taken = together(found, claimant.fresh)
    if taken:
        values = {"worker_id": claimant.worker_id, "now": now, "lease_until": claimant.lease_until}
        connection.execute(claim_statement(jobs), values, ids=[row[0] for row in taken])
    return taken


def jobs_from(taken: Sequence[Found], lane: str) -> list[Job]:
    return [_job(row, lane) for row in taken]


@cache
def due_statement(dialect: Dialect, jobs: JobTable) -> str:
    c = jobs.c
    figures = dialect.bundled(" ", [c.attempts, c.max_attempts, c.claims, c.crashes, c.interruptions])
    rest = dialect.bundled("|", [*figures, c.run_at, c.type])
    columns = ", ".join([c.id, c.suspect, c.payload, c.group_key, *rest])
    return next_due(columns, jobs) + dialect.claim_lock


@cache
def claim_statement(jobs: JobTable) -> str:
    """By primary key only: two claims can never wait for each other crosswise."""
    c = jobs.c
    return (
        f"UPDATE {jobs.table} SET {c.status} = '{jobs.processing}', {c.worker_id} = :worker_id, {c.locked_at} = :now,"
        f" {c.lease_until} = :lease_until, {c.started_at} = NULL, {c.attempts} = {c.attempts} + 1,"
        f" {c.claims} = {c.claims} + 1 WHERE {{ids of {c.id}}}"
    )


def together(found: Sequence[Found], fresh: bool) -> Sequence[Found]:
    """What may share a claim. A suspect is taken alone, one that killed its process only by a fresh runner."""
    for number, row in enumerate(found):
        if not row[1]:
            continue
        if number > 0:
            return found[:number]
        return found[:1] if fresh or not _job(row, "").crashes else []
    return found


def _job(row: Found, lane: str) -> Job:
    """By position, in the order of `due_statement`: to look columns up by name costs more than the rest of this."""
    job_id, suspect, payload, group_key, *rest = row
    attempts, max_attempts, claims, crashes, interruptions, run_at, type_name = rest if rest[1:] else _parted(*rest)
    return Job(
        job_id, type_name, lane, payload, attempts + 1, max_attempts, claims + 1, crashes, interruptions,
        suspect == 1, utc_from_driver(run_at), group_key,
    )  # fmt: skip


def _parted(text: str) -> tuple[Any, ...]:
    figures, run_at, type_name = text.split("|", 2)
    return *_figures(figures), run_at, type_name


@cache
def _figures(text: str) -> tuple[int, ...]:
    """Looked up, mostly: the jobs of a lane have but a few different ones."""
    return tuple(map(int, text.split()))
