"""Addresses that are not written to any more: they bounced, or somebody behind them wants it so."""

from collections.abc import Sequence
from typing import Any

from mayfly import Job

BOUNCED, UNSUBSCRIBED = "bounced", "unsubscribed"
COLUMNS = ("address", "reason", "detail", "created_at")


def canonical(address: str) -> str:
    """Who is meant, however it is spelled: nobody has two mailboxes that differ in capitals alone."""
    return address.strip().lower()


def suppress(job: Job, address: str, reason: str, detail: str | None = None) -> None:
    """Whoever is suppressed already stays so, for the first reason."""
    row = {"address": canonical(address), "reason": reason, "detail": detail, "created_at": job.now}

    def write(connection: Any) -> None:
        connection.execute(connection.dialect.insert_missing("app_suppressions", ("address",), COLUMNS), row)

    job.write(write)


def suppressed(job: Job, addresses: Sequence[str]) -> dict[str, str]:
    """Of these, spelled canonically, those that are; and why."""
    if not addresses:
        return {}
    listed, values = among(addresses)
    asking = f"SELECT address, reason FROM app_suppressions WHERE address IN ({listed})"
    return dict(job.read(lambda connection: connection.execute(asking, values).all()))


def among(texts: Sequence[str], name: str = "text") -> tuple[str, dict[str, str]]:
    """What stands in the brackets of an IN, and its parameters."""
    values = {f"{name}_{number}": text for number, text in enumerate(texts)}
    return ", ".join(f":{each}" for each in values), values
