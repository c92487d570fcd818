"""What people did by hand: one row a deed, written in the transactions that change what it is about."""

from datetime import datetime
from typing import NamedTuple

from mayfly.actor import Actor
from mayfly.connection import Connection
from mayfly.wording import bounded, storable

COLUMNS = ("done_at", "done_by", "via", "verb", "subject", "jobs", "reason")
LONGEST = 4000  # characters of a subject or a reason: a list of ids may be as long as a command line
OURS = "done_at = :done_at AND done_by = :done_by AND verb = :verb AND subject = :subject"
LOOK = f"SELECT id FROM mayfly_audit WHERE {OURS}"
ADD = f"UPDATE mayfly_audit SET jobs = jobs + :jobs WHERE {OURS}"


class Deed(NamedTuple):
    actor: Actor
    verb: str
    subject: str  # what it is done to, as it was asked for
    done_at: datetime
    reason: str | None = None

    def note(self, connection: Connection) -> None:
        """That it was done, where there are no jobs to count. A first try whose answer was lost is not told twice."""
        row = self._row(None)
        if connection.execute(LOOK, row).first() is None:
            connection.execute(connection.dialect.insert("mayfly_audit", COLUMNS), row)

    def add(self, connection: Connection, jobs: int) -> None:
        """Count the jobs of one slice. It can be repeated: a slice that was committed finds nothing to change."""
        if not jobs:
            return
        row = self._row(jobs)
        if not connection.execute(ADD, row).rowcount:
            connection.execute(connection.dialect.insert("mayfly_audit", COLUMNS), row)

    def _row(self, jobs: int | None) -> dict[str, object]:
        subject, reason = bounded(storable(self.subject), LONGEST), self.reason
        kept = None if reason is None else bounded(storable(reason), LONGEST)
        return dict(zip(COLUMNS, (self.done_at, *self.actor, self.verb, subject, jobs, kept), strict=True))
