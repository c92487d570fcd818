"""Accounts that are left alone for a while, because their login failed: others would fail the same way."""

from datetime import UTC, datetime, timedelta
from typing import Any

from mayfly import Job

REST = timedelta(hours=1)
COLUMNS = ("provider", "until_at", "reason")
RESTING = "SELECT provider, until_at FROM app_rests WHERE until_at > :now"


def rest(job: Job, name: str, reason: str) -> None:
    """Every runner sees it from its next mail on."""
    row = {"provider": name, "until_at": datetime.now(UTC) + REST, "reason": reason}

    def write(connection: Any) -> None:
        connection.execute(connection.dialect.upsert("app_rests", ("provider",), COLUMNS), row)

    job.write(write)


def resting(job: Job) -> dict[str, datetime]:
    """Until when, by name."""
    found = job.write(lambda connection: connection.execute(RESTING, {"now": datetime.now(UTC)}).all())
    return {name: _aware(until) for name, until in found}


def _aware(value: datetime | str) -> datetime:
    """SQLite gives texts; without a zone it is UTC."""
    read = datetime.fromisoformat(value) if isinstance(value, str) else value
    return read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)
