"""The runners: those that nobody has seen end, and the last that ended."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from mayfly.connection import Connection
from mayfly.jobs.browse.capped import facts_of, read_row


class RunnerView(NamedTuple):
    worker_id: str
    cycle_id: int
    lane: str
    host: str
    pid: int
    planned_at: datetime
    heartbeat_at: datetime | None
    lease_until: datetime
    finished_at: datetime | None
    ending: str | None
    exit_code: int | None
    signal: int | None
    jobs_done: int
    jobs_failed: int
    average_ms: float | None
    peak_memory: int | None
    cpu_ms: int | None

    def facts(self) -> dict[str, Any]:
        return facts_of(self)


NAMES = ", ".join(f"r.{name}" for name in RunnerView._fields)  # SIGNAL is a word of MySQL's language
# The order of the index.
BEFORE = "r.finished_at < :at OR r.lane < :lane OR (r.lane = :lane AND r.worker_id < :after)"


def runners_named(connection: Connection, names: Sequence[str]) -> dict[str, RunnerView]:
    """Those that are still known of them."""
    if not names:
        return {}
    values = {f"name_{number}": name for number, name in enumerate(sorted(set(names)))}
    among = ", ".join(f":{each}" for each in values)
    rows = connection.execute(f"SELECT {NAMES} FROM mayfly_runners AS r WHERE r.worker_id IN ({among})", values)
    views = (RunnerView(**read_row(RunnerView._fields, row)) for row in rows.all())
    return {each.worker_id: each for each in views}


def list_runners(connection: Connection, size: int = 50, live_only: bool = False) -> list[RunnerView]:
    """Those that live first, then the newest that ended."""
    looking = f"SELECT {NAMES} FROM mayfly_runners AS r WHERE r.finished_at"
    rows = connection.execute(f"{looking} IS NULL ORDER BY r.worker_id LIMIT :size", {"size": size}).all()
    if not live_only and len(rows) < size:
        ended = f"{looking} IS NOT NULL ORDER BY r.finished_at DESC LIMIT :size"
        rows = [*rows, *connection.execute(ended, {"size": size - len(rows)}).all()]
    return [RunnerView(**read_row(RunnerView._fields, row)) for row in rows]


def list_ended(connection: Connection, size: int = 50, after: str | None = None) -> list[RunnerView]:
    """Those that ended, the newest first; `after` is the last of the page before, if it is still known."""
    values: dict[str, Any] = {"size": size}
    if after is not None and (last := runners_named(connection, [after]).get(after)) and last.finished_at:
        values |= {"at": last.finished_at, "lane": last.lane, "after": after}
    rows = connection.execute(ended_statement(is_first="at" not in values), values).all()
    return [RunnerView(**read_row(RunnerView._fields, row)) for row in rows]


def ended_statement(is_first: bool) -> str:
    older = "" if is_first else f" AND r.finished_at <= :at AND ({BEFORE})"
    looking = f"SELECT {NAMES} FROM mayfly_runners AS r WHERE r.finished_at IS NOT NULL{older}"
    return f"{looking} ORDER BY r.finished_at DESC, r.lane DESC, r.worker_id DESC LIMIT :size"
