"""What happens with a settlement, in its own transaction: all of it, or nothing where the job is no longer ours."""

from collections.abc import Sequence
from datetime import datetime

from mayfly.connection import Connection
from mayfly.jobs.held import write_held
from mayfly.jobs.settlement import Settlement
from mayfly.outcome import Kind
from mayfly.schema import JobTable


def follow(connection: Connection, jobs: JobTable, settled: Sequence[Settlement], now: datetime) -> None:
    """What the handlers of jobs that are done have enqueued; of all others it is dropped with this run."""
    done = [each.job for each in settled if each.outcome.kind is Kind.DONE]
    write_held(connection, jobs, [new for job in done for new in job.held or ()], now)
