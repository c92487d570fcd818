"""What happens with a settlement, in its own transaction: all of it, or nothing where the job is no longer ours."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from mayfly.connection import Connection
from mayfly.jobs.batches import NewBatch
from mayfly.jobs.chains import BrokenChain, advance_chains
from mayfly.jobs.held import write_held
from mayfly.jobs.settlement import Settlement
from mayfly.outcome import Kind
from mayfly.schema import SCHEDULED, JobTable

ENDS = (Kind.DONE, Kind.DEAD, Kind.CANCELLED)
NOT_BATCHES = ("chain:", SCHEDULED)


def follow(
    connection: Connection, jobs: JobTable, settled: Sequence[Settlement], now: datetime
) -> tuple[BrokenChain, ...]:
    """What handlers of jobs that are done have enqueued, and the next steps of chains."""
    done = [each.job for each in settled if each.outcome.kind is Kind.DONE]
    write_held(connection, jobs, [new for job in done for new in job.held or ()], now)
    return advance_chains(connection, jobs, (each for each in settled if each.outcome.kind in ENDS), now)


def groups_to_look_at(followed: Iterable[Settlement]) -> set[str]:
    """Of jobs that have ended, and batches that were opened: some may be over now."""
    groups: set[str] = set()
    for each in followed:
        if each.outcome.kind in ENDS and each.job.group_key is not None and each.job.awaited:
            groups.add(each.job.group_key)
        groups.update(new.key for new in each.job.held or () if isinstance(new, NewBatch))
    return {key for key in groups if not key.startswith(NOT_BATCHES)}
