"""Addresses that receive no more mail of a tenant, because they bounced, unsubscribed or complained."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Column, Connection, Select, String, Table, bindparam, select

from handlers.schema import LongText, UtcTimestamp, metadata, tenant_column
from handlers.upsert import insert_missing
from mayfly import Job

BOUNCED, UNSUBSCRIBED = "bounced", "unsubscribed"

suppressions = Table(
    "app_suppressions",
    metadata,
    tenant_column(primary_key=True),
    Column("address", String(190), primary_key=True),  # canonical
    Column("reason", String(16), nullable=False),
    Column("detail", LongText),
    Column("created_at", UtcTimestamp, nullable=False),
)

# A constant, because building a statement takes longer than its execution.
AMONG: Select[tuple[str, str]] = select(suppressions.c.address, suppressions.c.reason).where(
    suppressions.c.tenant_id == bindparam("tenant"),
    suppressions.c.address.in_(bindparam("addresses", expanding=True)),
)


def canonical(address: str) -> str:
    """Convert to lower case: in practice no two mailboxes differ only in case."""
    return address.strip().lower()


def suppress(job: Job, tenant_id: str, address: str, reason: str, detail: str | None = None) -> None:
    job.write(lambda connection: suppress_on(connection, tenant_id, address, reason, job.now, detail))


def suppress_on(
    connection: Connection, tenant_id: str, address: str, reason: str, now: datetime, detail: str | None = None
) -> None:
    """Part of the caller's transaction. An address that is already suppressed keeps its first reason."""
    row = {"tenant_id": tenant_id, "address": canonical(address), "reason": reason}
    insert_missing(connection, suppressions, {**row, "detail": detail, "created_at": now})


def suppressed(job: Job, tenant_id: str, addresses: Sequence[str]) -> dict[str, str]:
    """Which of these canonical addresses are suppressed, with the reasons."""
    return job.read(lambda connection: suppressed_on(connection, tenant_id, addresses)) if addresses else {}


def suppressed_on(connection: Connection, tenant_id: str, addresses: Sequence[str]) -> dict[str, str]:
    found = connection.execute(AMONG, {"tenant": tenant_id, "addresses": addresses})
    return {row.address: row.reason for row in found}
