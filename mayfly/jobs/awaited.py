"""Which of the jobs that were just claimed a batch or a chain waits for: whoever settles the others need not ask.

What waits for a job is committed before the job can be claimed, so one look after the claim knows. Jobs without a
group, and those of schedules, are not even looked at.
"""

from collections.abc import Iterable, Sequence

from mayfly.connection import Connection
from mayfly.engine import Database
from mayfly.job import Job
from mayfly.schema import SCHEDULED

MOST_BATCHES = 100  # open at a time: beyond, every group is taken for a batch's, and looked at when its jobs end
WAITING = (
    "SELECT batch_key, 0 FROM (SELECT batch_key FROM mayfly_batches WHERE completed_at IS NULL"
    f" LIMIT {MOST_BATCHES}) AS batches UNION ALL SELECT NULL, job_id FROM mayfly_chains WHERE {{ids of job_id}}"
)


def note_awaited(database: Database, claimed: Iterable[Job]) -> None:
    """Mark those that nothing waits for."""
    grouped = [job for job in claimed if job.group_key is not None]
    asked = [job for job in grouped if not (job.group_key or "").startswith(SCHEDULED)]
    batches, steps = database.read(lambda connection: _waiting(connection, asked)) if asked else (set(), set())
    if len(batches) < MOST_BATCHES:
        for job in grouped:
            job.awaited = job.group_key in batches or job.id in steps


def _waiting(connection: Connection, asked: Sequence[Job]) -> tuple[set[str], set[int]]:
    """The open batches, and those of the jobs that are steps of chains."""
    found = connection.execute(WAITING, ids=[job.id for job in asked]).all()
    return {key for key, _ in found if key is not None}, {job_id for key, job_id in found if key is None}
