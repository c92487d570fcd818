"""Providers that are left alone for a while, because they failed in a way that the next call would meet as well."""

from datetime import datetime, timedelta
from typing import Any

from mayfly import Job, utc_from_driver

REST = timedelta(hours=1)
COLUMNS = ("provider", "until_at", "reason")
RESTING = "SELECT provider, until_at FROM app_rests WHERE until_at > :now"


def rest(job: Job, name: str, reason: str, lasts: timedelta = REST) -> None:
    """Every runner sees it from its next call on."""
    row = {"provider": name, "until_at": job.now + lasts, "reason": reason}

    def write(connection: Any) -> None:
        connection.execute(connection.dialect.upsert("app_rests", ("provider",), COLUMNS), row)

    job.write(write)


def resting(job: Job) -> dict[str, datetime]:
    """Until when, by name."""
    found = job.read(lambda connection: connection.execute(RESTING, {"now": job.now}).all())
    return {name: utc_from_driver(until) for name, until in found}
