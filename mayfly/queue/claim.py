"""Claim a batch: lock due rows, write the new owner, commit. No handler runs before the commit is known."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

from mayfly.db.connection import Connection
from mayfly.db.dialects import Dialect, utc_from_driver
from mayfly.job import Job, RareFields
from mayfly.queue.count import due_priorities, next_due

Found = Sequence[Any]  # a row, in the order of `_columns`
RARE_COLUMNS = 2
BUNDLED = 5  # columns, where the last are one text


@dataclass(frozen=True)
class Claimant:
    """Who claims: a runner in its lane, until when its lease holds."""

    worker_id: str
    lane: str
    lease_until: datetime
    fresh: bool = True  # has run nothing yet: only such a runner may take a job that killed another
    begins_with: int | None = None  # an interrupted job, which comes before all others


class ClaimCursor(NamedTuple):
    """Up to where a lane's due jobs were claimed moments ago: the next claim may begin there."""

    priority: int
    run_at: datetime


class Claimed(NamedTuple):
    """Rows as they were found, and of those that are special what is."""

    rows: Sequence[Found]
    specials: Mapping[int, RareFields] = MappingProxyType({})
    needs_fresh: bool = False  # the next job has killed a runner: it, and whatever is behind it, is for another one
    was_due: bool = True  # something was; if no row was found, somebody else has locked it
    front: ClaimCursor | None = None  # of a claim that found as many as it asked for


def claim(
    connection: Connection,
    claimant: Claimant,
    size: int,
    now: datetime,
    front: ClaimCursor | None = None,
) -> Claimed:
    """The next due high priority first, oldest first, now owned by the claimant.

    As they were found: to make them Jobs is left to `jobs_from`, when nobody waits for our locks any more.
    """
    first = _first(connection, claimant, now) if claimant.begins_with is not None else ()
    looked = Claimed(first) if first else _due(connection, claimant.lane, size, now, front)
    taken = joined_jobs(looked.rows, claimant.fresh)
    if not taken:
        return Claimed((), needs_fresh=bool(looked.rows), was_due=looked.was_due)
    special = [row[0] for row in taken if row[1] >= RARE_COLUMNS]
    specials = _rare_fields(connection, special) if special else {}
    values = {"worker_id": claimant.worker_id, "now": now, "lease_until": claimant.lease_until}
    connection.execute(claim_statement(), values, ids=[row[0] for row in taken])
    return Claimed(taken, specials, front=looked.front if len(taken) == size else None)


def _due(connection: Connection, lane: str, size: int, now: datetime, front: ClaimCursor | None) -> Claimed:
    """Nothing is claimed yet."""
    found: list[Found] = []
    priorities = due_priorities(connection, lane, now)
    for priority in priorities:
        wanted = {"lane": lane, "priority": priority, "now": now, "size": size - len(found)}
        found += _due_of(connection, wanted, front)
        if len(found) == size:
            return Claimed(found, front=ClaimCursor(priority, _run_at(found[-1])))
    return Claimed(found, was_due=bool(priorities))


def _due_of(connection: Connection, wanted: dict[str, Any], front: ClaimCursor | None) -> Sequence[Found]:
    """Of one priority. Where there are not enough behind the front, what is before it is looked for, too."""
    if front is not None and front.priority == wanted["priority"]:
        statement = from_cursor_statement(connection.dialect)
        found = connection.execute(statement, {**wanted, "since": front.run_at}).all()
        if len(found) == wanted["size"]:
            return found
    return connection.execute(due_statement(connection.dialect), wanted).all()


def _first(connection: Connection, claimant: Claimant, now: datetime) -> Sequence[Found]:
    """Alone: whatever came with it would have to wait for as long as it takes."""
    wanted = {"id": claimant.begins_with, "lane": claimant.lane, "now": now}
    return connection.execute(first_statement(connection.dialect), wanted).all()


def jobs_from(claimed: Claimed, lane: str) -> list[Job]:
    claimed_jobs = [_job(row, lane) for row in claimed.rows]
    for job in claimed_jobs if claimed.specials else ():
        job.special = claimed.specials.get(job.id)
    return claimed_jobs


def _rare_fields(connection: Connection, ids: Sequence[int]) -> Mapping[int, RareFields]:
    """What few jobs have is asked for where there is any: the others pay nothing for it.

    Before the claim wipes out when they were started last: one that was started in time can't expire any more.
    """
    found = connection.execute(rare_fields_statement(), ids=ids).all()
    in_time = [job_id for job_id, was_in_time, *_ in found if was_in_time]
    if in_time:
        connection.execute(in_time_statement(), ids=in_time)
    return {
        job_id: _rare_fields_of(None if was_in_time else expires_at, *rest)
        for job_id, was_in_time, expires_at, *rest in found
    }


