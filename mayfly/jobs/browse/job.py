"""One job with everything that is known of it: its row, its attempts, its batch and chain, and why it is as it is."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from mayfly import jsontext
from mayfly.connection import Connection
from mayfly.errors import UnknownJob
from mayfly.jobs.browse.capped import MOST_COUNTED, Capped, facts_of, read_row, told
from mayfly.jobs.circumstances import look_into
from mayfly.jobs.why import Reason, explain
from mayfly.registry import Registry
from mayfly.schema import JobTable
from mayfly.settings import Settings

MOST_ATTEMPTS = 100
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


class Event(NamedTuple):
    """A line of a job's timeline."""

    at: datetime
    text: str


class BatchView(NamedTuple):
    batch: str
    jobs: Capped
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
    timeline: tuple[Event, ...]

    def facts(self) -> dict[str, Any]:
        times = {name: told(value) for name, value in self.row.items() if isinstance(value, datetime)}
        return {
            **self.row,
            **times,
            "history": [facts_of(each) for each in self.attempts],
            "reasons": [{"why": each.name, "text": each.text} for each in self.reasons],
            "batch": self.batch and facts_of(self.batch),
            "steps": list(self.steps),
            "timeline": [facts_of(each) for each in self.timeline],
        }


def read_job(
    connection: Connection, jobs: JobTable, job_id: int, settings: Settings, registry: Registry, now: datetime
) -> JobView:
    found = connection.execute(row_statement(jobs), {"id": job_id}).first()
    if found is None:
        raise UnknownJob(job_id)
    row = dict(read_row(COLUMNS, found))
    row |= {name: _value(row[name]) for name in JSON if row[name] is not None}
    row["status"] = jobs.word_of(row["status"])
    attempts = tuple(_attempts(connection, job_id))
    return JobView(
        row=row,
        attempts=attempts,
        reasons=tuple(explain(look_into(connection, jobs, job_id, settings, registry, now))),
        batch=None if row["group_key"] is None else _batch(connection, jobs, row["group_key"]),
        steps=tuple(_steps(connection, job_id)),
        timeline=tuple(sorted(timeline(row, attempts))),
    )


def _value(text: str) -> Any:
    """What came by plain SQL may be nested too deep for Python: then its text must do."""
    try:
        return jsontext.decode(text)
    except ValueError:
        return text


def timeline(row: Mapping[str, Any], attempts: tuple[Attempt, ...]) -> Iterator[Event]:
    """What is known to have happened, and what is to come. Pure."""
    yield Event(row["created_at"], "enqueued")
    for each in attempts:
        message = each.error.partition("\n")[0]
        yield Event(each.finished_at, f"attempt {each.attempt} {each.outcome} ({each.worker_id}): {message}")
    if row["locked_at"]:
        yield Event(row["locked_at"], f"claimed by {row['worker_id']}")
    if row["started_at"]:
        yield Event(row["started_at"], "started")
    if row["finished_at"]:
        yield Event(row["finished_at"], row["status"])
    elif row["status"] == "pending":
        yield Event(row["run_at"], "due")


ATTEMPTS = f"SELECT {', '.join(Attempt._fields)} FROM mayfly_attempts WHERE job_id = :id ORDER BY id DESC LIMIT :size"
BATCH = "SELECT sealed_at, completed_at, abandoned_at FROM mayfly_batches WHERE batch_key = :key"
CHAIN = "SELECT rest FROM mayfly_chains WHERE job_id = :id"


def _attempts(connection: Connection, job_id: int) -> Iterator[Attempt]:
    rows = connection.execute(ATTEMPTS, {"id": job_id, "size": MOST_ATTEMPTS}).all()
    return (Attempt(**read_row(Attempt._fields, row)) for row in reversed(rows))


def _batch(connection: Connection, jobs: JobTable, key: str) -> BatchView | None:
    found = connection.execute(BATCH, {"key": key}).first()
    if found is None:
        return None
    counted = count_group(connection, jobs, key)
    times = read_row(("sealed_at", "completed_at", "abandoned_at"), found)
    return BatchView(key, Capped.of(sum(counted.values()), MOST_COUNTED), counted, **times)


def count_group(connection: Connection, jobs: JobTable, key: str) -> dict[str, int]:
    """How many of its jobs are what; of the newest MOST_COUNTED + 1."""
    rows = connection.execute(group_statement(jobs), {"key": key, "size": MOST_COUNTED + 1}).all()
    return {jobs.word_of(status): int(number) for status, number in rows}


def _steps(connection: Connection, job_id: int) -> list[str]:
    rest = connection.execute(CHAIN, {"id": job_id}).scalar()
    return [] if rest is None else [each["type"] for each in jsontext.decode(rest)]


@cache
def row_statement(jobs: JobTable) -> str:
    columns = ", ".join(getattr(jobs.c, name) for name in COLUMNS)
    return f"SELECT {columns} FROM {jobs.table} WHERE {jobs.c.id} = :id"


@cache
def group_statement(jobs: JobTable) -> str:
    """No further than is worth saying: a batch may have a million jobs."""
    c = jobs.c
    newest = f"SELECT {c.status} FROM {jobs.table} WHERE {c.group_key} = :key ORDER BY {c.id} DESC LIMIT :size"
    return f"SELECT {c.status}, COUNT(*) FROM ({newest}) AS newest GROUP BY {c.status}"
