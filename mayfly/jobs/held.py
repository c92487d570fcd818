"""What a handler enqueues is held back until its job is settled as done, so that a retried job does it once."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from mayfly.connection import Connection
from mayfly.job import Job
from mayfly.jobs.batches import NewBatch, open_batch
from mayfly.jobs.chains import NewChain, insert_chain
from mayfly.jobs.enqueue import NewJob, insert_jobs
from mayfly.jobs.running import RUNNING
from mayfly.schema import JobTable

Held = NewJob | NewChain | NewBatch


def holder() -> Job | None:
    """The job that what is enqueued here waits for; none in job.transaction(), which commits with the job anyway."""
    job = RUNNING.get()
    return None if job is None or job.lifeline.in_transaction else job


def hold(job: Job, new: Iterable[Held]) -> int:
    """Taken from the job once it is settled; how many that were."""
    given = list(new)  # all of them have passed the door before any is held
    if job.held is None:
        job.held = []
    job.held += given
    return len(given)


def write_held(connection: Connection, jobs: JobTable, held: Sequence[Held], now: datetime | None = None) -> None:
    """Insert what was held back, in the transaction that makes it true. Those whose unique key is held are left out.

    Whoever calls this before its job is settled (a checkpoint) takes it from the job when that is committed, and
    must not repeat a COMMIT whose answer was lost.
    """
    insert_jobs(connection, jobs, (each for each in held if isinstance(each, NewJob)), now)
    for each in held:
        if isinstance(each, NewChain):
            insert_chain(connection, jobs, each)
        elif isinstance(each, NewBatch):
            # Another one may have taken the name since the handler asked: these jobs are in its group, then.
            open_batch(connection, each, sealed=True)
