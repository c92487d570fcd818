"""One job with everything that is known of it: its row, its attempts, its batch and chain, and why it is as it is."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from mayfly import json_text
from mayfly.admin.jobs import MAX_COUNTED, CappedCount, facts_of, isoformat, read_row
from mayfly.admin.why import Reason, diagnose, explain
from mayfly.db.connection import Connection
from mayfly.errors import UnknownJob
from mayfly.registry import Registry
from mayfly.settings import Settings

MAX_ATTEMPTS_SHOWN = 100
COLUMNS = (
    "id", "lane", "type", "payload", "status", "priority", "run_at", "attempts", "max_attempts", "crashes",
    "interruptions", "suspect", "claims", "worker_id", "locked_at", "lease_until", "unique_key", "group_key",
    "checkpoint", "progress", "result", "last_error", "created_at", "started_at", "finished_at", "duration_ms",
    "expires_at", "waiting_for", "cancel_reason", "slices", "unique_scope", "unique_until", "trace_context",
    "parent_id",
)  # fmt: skip
JSON = ("payload", "checkpoint", "progress", "result")


class Attempt(NamedTuple):
    attempt: int
    worker_id: str
    outcome: str
    error: str
    fingerprint: str
    finished_at: datetime
    duration_ms: int | None


class TimelineEvent(NamedTuple):
    """A line of a job's timeline."""

    at: datetime
    text: str


class BatchView(NamedTuple):
    batch: str
    jobs: CappedCount
    by_status: Mapping[str, int]  # of those that were counted
    sealed_at: datetime | None
    completed_at: datetime | None
    abandoned_at: datetime | None


class JobView(NamedTuple):
    row: Mapping[str, Any]  # its columns, JSON as values
    attempts: tuple[Attempt, ...]  # the oldest first; the last ones where there are many
    reasons: tuple[Reason, ...]  # why it does not run, or what became of it
    batch: BatchView | None
    steps: tuple[str, ...]  # the types that follow in its chain
    timeline: tuple[TimelineEvent, ...]

    def facts(self) -> dict[str, Any]:
        times = {name: isoformat(value) for name, value in self.row.items() if isinstance(value, datetime)}
        return {
            **self.row,
            **times,
            "history": [facts_of(each) for each in self.attempts],
            "reasons": [{"why": each.name, "text": each.text} for each in self.reasons],
            "batch": self.batch and facts_of(self.batch),
            "steps": list(self.steps),
            "timeline": [facts_of(each) for each in self.timeline],
        }


def read_job(connection: Connection, job_id: int, settings: Settings, registry: Registry, now: datetime) -> JobView:
    found = connection.execute(row_statement(), {"id": job_id}).first()
    if found is None:
        raise UnknownJob(job_id)
    row = dict(read_row(COLUMNS, found))
    row |= {name: _value(row[name]) for name in JSON if row[name] is not None}
    row["status"] = row["status"]
    attempts = tuple(_attempts(connection, job_id))
    return JobView(
        row=row,
        attempts=attempts,
        reasons=tuple(explain(diagnose(connection, job_id, settings, registry, now))),
        batch=None if row["group_key"] is None else _batch(connection, row["group_key"]),
        steps=tuple(_steps(connection, job_id)),
        timeline=tuple(sorted(timeline(row, attempts))),
    )


def _value(text: str) -> Any:
    """What came by plain SQL may be nested too deep for Python: then its text must do."""
    try:
        return json_text.decode(text)
    except ValueError:
        return text


def timeline(row: Mapping[str, Any], attempts: tuple[Attempt, ...]) -> Iterator[TimelineEvent]:
    """What is known to have happened, and what is to come. Pure."""
    yield TimelineEvent(row["created_at"], "enqueued")
    for each in attempts:
        message = each.error.partition("\n")[0]
        yield TimelineEvent(each.finished_at, f"attempt {each.attempt} {each.outcome} ({each.worker_id}): {message}")
    if row["locked_at"]:
        yield TimelineEvent(row["locked_at"], f"claimed by {row['worker_id']}")
    if row["started_at"]:
        yield TimelineEvent(row["started_at"], "started")
    if row["finished_at"]:
        yield TimelineEvent(row["finished_at"], row["status"])
    elif row["status"] == "pending":
        yield TimelineEvent(row["run_at"], "due")


