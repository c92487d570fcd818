"""Rows that are old go, a thousand in a commit: a table that was let alone for years is nobody's outage."""

from datetime import datetime, timedelta
from typing import Any

from mayfly import Job

STEP = 1000


def remove_older(job: Job, table: str, column: str, age: timedelta, *, only: str = "1 = 1") -> int:
    """How many rows are gone; ended at a checkpoint when its window nears the end, and continued in the next."""
    before = job.now - age
    kept = {table: 0, **(job.state or {})}
    while removed := _remove_step(job, table, column, before, only):
        kept[table] += removed
        job.progress(kept[table], text=f"rows of {table}")
        job.checkpoint(kept)
    return int(kept[table])


def _remove_step(job: Job, table: str, column: str, before: datetime, only: str) -> int:
    """How many are gone. Those that another has locked are left to it, and so is what is used again just now."""
    old = f"{column} < :before AND {only}"
    find = f"SELECT id FROM {table} WHERE {old} ORDER BY {column}, id LIMIT {STEP}"
    asked = {"before": before}

    def remove(connection: Any) -> int:
        ids = connection.execute(f"{find}{connection.dialect.claim_lock}", asked).scalars()
        if ids:
            connection.execute(f"DELETE FROM {table} WHERE {{ids of id}}", ids=ids)
        return len(ids)

    return job.write(remove)
