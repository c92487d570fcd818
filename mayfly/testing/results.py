"""What became of the jobs that a test has run."""

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mayfly import jsontext
from mayfly.job import Job
from mayfly.outcome import Kind, Outcome

if TYPE_CHECKING:
    from mayfly.testing.table import EnqueuedJob


@dataclass(frozen=True)
class Run:
    """One run of one job."""

    job: Job
    outcome: Outcome
    error: BaseException | None = None  # what its handler raised, unless that was to steer the job
    enqueued: "tuple[EnqueuedJob, ...]" = ()  # by run_inline alone: what was enqueued with its `done`

    @property
    def kind(self) -> Kind:
        """`done`, `failed` (to be tried again), `dead`, `cancelled`, `snoozed`, `sliced`: equal to the plain text."""
        return self.outcome.kind

    @property
    def result(self) -> Any:
        """What the handler returned, as it was or would be stored."""
        return None if self.outcome.result is None else jsontext.decode(self.outcome.result)

    @property
    def state(self) -> Any:
        """Its last checkpoint, of this run or an earlier one."""
        return self.job.state

    @property
    def reason(self) -> str | None:
        """The first line of what is stored as `last_error`."""
        return None if self.outcome.error is None else self.outcome.error.partition("\n")[0]

    @property
    def has_failed(self) -> bool:
        """Whether an attempt was spent in vain, its last one included."""
        return self.outcome.attempt_ending is not None

    def noted_error(self) -> BaseException:
        """The error to raise in the test, with a word about where it comes from."""
        assert self.error is not None
        self.error.add_note(f"{self}\npayload: {self.job.payload_text}")
        return self.error

    def __str__(self) -> str:
        job = self.job
        because = f": {self.reason}" if self.reason else ""
        return f"job {job.id} ({job.type}) attempt {job.attempt}/{job.max_attempts}: {self.kind}{because}"


@dataclass(frozen=True)
class Drained:
    """All that a `drain()` has run, in this order. A job that was tried three times is there three times."""

    runs: tuple[Run, ...]

    @property
    def outcomes(self) -> Counter[str]:
        """How many runs ended how: {"done": 3, "failed": 1}."""
        return Counter(run.kind.value for run in self.runs)

    @property
    def failures(self) -> tuple[Run, ...]:
        return tuple(run for run in self.runs if run.has_failed)

    def __len__(self) -> int:
        return len(self.runs)
