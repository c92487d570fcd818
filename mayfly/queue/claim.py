"""Claim a batch: lock due rows, write the new owner, commit. No handler runs before the commit is known.

Also the one place where rows become Jobs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from mayfly.db.connection import Connection
from mayfly.db.dialects import Dialect, utc_from_driver
from mayfly.job import Job, RareFields, SourceRow, source_row_of
from mayfly.queue.count import ClaimCursor, due_jobs, next_due
from mayfly.schema.tables import SOURCE

Row = Sequence[Any]  # in the order of CLAIMED_COLUMNS
HAS_RARE_FIELDS = 2  # added to `suspect` where a job has any of the columns that few jobs have

SET_OWNER = (
    "UPDATE mayfly_jobs SET status = 'processing', worker_id = :worker_id, locked_at = :now,"
    " lease_until = :lease_until, started_at = NULL, attempts = attempts + 1, claims = claims + 1"
)
CLAIM = f"{SET_OWNER} WHERE {{ids of id}}"  # by primary key only, so that two claims cannot deadlock
# A suspect counts as started: its runner died while running it, or may have.
RARE_FIELDS = (
    "SELECT id, CASE WHEN started_at IS NOT NULL OR suspect = 1 THEN expires_at IS NOT NULL END, expires_at,"
    " checkpoint, slices, stalled, cancel_reason, releases, unknown_since, unique_key, row_worker_id"
    " FROM mayfly_jobs WHERE {ids of id}"
)
CLEAR_EXPIRY = "UPDATE mayfly_jobs SET expires_at = NULL WHERE {ids of id}"

# In one number: whether the job is a suspect, and whether it has any rare fields.
MARKER = (
    "suspect + CASE WHEN expires_at IS NOT NULL OR checkpoint IS NOT NULL OR cancel_reason IS NOT NULL"
    f" OR releases > 0 OR unknown_since IS NOT NULL OR unique_key LIKE '{SOURCE}%'"
    f" THEN {HAS_RARE_FIELDS} ELSE 0 END"
)


def _columns(attempts: str = "attempts", claims: str = "claims") -> str:
    return f"id, type, payload, {attempts}, max_attempts, {claims}, crashes, interruptions, run_at, group_key"


CLAIMED_COLUMNS = f"{_columns()}, {MARKER}"
COLUMNS_BEFORE_CLAIM = f"{_columns('attempts - 1', 'claims - 1')}, {MARKER}"  # the same, selected after the claim
# What every other statement selects for `job_from_row`.
JOB_COLUMNS = f"lane, suspect, stalled, forgiven, releases, unique_key, {_columns()}"


@dataclass(frozen=True)
class Claimant:
    """A runner in its lane, and until when its lease holds."""

    worker_id: str
    lane: str
    lease_until: datetime
    fresh: bool = True  # has run nothing yet: only such a runner may take a job that crashed another
    begins_with: int | None = None  # an interrupted job, claimed before all others


class Companion(Protocol):
    """The new job of a row of a source, see mayfly.queue.source_claim."""

    def job(self) -> Job: ...


class Claimed(NamedTuple):
    rows: Sequence[Row]
    rare_fields: Mapping[int, RareFields] = MappingProxyType({})  # by job id
    source_rows: Mapping[int, SourceRow] = MappingProxyType({})  # by job id
    needs_fresh: bool = False  # the next job has crashed a runner: only a fresh runner can continue here
    was_due: bool = True  # if no row was found although some were due, other claims have locked them
    reached: ClaimCursor | None = None  # set if as many rows were found as requested
    is_exclusive: bool = False  # no other job may be added: it would have to wait for this one
    companions: Sequence[Companion] = ()


def claim(
    connection: Connection,
    claimant: Claimant,
    size: int,
    now: datetime,
    first_at: Mapping[int, datetime | str] | None = None,
) -> Claimed:
    """Due jobs, high priority first, oldest first, now owned by the claimant.

    `first_at` is that of DueJobs, if the caller has just queried them.
    Returned as rows: `jobs_from` turns them into Jobs after the commit, when no other claim waits for these locks.
    """
    first: Sequence[Row] = ()
    if claimant.begins_with is not None:  # alone: other jobs of the same claim would have to wait for it
        values = {"id": claimant.begins_with, "lane": claimant.lane, "now": now}
        first = connection.execute(first_statement(connection.dialect), values).all()
    if first_at is None and not first:
        first_at = due_jobs(connection, claimant.lane, now).first_at
    due = Claimed(first) if first else _lock_due(connection, claimant.lane, size, now, first_at or {})
    rows = claimable(due.rows, claimant.fresh)
    if not rows:
        return Claimed((), needs_fresh=bool(due.rows), was_due=due.was_due)
    rare_ids = [row[0] for row in rows if row[-1] >= HAS_RARE_FIELDS]
    rare_fields, source_rows = _read_rare_fields(connection, rare_ids) if rare_ids else ({}, {})
    owner = {"worker_id": claimant.worker_id, "now": now, "lease_until": claimant.lease_until}
    connection.execute(CLAIM, owner, ids=[row[0] for row in rows])
    return Claimed(
        rows, rare_fields, source_rows,
        reached=due.reached if len(rows) == size else None,
        is_exclusive=bool(first) or rows[0][-1] % HAS_RARE_FIELDS == 1,
    )  # fmt: skip


def jobs_from(claimed: Claimed, lane: str) -> list[Job]:
    """The jobs as they are after the claim."""
    jobs = [_job(columns, lane, marker % HAS_RARE_FIELDS == 1, 1) for *columns, marker in claimed.rows]
    for job in jobs if claimed.rare_fields else ():
        job.rare_fields = claimed.rare_fields.get(job.id)
        job.source_row = claimed.source_rows.get(job.id)
        if job.source_row is not None and job.source_row.payload is not None:
            job.payload_text = job.source_row.payload
    return [*jobs, *(each.job() for each in claimed.companions)]


def job_from_row(row: Row) -> Job:
    """From a row of JOB_COLUMNS."""
    lane, suspect, stalled, forgiven, releases, unique_key, *columns = row
    job = _job(columns, lane, suspect == 1)
    job.source_row = source_row_of(unique_key)
    if stalled or forgiven or releases:
        job.rare_fields = RareFields(stalled=stalled, forgiven=forgiven, releases=releases)
    return job


def _job(columns: Row, lane: str, suspect: bool, claims_since: int = 0) -> Job:
    job_id, type_name, payload, attempts, max_attempts, claims, crashes, interruptions, run_at, group_key = columns
    return Job(
        job_id, type_name, lane, payload, attempts + claims_since, max_attempts, claims + claims_since, crashes,
        interruptions, suspect, utc_from_driver(run_at), group_key,
    )  # fmt: skip


def claimable(due: Sequence[Row], fresh: bool) -> Sequence[Row]:
    """The rows that may share a claim. A suspect is claimed alone, and after a crash only by a fresh runner."""
    for number, row in enumerate(due):
        if row[-1] in (0, HAS_RARE_FIELDS):
            continue
        if number > 0:
            return due[:number]
        [suspect] = jobs_from(Claimed([row]), "")
        return due[:1] if fresh or not suspect.crashes else []
    return due


def _lock_due(
    connection: Connection, lane: str, size: int, now: datetime, first_at: Mapping[int, datetime | str]
) -> Claimed:
    """Not claimed yet."""
    found: list[Row] = []
    for priority, since in first_at.items():
        values = {"lane": lane, "priority": priority, "since": since, "now": now, "size": size - len(found)}
        found += connection.execute(due_statement(connection.dialect), values).all()
        if len(found) == size:
            *_, run_at, _group_key, _marker = found[-1]
            return Claimed(found, reached=ClaimCursor(priority, utc_from_driver(run_at)))
    return Claimed(found, was_due=bool(first_at))


@cache
def due_statement(dialect: Dialect) -> str:
    """Begins behind the index entries of claimed jobs that the database has not removed yet.

    InnoDB locks each of them that it visits; the query for due jobs, without locks, passes over them 20 times faster.
    """
    hint = dialect.in_order_of("mayfly_jobs_claim")
    return next_due(CLAIMED_COLUMNS, hint=hint, since=":since") + dialect.claim_lock


@cache
def first_statement(dialect: Dialect) -> str:
    return (
        f"SELECT {CLAIMED_COLUMNS} FROM mayfly_jobs"
        f" WHERE id = :id AND lane = :lane AND status = 'pending' AND run_at <= :now{dialect.claim_lock}"
    )


def _read_rare_fields(
    connection: Connection, ids: Sequence[int]
) -> tuple[Mapping[int, RareFields], Mapping[int, SourceRow]]:
    """Called only for jobs that have any, and before the claim resets started_at.

    A job that has once started in time can no longer expire.
    """
    found = connection.execute(RARE_FIELDS, ids=ids).all()
    in_time = [job_id for job_id, was_in_time, *_ in found if was_in_time]
    if in_time:
        connection.execute(CLEAR_EXPIRY, ids=in_time)
    rare_fields = {
        job_id: RareFields(
            None if was_in_time or expires_at is None else utc_from_driver(expires_at),
            checkpoint,
            slices,
            max(0, stalled),  # a changed checkpoint counts for the run that changed it
            reason,
            releases=releases,
            unknown_since=None if unknown_since is None else utc_from_driver(unknown_since),
        )
        for job_id, was_in_time, expires_at, checkpoint, slices, stalled, reason, releases, unknown_since, *_ in found
    }
    source_rows: dict[int, SourceRow] = {}
    for job_id, *_, unique_key, row_worker_id in found:
        if (row := source_row_of(unique_key)) is not None:
            source_rows[job_id] = row._replace(worker_id=row_worker_id)
    return rare_fields, source_rows
