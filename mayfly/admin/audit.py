"""The audit: who changed what by hand, through which interface, and why."""

import os
import pwd
from datetime import datetime
from typing import Any, NamedTuple

from mayfly.admin.jobs import facts_of, read_row
from mayfly.db.connection import Connection
from mayfly.queue.failure import bounded, storable
from mayfly.schema.tables import NAME_LENGTH

TERMINAL, HTTP, PAGE, PYTHON = "terminal", "http", "page", "python"


class Actor(NamedTuple):
    name: str
    via: str = PYTHON


def this_user(via: str) -> Actor:
    """The user of this process, or its number where it has no name, as in a container."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = f"uid {os.getuid()}"
    return Actor(name[:NAME_LENGTH], via)


COLUMNS = ("done_at", "done_by", "via", "verb", "subject", "jobs", "reason")
MAX_TEXT_LENGTH = 4000  # characters of a subject or a reason: a list of ids may be as long as a command line
OWN_ENTRY = "done_at = :done_at AND done_by = :done_by AND verb = :verb AND subject = :subject"
FIND_ENTRY = f"SELECT id FROM mayfly_audit WHERE {OWN_ENTRY}"
ADD_ENTRY = f"UPDATE mayfly_audit SET jobs = jobs + :jobs WHERE {OWN_ENTRY}"


class AuditEntry(NamedTuple):
    actor: Actor
    verb: str
    subject: str  # the filter, lane or name that was given
    done_at: datetime
    reason: str | None = None

    def note(self, connection: Connection) -> None:
        """Write an entry without a number of jobs. Repeatable: a commit whose reply was lost is not written twice."""
        row = self._row(None)
        if connection.execute(FIND_ENTRY, row).first() is None:
            connection.execute(connection.dialect.insert("mayfly_audit", COLUMNS), row)

    def add(self, connection: Connection, jobs: int) -> None:
        """Add the jobs of one slice. Repeatable: a slice that was committed finds nothing to change."""
        if not jobs:
            return
        row = self._row(jobs)
        if not connection.execute(ADD_ENTRY, row).rowcount:
            connection.execute(connection.dialect.insert("mayfly_audit", COLUMNS), row)

    def _row(self, jobs: int | None) -> dict[str, object]:
        subject, reason = bounded(storable(self.subject), MAX_TEXT_LENGTH), self.reason
        kept = None if reason is None else bounded(storable(reason), MAX_TEXT_LENGTH)
        return dict(zip(COLUMNS, (self.done_at, *self.actor, self.verb, subject, jobs, kept), strict=True))


class AuditView(NamedTuple):
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


def list_audit(connection: Connection, size: int = 50, before: int | None = None) -> list[AuditView]:
    older = " WHERE id < :before" if before is not None else ""
    statement = f"SELECT {', '.join(AuditView._fields)} FROM mayfly_audit{older} ORDER BY id DESC LIMIT :size"
    rows = connection.execute(statement, {"before": before, "size": size}).all()
    return [AuditView(**read_row(AuditView._fields, row)) for row in rows]
