"""Manual actions and their effects: a pause, a lane with fewer workers, limits in use."""

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, insert

from mayfly.schema.metadata import audit, lanes, limits, pauses, slots

MINUTE = timedelta(minutes=1)


def insert_manual_actions(connection: Connection, now: datetime) -> None:
    paused = {"kind": "lane", "name": "images", "paused_at": now - 26 * MINUTE, "paused_until": now + 94 * MINUTE,
              "paused_by": "olga", "reason": "the picture store is moved"}  # fmt: skip
    connection.execute(insert(pauses), [paused])
    lane = {"lane": "reports", "passed_over": 0, "max_workers": 2, "set_at": now - 190 * MINUTE, "set_by": "admin"}
    connection.execute(insert(lanes), [lane])
    connection.execute(
        insert(limits),
        [
            {"limit_key": "gateway", "span": "minute", "most": 120, "used": 97, "opens_at": now + 0.4 * MINUTE},
            {"limit_key": "marketplace", "span": "at once", "most": 2, "used": 0, "opens_at": None},
            {"limit_key": "smtp", "span": "hour", "most": 1000, "used": 1000, "opens_at": now + 17 * MINUTE},
        ],
    )
    held = {"limit_key": "marketplace", "worker_id": "worker-sample-0", "held": 1, "lease_until": now + 30 * MINUTE}
    connection.execute(insert(slots), [held])
    connection.execute(insert(audit), [dict(zip(COLUMNS, row, strict=True)) for row in audit_entries(now)])


COLUMNS = ("done_at", "done_by", "via", "verb", "subject", "jobs", "reason")


def audit_entries(now: datetime) -> list[tuple[Any, ...]]:
    """The oldest first."""
    return [
        (now - 1300 * MINUTE, "deploy", "http", "cancel", "type=send_digest", 6, "the campaign was withdrawn"),
        (now - 190 * MINUTE, "admin", "page", "set lane", "reports max_workers=2", None, "leave room for imports"),
        (now - 61 * MINUTE, "root", "terminal", "retry", "error=9f6fa8c8c4660c6c", 14, "the gateway is back"),
        (now - 26 * MINUTE, "olga", "page", "pause lane", "images", None, "the picture store is moved"),
        (now - 3 * MINUTE, "olga", "page", "retry", "id=412", 1, None),
    ]
