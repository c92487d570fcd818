"""Claim a batch: lock due rows, write the new owner, commit. No handler runs before the commit is known."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, TypeAlias, TypeVar

from sqlalchemy import (
    BindParameter,
    Connection,
    Dialect,
    Integer,
    Select,
    Text,
    Update,
    bindparam,
    select,
    type_coerce,
    union_all,
    update,
)

from mayfly.dialect import bundle, lock_rows, utc_from_driver
from mayfly.job import Job
from mayfly.jobs.ids import among
from mayfly.schema import PRIORITIES, JobTable

Found = Sequence[Any]  # a row, in the order of `due_statement`
T = TypeVar("T")
Given: TypeAlias = T | BindParameter[Any]  # now, or when the statement is executed


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
    found: list[Found] = []
    for priority in PRIORITIES:
        wanted = size - len(found)
        due = {"in_lane": claimant.lane, "of_priority": priority, "size": wanted, "now": now}
        found += connection.execute(_due_statement(connection.dialect, jobs), due).all()
        if len(found) == size:
            break
    taken = together(found, claimant.fresh)
    if taken:
        take(connection, jobs, [row[0] for row in taken], claimant, now)
    return taken


def jobs_from(taken: Sequence[Found], lane: str) -> list[Job]:
    return [_job(row, lane) for row in taken]


def take(connection: Connection, jobs: JobTable, ids: Sequence[int], claimant: Claimant, now: datetime) -> None:
    taken = {"ids": sorted(ids), "owner": claimant.worker_id, "taken_at": now, "until": claimant.lease_until}
    connection.execute(claim_statement(jobs), taken)


def has_due(connection: Connection, jobs: JobTable, lane: str, now: datetime) -> bool:
    """Without locks. SKIP LOCKED also skips a row that another claim only brushed: "nothing" may mean "not yet"."""
    looks = [next_due(select(jobs.c.id), jobs, lane, priority, 1, now).subquery() for priority in PRIORITIES]
    return connection.execute(union_all(*map(select, looks)).limit(1)).first() is not None


@cache
def _due_statement(dialect: Dialect, jobs: JobTable) -> Select[*tuple[Any, ...]]:
    """Built once a process: a runner's first claim should not have to touch all that builds it."""
    lane: Given[str] = bindparam("in_lane")
    priority: Given[int] = bindparam("of_priority")
    now: Given[datetime] = bindparam("now")
    return due_statement(dialect, jobs, lane, priority, bindparam("size", type_=Integer()), now)


def due_statement(
    dialect: Dialect,
    jobs: JobTable,
    lane: Given[str],
    priority: Given[int],
    size: Given[int],
    now: Given[datetime],
) -> Select[*tuple[Any, ...]]:
    c = jobs.c
    figures = bundle(dialect, " ", [c.attempts, c.max_attempts, c.claims, c.crashes, c.interruptions])
    rest = bundle(dialect, "|", [*figures, type_coerce(c.run_at, Text), c.type])  # as the driver has it
    columns = select(c.id, c.suspect, c.payload, c.group_key, *rest)
    return lock_rows(next_due(columns, jobs, lane, priority, size, now))


def next_due(
    columns: Select[*tuple[Any, ...]],
    jobs: JobTable,
    lane: Given[str],
    priority: Given[int],
    size: Given[int],
    now: Given[datetime],
) -> Select[*tuple[Any, ...]]:
    """Lane, status and priority are equalities, so run_at is a pure range of the claim index.

    The order matters even to those who only count: without it PostgreSQL may take delayed and finished jobs for
    due ones, and scan the whole table in the hope of finding enough of them soon.
    """
    c = jobs.c
    due = columns.where(c.lane == lane, c.status == jobs.pending, c.priority == priority, c.run_at <= now)
    return due.order_by(c.run_at, c.id).limit(size)


@cache
def claim_statement(jobs: JobTable) -> Update:
    """By primary key only: two claims can never wait for each other crosswise."""
    return (
        update(jobs.table)
        .where(among(jobs.table.c.id, "ids"))
        .values(
            status=jobs.processing,
            worker_id=bindparam("owner"),
            locked_at=bindparam("taken_at"),
            lease_until=bindparam("until"),
            started_at=None,
            attempts=jobs.c.attempts + 1,
            claims=jobs.c.claims + 1,
        )
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
