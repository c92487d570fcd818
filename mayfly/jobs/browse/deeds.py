"""What people did by hand, the newest first."""

from datetime import datetime
from typing import Any, NamedTuple

from mayfly.connection import Connection
from mayfly.jobs.browse.capped import facts_of, read_row


class DeedView(NamedTuple):
    id: int
    done_at: datetime
    done_by: str
    via: str
    verb: str
    subject: str
    jobs: int | None
    reason: str | None

    def facts(self) -> dict[str, Any]:
        return facts_of(self)


def list_deeds(connection: Connection, size: int = 50, before: int | None = None) -> list[DeedView]:
    older = " WHERE id < :before" if before is not None else ""
    looking = f"SELECT {', '.join(DeedView._fields)} FROM mayfly_audit{older} ORDER BY id DESC LIMIT :size"
    rows = connection.execute(looking, {"before": before, "size": size}).all()
    return [DeedView(**read_row(DeedView._fields, row)) for row in rows]
