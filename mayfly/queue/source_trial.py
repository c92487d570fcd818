"""Try the claim of one due row, and roll back: some errors have no other sign.

A value that is not in the column's ENUM, or that a CHECK constraint or a trigger refuses, is found only by writing
it. Without the trial each plan would start runners that can claim no row.
"""

from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.queue.claim import Claimant
from mayfly.queue.source_claim import RowClaim
from mayfly.queue.source_table import SourceTable
from mayfly.queue.sources import Sources

WORKER_ID = "trial"


class _RolledBack(Exception):
    """Ends the transaction without a commit."""

    def __init__(self, has_row: bool) -> None:
        self.has_row = has_row


def try_claim(database: Database, sources: Sources, table: SourceTable) -> bool:
    """Raises SourceUnusable. False if nothing was tried.

    No due row may be free, or the table may have no transactions: then the row would stay `processing`.
    """
    now = database.clock.now()

    def work(connection: Connection) -> None:
        if not connection.dialect.rolls_back(connection, table.source.table):
            raise _RolledBack(has_row=False)
        claim = RowClaim(connection, sources, table, Claimant(WORKER_ID, table.source.lane, now), 1, now)
        raise _RolledBack(has_row=bool(claim.take(claim.lock(1).rows)))

    try:
        database.run(work)
    except _RolledBack as ended:
        return ended.has_row
    raise AssertionError("unreachable")
