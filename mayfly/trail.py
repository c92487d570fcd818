"""What a running handler leaves behind: how far it is, for another run to go on from, and for people to see."""

from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from mayfly import jsontext
from mayfly.clock import monotonic
from mayfly.errors import BadCheckpoint, BadProgress, CheckpointInTransaction, SliceEnded
from mayfly.slicing import is_near

if TYPE_CHECKING:
    from mayfly.job import Job

CHECKPOINT_LIMIT = 64 << 10
LONGEST_TEXT = 200  # characters of progress: one line of a list
PAUSE_SECONDS = 1.0  # between two writes of progress


class Window(NamedTuple):
    """The time of one run, in monotonic seconds."""

    started: float
    ends_at: float


class Trail:
    """Of one run of one job, in the thread of its handler."""

    def __init__(self, started: float) -> None:
        self._stepped_at = started
        self._longest_step = 0.0
        self._written_at = -inf
        self._unwritten: str | None = None

    def checkpoint(self, job: "Job", state: Any) -> None:
        """Kept first: whether there is time for another step is asked after this one is safe."""
        if job.lifeline.in_transaction:
            raise CheckpointInTransaction
        text = checkpoint_text(job.type, state)
        moved = job.special is None or job.special.checkpoint != text
        job.lifeline.keep_checkpoint(job, text, moved)
        if moved:
            job.note_checkpoint(text)
        self.write_progress(job)
        now = monotonic()
        self._longest_step = max(self._longest_step, now - self._stepped_at)
        self._stepped_at = now
        if is_near(job.lifeline.window(job).ends_at - now, self._longest_step):
            raise SliceEnded

    def progress(self, job: "Job", done: float, total: float | None, text: str) -> None:
        self._unwritten = _progress_text(job.type, done, total, text)
        if monotonic() - self._written_at >= PAUSE_SECONDS:
            self.write_progress(job)

    def write_progress(self, job: "Job") -> None:
        """What was told and is not yet written; the runner asks for it when the handler has ended."""
        if self._unwritten is not None:
            text, self._unwritten = self._unwritten, None
            self._written_at = monotonic()
            job.lifeline.keep_progress(job, text)


def checkpoint_text(type_name: str, state: Any) -> str:
    try:
        text = jsontext.encode(state)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadCheckpoint(type_name, f"it is no JSON ({error})") from error
    size = len(text.encode())
    if size > CHECKPOINT_LIMIT:
        raise BadCheckpoint(type_name, f"it has {size:,} bytes, {CHECKPOINT_LIMIT:,} are kept")
    return text


def _progress_text(type_name: str, done: float, total: float | None, text: str) -> str:
    for name, number in (("done", done), ("total", total)):
        if (
            isinstance(number, bool)
            or not isinstance(number, int | float | None)
            or (name == "done" and number is None)
        ):
            raise BadProgress(type_name, f"{name}={number!r} is no number")
    if not isinstance(text, str):
        raise BadProgress(type_name, f"the text is a {type(text).__name__}")
    try:
        return jsontext.encode({"done": done, "total": total, "text": text[:LONGEST_TEXT]})
    except ValueError as error:
        raise BadProgress(type_name, f"it is no JSON ({error})") from error
