"""An application's table `posts` and the source that processes it, for the tests of the database suite."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import BigInteger, Column, DateTime, Integer, MetaData, Row, String, Table, select

from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.job import Job
from mayfly.queue.claim import Claimed, claim, jobs_from
from mayfly.queue.outcome import DONE, Outcome, OutcomeKind, Settlement, Settler
from mayfly.queue.settle import Settled, settle
from mayfly.queue.source_claim import RowClaim, RowCompanion, reclaim_rows
from mayfly.queue.source_table import SourceTable
from mayfly.queue.sources import Sources, count_rows
from mayfly.settings.source_model import SourceModel
from mayfly.settings.values import SourceSettings
from tests.database.factories import CYCLE, make_claimant, rows_of
from tests.sqlalchemy_engines import run

LANE = "posts"
SETTINGS: dict[str, Any] = {
    "table": "posts", "type": "noop", "run_at": "run_at", "pending": "pending", "processing": "processing",
    "done": "published", "failed": "failed", "cancelled": "withdrawn", "worker_id": "worker_id",
    "locked_at": "locked_at", "attempts": "retry_count", "error": "last_error", "finished_at": "published_at",
    "payload": ["title"],
}  # fmt: skip


def make_source(**changes: Any) -> SourceSettings:
    """None removes a setting."""
    settings = {name: value for name, value in (SETTINGS | changes).items() if value is not None}
    return SourceSettings(**{**dict(SourceModel.model_validate(settings)), "name": LANE, "lane": LANE})


def posts_table(**changes: Any) -> Table:
    """Columns by name: a type instead of the usual one, or None to leave the column out."""
    types: dict[str, Any] = {
        "id": BigInteger(), "title": String(40), "run_at": DateTime(), "status": String(20), "priority": String(10),
        "worker_id": String(60), "locked_at": DateTime(), "retry_count": Integer(), "last_error": String(200),
        "published_at": DateTime(),
    } | changes  # fmt: skip
    columns = [
        Column(name, each, primary_key=name == "id", autoincrement=False)
        for name, each in types.items()
        if each is not None
    ]
    return Table("posts", MetaData(), *columns)


@dataclass
class Posts:
    """The table as its application sees it, and what runners do with it."""

    database: Database
    table: Table
    source: SourceSettings

    def __post_init__(self) -> None:
        run(self.database, self.table.metadata.create_all)
        self.sources = Sources([self.source], self.database.dialect)

    @property
    def statements(self) -> SourceTable:
        return self.sources.tables[LANE]

    # --- the application ---

    def insert(self, *keys: Any, **columns: Any) -> None:
        """Rows that have been due for a minute."""
        due = self.minutes_ago(1) if "run_at" in self.table.columns else None
        row = {"status": "pending", **({"run_at": due} if due else {}), **columns}
        rows = [{"id": key, **row} for key in keys]
        run(self.database, lambda connection: connection.execute(self.table.insert(), rows))

    def minutes_ago(self, minutes: float) -> datetime:
        """As the column stores it: UTC without a zone, in seconds."""
        return (self.database.clock.now() - timedelta(minutes=minutes)).replace(tzinfo=None, microsecond=0)

    def change(self, key: Any, **columns: Any) -> None:
        statement = self.table.update().where(self.table.c.id == key).values(**columns)
        run(self.database, lambda connection: connection.execute(statement))

    def delete(self, key: Any) -> None:
        run(self.database, lambda connection: connection.execute(self.table.delete().where(self.table.c.id == key)))

    def row(self, key: Any) -> Row[Any]:
        statement = select(self.table).where(self.table.c.id == key)
        return run(self.database, lambda connection: connection.execute(statement).one())

    def statuses(self) -> dict[Any, Any]:
        return {row.id: row.status for row in rows_of(self.database, self.table)}

    # --- Mayfly ---

    def count(self, cap: int = 1000, now: datetime | None = None) -> int:
        now = now or self.database.clock.now()
        return self.database.read(lambda connection: count_rows(connection, self.statements, now, cap))

    def claim(self, size: int = 10, worker_id: str = "worker-1", max_attempts: int = 5) -> list[Job]:
        """The jobs of the rows that a runner claims now."""
        claimant, now = make_claimant(self.database, worker_id, lane=LANE), self.database.clock.now()

        def work(connection: Connection) -> list[RowCompanion]:
            rows = RowClaim(connection, self.sources, self.statements, claimant, max_attempts, now)
            return rows.take(rows.lock(size).rows)

        return [each.job() for each in self.database.run(work)]

    def claim_one(self, **options: Any) -> Job:
        [job] = self.claim(1, **options)
        return job

    def claimed_keys(self, size: int = 10) -> list[str]:
        return [job.source_row.key for job in self.claim(size) if job.source_row is not None]

    def claim_retry(self, worker_id: str = "worker-2") -> Job:
        """The job of a row, claimed again."""
        claimant, now = make_claimant(self.database, worker_id, lane=LANE), self.database.clock.now()

        def work(connection: Connection) -> Claimed:
            claimed = claim(connection, claimant, 1, now)
            rows = reclaim_rows(connection, self.sources, claimed.source_rows, worker_id, now)
            return claimed._replace(source_rows=rows)

        [job] = jobs_from(self.database.run(work), LANE)
        return job

    def settle(self, job: Job, outcome: Outcome = DONE, worker_id: str = "worker-1") -> Settled:
        return settle(self.database, self.settler(worker_id), [Settlement(job, outcome, duration_ms=3)], {})

    def settler(self, worker_id: str = "worker-1") -> Settler:
        return Settler(worker_id, CYCLE, worker_id, sources=self.sources)

    def fail(self, job: Job, worker_id: str = "worker-1", error: str = "RuntimeError: no") -> None:
        """Its retry is due at once."""
        self.settle(job, failed(self.database.clock.now(), error), worker_id)


def failed(run_at: datetime, error: str = "RuntimeError: no") -> Outcome:
    return Outcome(OutcomeKind.FAILED, run_at=run_at, error=error, fingerprint="f", attempt_ending=OutcomeKind.FAILED)


DEAD = Outcome(OutcomeKind.DEAD, error="RuntimeError: no", fingerprint="f", attempt_ending=OutcomeKind.FAILED)
CANCELLED = Outcome(OutcomeKind.CANCELLED, error="no longer wanted")


def make_posts(database: Database, columns: dict[str, Any] | None = None, /, **settings: Any) -> Posts:
    return Posts(database, posts_table(**(columns or {})), make_source(**settings))
