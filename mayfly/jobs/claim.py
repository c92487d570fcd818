"""Claim a batch: lock due rows, write the new owner, commit. No handler runs before the commit is known."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, Update, select, union_all, update

from mayfly.dialect import lock_rows
from mayfly.job import Job
from mayfly.jobs.ids import among
from mayfly.schema import PRIORITIES, JobTable


@dataclass(frozen=True)
class Claimant:
    """Who claims: a runner in its lane, until when its lease holds."""

    worker_id: str
    lane: str
    lease_until: datetime
    fresh: bool = True  # has run nothing yet: only such a runner may take a job that killed another


def claim(connection: Connection, jobs: JobTable, claimant: Claimant, size: int, now: datetime) -> list[Job]:
    """The next due jobs, high priority first, oldest first, now owned by the claimant."""
    rows: list[Row[Any]] = []
    for priority in PRIORITIES:
        wanted = size - len(rows)
        rows += connection.execute(due_statement(jobs, claimant.lane, priority, wanted, now)).all()
        if len(rows) == size:
            break
    taken = together(rows, claimant.fresh)
    if taken:
        connection.execute(claim_statement(jobs, [row.id for row in taken], claimant, now))
    return [_job(row, claimant.lane) for row in taken]


def has_due(connection: Connection, jobs: JobTable, lane: str, now: datetime) -> bool:
    """Without locks. SKIP LOCKED also skips a row that another claim only brushed: "nothing" may mean "not yet"."""
    looks = [next_due(select(jobs.c.id), jobs, lane, priority, 1, now).subquery() for priority in PRIORITIES]
    return connection.execute(union_all(*map(select, looks)).limit(1)).first() is not None


def due_statement(jobs: JobTable, lane: str, priority: int, size: int, now: datetime) -> Select[*tuple[Any, ...]]:
    c = jobs.c
    columns = select(
        c.id, c.type, c.payload, c.attempts, c.max_attempts, c.claims, c.crashes, c.interruptions, c.suspect,
        c.run_at, c.group_key,
    )  # fmt: skip
    return lock_rows(next_due(columns, jobs, lane, priority, size, now))


def next_due(
    columns: Select[*tuple[Any, ...]], jobs: JobTable, lane: str, priority: int, size: int, now: datetime
) -> Select[*tuple[Any, ...]]:
    """Lane, status and priority are equalities, so run_at is a pure range of the claim index.

    The order matters even to those who only count: without it PostgreSQL may take delayed and finished jobs for
    due ones, and scan the whole table in the hope of finding enough of them soon.
    """
    c = jobs.c
    due = columns.where(c.lane == lane, c.status == jobs.pending, c.priority == priority, c.run_at <= now)
    return due.order_by(c.run_at, c.id).limit(size)


def claim_statement(jobs: JobTable, ids: Sequence[int], claimant: Claimant, now: datetime) -> Update:
    """By primary key only: two claims can never wait for each other crosswise."""
    return (
        update(jobs.table)
        .where(among(jobs.table.c.id, ids))
        .values(
            status=jobs.processing,
            worker_id=claimant.worker_id,
            locked_at=now,
            lease_until=claimant.lease_until,
            started_at=None,
            attempts=jobs.c.attempts + 1,
            claims=jobs.c.claims + 1,
        )
    )


def together(rows: Sequence[Row[Any]], fresh: bool) -> Sequence[Row[Any]]:
    """What may share a claim. A suspect is taken alone, one that killed its process only by a fresh runner."""
    for number, row in enumerate(rows):
        if not row.suspect:
            continue
        if number > 0:
            return rows[:number]
        return rows[:1] if fresh or not row.crashes else []
    return rows


def _job(row: Row[Any], lane: str) -> Job:
    """By position, in the order of `due_statement`: to look columns up by name costs more than the rest of this."""
    columns: tuple[Any, ...] = tuple(row)
    id_, type_, payload, attempts, max_attempts, claims, crashes, interruptions, suspect, run_at, group_key = columns
    return Job(
        id_, type_, lane, payload, attempts + 1, max_attempts, claims + 1, crashes, interruptions, suspect == 1,
        run_at, group_key,
    )  # fmt: skip