ATTEMPTS = f"SELECT {', '.join(Attempt._fields)} FROM mayfly_attempts WHERE job_id = :id ORDER BY id DESC LIMIT :size"
BATCH = "SELECT sealed_at, completed_at, abandoned_at FROM mayfly_batches WHERE batch_key = :key"
CHAIN = "SELECT rest FROM mayfly_chains WHERE job_id = :id"


def _attempts(connection: Connection, job_id: int) -> Iterator[Attempt]:
    rows = connection.execute(ATTEMPTS, {"id": job_id, "size": MAX_ATTEMPTS_SHOWN}).all()
    return (Attempt(**read_row(Attempt._fields, row)) for row in reversed(rows))


def _batch(connection: Connection, key: str) -> BatchView | None:
    found = connection.execute(BATCH, {"key": key}).first()
    if found is None:
        return None
    counted = count_group(connection, key)
    times = read_row(("sealed_at", "completed_at", "abandoned_at"), found)
    return BatchView(key, CappedCount.of(sum(counted.values()), MAX_COUNTED), counted, **times)


def count_group(connection: Connection, key: str) -> dict[str, int]:
    """How many of its jobs are what; of the newest MOST_COUNTED + 1."""
    rows = connection.execute(group_statement(), {"key": key, "size": MAX_COUNTED + 1}).all()
    return {status: int(number) for status, number in rows}


def _steps(connection: Connection, job_id: int) -> list[str]:
    rest = connection.execute(CHAIN, {"id": job_id}).scalar()
    return [] if rest is None else [each["type"] for each in json_text.decode(rest)]


@cache
def row_statement() -> str:
    columns = ", ".join(name for name in COLUMNS)
    return f"SELECT {columns} FROM mayfly_jobs WHERE id = :id"


@cache
def group_statement() -> str:
    """No further than is worth saying: a batch may have a million jobs."""
    newest = "SELECT status FROM mayfly_jobs WHERE group_key = :key ORDER BY id DESC LIMIT :size"
    return f"SELECT status, COUNT(*) FROM ({newest}) AS newest GROUP BY status"


MAX_CHILDREN = 20
MAX_SHOWN = 5  # on each side


class Relative(NamedTuple):
    id: int
    type: str
    status: str
    created_at: datetime


class Family(NamedTuple):
    """Of a chain, those before it are the steps that led to it, and those after it those that it led to."""

    parent: Relative | None = None  # None also where it is no longer kept
    children: tuple[Relative, ...] = ()  # the oldest first
    has_more: bool = False  # children
    before: tuple[Relative, ...] = ()  # the nearest last
    after: tuple[Relative, ...] = ()


def read_family(connection: Connection, job_id: int, parent_id: int | None, group_key: str | None) -> Family:

    def read(where: str, order: str, size: int, **values: Any) -> list[Relative]:
        found = connection.execute(relatives_statement(where, order), {**values, "size": size}).all()
        return [_relative(row) for row in found]

    parents = [] if parent_id is None else read("id = :id", "ASC", 1, id=parent_id)
    children = read("parent_id = :id", "ASC", MAX_CHILDREN + 1, id=job_id)
    family = Family(parents[0] if parents else None, tuple(children[:MAX_CHILDREN]), len(children) > MAX_CHILDREN)
    if group_key is None:
        return family
    before = read("group_key = :key AND id < :id", "DESC", MAX_SHOWN, key=group_key, id=job_id)
    after = read("group_key = :key AND id > :id", "ASC", MAX_SHOWN, key=group_key, id=job_id)
    return family._replace(before=tuple(reversed(before)), after=tuple(after))


def _relative(row: Any) -> Relative:
    known = read_row(Relative._fields, row)
    return Relative(**{**known, "status": known["status"]})


@cache
def relatives_statement(where: str, order: str) -> str:
    columns = ", ".join(name for name in Relative._fields)
    return f"SELECT {columns} FROM mayfly_jobs WHERE {where} ORDER BY id {order} LIMIT :size"
