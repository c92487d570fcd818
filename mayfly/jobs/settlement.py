"""What became of a job, and who says so."""

from dataclasses import dataclass, field
from typing import NamedTuple

from mayfly.job import Job
from mayfly.outcome import Outcome


class Settlement(NamedTuple):
    """A job and what became of it. A tuple, because a fast lane makes twenty thousand a second."""

    job: Job
    outcome: Outcome
    duration_ms: int | None = None  # None: its handler never started, or nobody saw it end


@dataclass(frozen=True)
class Settler:
    """Who settles: the owner named in every WHERE, and under which cycle it is counted."""

    worker_id: str
    cycle_id: int
    counted_as: str  # the writer of the totals: one process writes its own rows only
    witnesses: dict[str, int] = field(default_factory=dict, compare=False)  # see mayfly.jobs.batches
