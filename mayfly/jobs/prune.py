"""Delete what is old enough, in small slices, each in its own commit, a bounded number of them a cycle."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Column, ColumnElement, Delete, Select, delete, select

from mayfly import schema
from mayfly.clock import milliseconds
from mayfly.engine import Database
from mayfly.jobs.count import find_lanes
from mayfly.jobs.keep import cutoff
from mayfly.schema import PRIORITIES, JobTable

SLICE = 500
SLICES_PER_CYCLE = 20


@dataclass(frozen=True)
class Keep:
    """Days to keep each kind of row; None keeps it for ever."""

    done: float | None = 7
    cancelled: float | None = 7
    dead: float | None = None
    cycles: float | None = 90
    runners: float | None = 7


@dataclass(frozen=True)
class Search:
    """Finds the keys of the next rows to go."""

    statement: Select[Any]
    key: Column[Any]
    still: tuple[ColumnElement[bool], ...] = ()  # what must hold when they go: somebody may have changed the row


def prune(database: Database, jobs: JobTable, keep: Keep, slices: int = SLICES_PER_CYCLE) -> int:
    """How many rows went. Stops when `slices` deletions are used up: the rest goes in the cycles to come."""
    lanes = database.read(lambda connection: find_lanes(connection, jobs))
    pruned = 0
    for search in searches(jobs, lanes, keep, database.clock.now()):
        gone = SLICE
        while slices > 0 and gone >= SLICE:
            gone = _prune_slice(database, search)
            pruned += gone
            slices -= gone > 0
    return pruned


def _prune_slice(database: Database, search: Search) -> int:
    """Look without a lock, then delete by primary key: no scan holds rows that somebody else may want."""
    keys = list(database.read(lambda connection: connection.execute(search.statement).scalars().all()))
    if not keys:
        return 0
    return database.run(lambda connection: connection.execute(delete_statement(search, keys)).rowcount)


def delete_statement(search: Search, keys: Collection[Any]) -> Delete:
    """A job that was given another try since the look stays."""
    return delete(search.key.table).where(search.key.in_(sorted(set(keys))), *search.still)


def searches(jobs: JobTable, lanes: Sequence[str], keep: Keep, now: datetime) -> Iterator[Search]:
    for status, days in ((jobs.done, keep.done), (jobs.cancelled, keep.cancelled), (jobs.dead, keep.dead)):
        if days is not None:
            for lane in lanes:
                for priority in PRIORITIES:
                    old = finished_statement(jobs, lane, status, priority, cutoff(now, days))
                    yield Search(old, jobs.table.c.id, still=(jobs.c.status == status,))
    if keep.runners is not None:
        finished_at = schema.runners.c.finished_at
        yield _aged(schema.runners.c.worker_id, finished_at, cutoff(now, keep.runners))
    if keep.cycles is not None:
        before = cutoff(now, keep.cycles)
        yield _aged(schema.attempts.c.id, schema.attempts.c.finished_at, before)
        yield _aged(schema.cycles.c.id, schema.cycles.c.started_at, before)
        # A cycle's number is the millisecond in which it began, so the totals need no index of their own.
        yield _aged(schema.totals.c.cycle_id, schema.totals.c.cycle_id, milliseconds(before))


def finished_statement(jobs: JobTable, lane: str, status: str, priority: int, before: datetime) -> Select[Any]:
    """Along the claim index: a job that finished before a time was due before it."""
    c = jobs.c
    return (
        select(c.id)
        .where(c.lane == lane, c.status == status, c.priority == priority)
        .where(c.run_at < before, c.finished_at < before)
        .order_by(c.run_at, c.id)
        .limit(SLICE)
    )


def _aged(key: Column[Any], age: Column[Any], before: Any) -> Search:
    return Search(select(key).where(age < before).order_by(age).limit(SLICE), key)
