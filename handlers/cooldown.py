"""Cooldowns: a provider is not called for a while after an error that would hit the next call too."""

from datetime import datetime, timedelta

from sqlalchemy import Column, String, Table, select

from handlers.schema import LongText, UtcTimestamp, metadata
from handlers.upsert import upsert
from mayfly import Job

USUAL_COOLDOWN = timedelta(hours=1)

cooldowns = Table(
    "app_cooldowns",
    metadata,
    Column("provider", String(190), primary_key=True),
    Column("until_at", UtcTimestamp, nullable=False),
    Column("reason", LongText, nullable=False),
)


def start_cooldown(job: Job, provider: str, reason: str, duration: timedelta = USUAL_COOLDOWN) -> None:
    """Start a cooldown, which every runner checks before its next call."""
    row = {"provider": provider, "until_at": job.now + duration, "reason": reason}
    job.write(lambda connection: upsert(connection, cooldowns, row))


def active_cooldowns(job: Job) -> dict[str, datetime]:
    """The providers in cooldown, with the end of each."""
    active = select(cooldowns.c.provider, cooldowns.c.until_at).where(cooldowns.c.until_at > job.now)
    return job.read(lambda connection: {row.provider: row.until_at for row in connection.execute(active)})