def _rare_fields_of(
    expires_at: Any, checkpoint: str | None, slices: int, stalled: int, cancel_reason: str | None
) -> RareFields:
    """A run begins where it stands: that an earlier one, which failed or crashed, had moved is not its merit."""
    expires = None if expires_at is None else utc_from_driver(expires_at)
    return RareFields(expires, checkpoint, slices, max(0, stalled), cancel_reason)


@cache
def due_statement(dialect: Dialect) -> str:
    return next_due(_columns(dialect)) + dialect.claim_lock


@cache
def from_cursor_statement(dialect: Dialect) -> str:
    """Passes over the index entries of what was claimed already and is not yet removed: a third of the whole look."""
    hint = dialect.in_order_of("mayfly_jobs_claim")
    return next_due(_columns(dialect), hint=hint, since=":since") + dialect.claim_lock


@cache
def first_statement(dialect: Dialect) -> str:
    still = "id = :id AND lane = :lane AND status = 'pending' AND run_at <= :now"
    return f"SELECT {_columns(dialect)} FROM mayfly_jobs WHERE {still}{dialect.claim_lock}"


def _columns(dialect: Dialect) -> str:
    figures = dialect.bundled(" ", ["attempts", "max_attempts", "claims", "crashes", "interruptions"])
    rest = dialect.bundled("|", [*figures, "run_at", "type"])
    return ", ".join(["id", marker(), "payload", "group_key", *rest])


def marker() -> str:
    """In one number: whether the job is a suspect, and whether it has what few have."""
    has_any = " OR ".join(f"{each} IS NOT NULL" for each in ("expires_at", "checkpoint", "cancel_reason"))
    return f"suspect + CASE WHEN {has_any} THEN {RARE_COLUMNS} ELSE 0 END"


@cache
def rare_fields_statement() -> str:
    # A suspect's runner died over it, or may have: it counts as started.
    was_in_time = "CASE WHEN started_at IS NOT NULL OR suspect = 1 THEN expires_at IS NOT NULL END"
    columns = ", ".join(("id", was_in_time, "expires_at", "checkpoint", "slices", "stalled", "cancel_reason"))
    return f"SELECT {columns} FROM mayfly_jobs WHERE {{ids of id}}"


@cache
def in_time_statement() -> str:
    return "UPDATE mayfly_jobs SET expires_at = NULL WHERE {ids of id}"


@cache
def claim_statement() -> str:
    """By primary key only: two claims can never wait for each other crosswise."""
    return (
        "UPDATE mayfly_jobs SET status = 'processing', worker_id = :worker_id, locked_at = :now,"
        " lease_until = :lease_until, started_at = NULL, attempts = attempts + 1,"
        " claims = claims + 1 WHERE {ids of id}"
    )


def joined_jobs(found: Sequence[Found], fresh: bool) -> Sequence[Found]:
    """What may share a claim. A suspect is taken alone, one that killed its process only by a fresh runner."""
    for number, row in enumerate(found):
        if row[1] in (0, RARE_COLUMNS):
            continue
        if number > 0:
            return found[:number]
        return found[:1] if fresh or not _job(row, "").crashes else []
    return found


def _job(row: Found, lane: str) -> Job:
    """By position, in the order of `_columns`: to look columns up by name costs more than the rest of this."""
    job_id, marked, payload, group_key, *rest = row
    figures = _parted(*rest) if len(row) == BUNDLED else rest
    attempts, max_attempts, claims, crashes, interruptions, run_at, type_name = figures
    return Job(
        job_id, type_name, lane, payload, attempts + 1, max_attempts, claims + 1, crashes, interruptions,
        marked % RARE_COLUMNS == 1, utc_from_driver(run_at), group_key,
    )  # fmt: skip


def _run_at(row: Found) -> datetime:
    *_, run_at, _type = _parted(row[-1]) if len(row) == BUNDLED else row
    return utc_from_driver(run_at)


def _parted(text: str) -> tuple[Any, ...]:
    figures, run_at, type_name = text.split("|", 2)
    return *_figures(figures), run_at, type_name


@cache
def _figures(text: str) -> tuple[int, ...]:
    """Looked up, mostly: the jobs of a lane have but a few different ones."""
    return tuple(map(int, text.split()))
