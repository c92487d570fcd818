"""Claim a single job without a transaction: most claims of a runner that waits for the next job."""

from collections.abc import Sequence
from datetime import datetime
from functools import cache

from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.db.dialects import Dialect, Values
from mayfly.errors import DatabaseBusy
from mayfly.queue.claim import COLUMNS_BEFORE_CLAIM, MARKER, SET_OWNER, Claimant, Claimed, Row

# Only a job that needs no second statement: no suspect, and none of the rare fields.
IS_PLAIN = f"lane = :lane AND status = 'pending' AND run_at <= :now AND {MARKER} = 0"
CLAIM_IF_PLAIN = f"{SET_OWNER} WHERE id = :id AND {IS_PLAIN}"
SELECT_SINGLE = (
    f"SELECT {COLUMNS_BEFORE_CLAIM} FROM mayfly_jobs WHERE id = :id AND worker_id = :worker_id AND locked_at = :now"
)


def claim_single(database: Database, claimant: Claimant, job_id: int, now: datetime) -> Claimed | None:
    """A due job that was the only one a moment ago. None if another claim has it, or if it needs a transaction."""
    values = {
        "id": job_id,
        "lane": claimant.lane,
        "worker_id": claimant.worker_id,
        "lease_until": claimant.lease_until,
        "now": now,
    }
    write = _claim_returning if database.dialect.has_update_returning else _claim_by_id
    try:
        rows = database.once(lambda connection: write(connection, values), max_tries=1)
    except DatabaseBusy:  # another transaction has locked the row for long: other claims skip it
        return None
    # After a lost reply, the repeated statement finds a job that is ours already.
    rows = rows or database.read(lambda connection: connection.execute(SELECT_SINGLE, values).all())
    return Claimed(rows) if rows else None


def _claim_returning(connection: Connection, values: Values) -> Sequence[Row]:
    return connection.execute(returning_statement(connection.dialect), values).all()


def _claim_by_id(connection: Connection, values: Values) -> Sequence[Row]:
    """The rows are selected afterwards."""
    connection.execute(CLAIM_IF_PLAIN, values)
    return ()


@cache
def returning_statement(dialect: Dialect) -> str:
    """A row that another transaction has locked is skipped."""
    free = f"id = (SELECT id FROM mayfly_jobs WHERE id = :id AND {IS_PLAIN}{dialect.claim_lock})"
    return f"{SET_OWNER} WHERE {free} RETURNING {COLUMNS_BEFORE_CLAIM}"
