"""Addresses that receive no more mail, because they bounced, unsubscribed or complained."""

from collections.abc import Sequence

from sqlalchemy import Column, String, Table, select

from handlers.schema import LongText, UtcTimestamp, metadata
from handlers.upsert import insert_missing
from mayfly import Job

BOUNCED, UNSUBSCRIBED = "bounced", "unsubscribed"

suppressions = Table(
    "app_suppressions",
    metadata,
    Column("address", String(190), primary_key=True),  # canonical
    Column("reason", String(16), nullable=False),
    Column("detail", LongText),
    Column("created_at", UtcTimestamp, nullable=False),
)


def canonical(address: str) -> str:
    """Convert to lower case: in practice no two mailboxes differ only in case."""
    return address.strip().lower()


def suppress(job: Job, address: str, reason: str, detail: str | None = None) -> None:
    """An address that is already suppressed keeps its first reason."""
    row = {"address": canonical(address), "reason": reason, "detail": detail, "created_at": job.now}
    job.write(lambda connection: insert_missing(connection, suppressions, row))


def suppressed(job: Job, addresses: Sequence[str]) -> dict[str, str]:
    """Which of these canonical addresses are suppressed, with the reasons."""
    if not addresses:
        return {}
    found = select(suppressions.c.address, suppressions.c.reason).where(suppressions.c.address.in_(addresses))
    return job.read(lambda connection: {row.address: row.reason for row in connection.execute(found)})
