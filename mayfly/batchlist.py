"""What `mayfly batches` shows: those that are open, and the last that are not."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from mayfly.connection import Connection
from mayfly.dialect import utc_from_driver
from mayfly.jobs.batches import count_statement
from mayfly.schema import JobTable

MOST_OPEN = 100
MOST_RECENT = 20

_COLUMNS = "batch_key, created_at, sealed_at, completed_at, abandoned_at"
OPEN = f"SELECT {_COLUMNS} FROM mayfly_batches WHERE completed_at IS NULL ORDER BY created_at LIMIT {MOST_OPEN}"
RECENT = (
    f"SELECT {_COLUMNS} FROM mayfly_batches WHERE completed_at IS NOT NULL"
    f" ORDER BY completed_at DESC LIMIT {MOST_RECENT}"
)


@dataclass(frozen=True)
class ListedBatch:
    batch: str
    state: str  # being filled, open, complete, abandoned
    left: int
    done: int
    dead: int
    cancelled: int
    since: datetime
    completed_at: datetime | None

    def facts(self) -> dict[str, Any]:
        ended = self.completed_at and self.completed_at.isoformat(timespec="seconds")
        return {**asdict(self), "since": self.since.isoformat(timespec="seconds"), "completed_at": ended}


def list_batches(connection: Connection, jobs: JobTable) -> list[ListedBatch]:
    rows = [*connection.execute(OPEN).all(), *connection.execute(RECENT).all()]
    return [_listed(connection, jobs, *row) for row in rows]


def _listed(connection: Connection, jobs: JobTable, key: str, created_at: Any, *ends: Any) -> ListedBatch:
    counted = dict(connection.execute(count_statement(jobs), {"key": key}).all())
    completed_at = ends[1]
    return ListedBatch(
        batch=key,
        state=_state(*ends),
        left=counted.get(jobs.pending, 0) + counted.get(jobs.processing, 0),
        done=counted.get(jobs.done, 0),
        dead=counted.get(jobs.dead, 0),
        cancelled=counted.get(jobs.cancelled, 0),
        since=utc_from_driver(created_at),
        completed_at=completed_at and utc_from_driver(completed_at),
    )


def _state(sealed_at: Any, completed_at: Any, abandoned_at: Any) -> str:
    if abandoned_at:
        return "abandoned"
    if completed_at:
        return "complete"
    return "open" if sealed_at else "being filled"


def render(listed: Sequence[ListedBatch]) -> str:
    if not listed:
        return "There are no batches. See docs/batches.md."
    lines: list[tuple[str, ...]] = [("batch", "state", "left", "done", "dead", "cancelled", "since (UTC)")]
    for each in listed:
        figures = map(str, (each.left, each.done, each.dead, each.cancelled))
        lines.append((each.batch, each.state, *figures, f"{each.since:%Y-%m-%d %H:%M:%S}"))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)
