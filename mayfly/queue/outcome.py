"""Outcomes of jobs: the exceptions by which a handler chooses one, the stored text of an error, the values that are
written. Pure."""

import hashlib
import re
import traceback
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING

from mayfly.job import Job
from mayfly.schema import tables

if TYPE_CHECKING:
    from mayfly.queue.sources import Sources

Seconds = float | int | timedelta
RESULT_LIMIT = 64 << 10  # bytes of JSON
ERROR_LIMIT = 16_000  # characters: room for a long traceback, far below any packet limit
MAX_WAIT_SECONDS = 100 * 365 * 86_400  # more is a mistake, and could exceed Python's last date


class JobControl(Exception):
    """Raised by a handler to choose the outcome of its job."""


class Retry(JobControl):
    """Run again, after the given time or the usual backoff. Uses an attempt."""

    def __init__(self, reason: str = "the handler asked for a retry", *, after: Seconds | None = None) -> None:
        super().__init__(reason)
        self.after = None if after is None else seconds(after)


class Snooze(JobControl):
    """Run again at `until`, or `after` some time. Uses no attempt. `mayfly why` shows the reason until then."""

    def __init__(
        self, *, until: datetime | None = None, after: Seconds | None = None, reason: str | None = None
    ) -> None:
        if (until is None) == (after is None):
            raise TypeError("Snooze takes either until= (a datetime) or after= (seconds or a timedelta)")
        if until is not None and (not isinstance(until, datetime) or until.tzinfo is None):
            raise TypeError("Snooze(until=…) needs a datetime with a time zone")
        super().__init__(reason or "snoozed")
        self.until = None if until is None else until.astimezone(UTC)
        self.after = None if after is None else seconds(after)
        self.reason = reason or None


class Cancel(JobControl):
    """Nothing is left to do: the job ends as cancelled, with the reason."""


class RowChanged(Cancel):
    """The application has changed or deleted the row of the job."""


class Dead(JobControl):
    """A retry cannot help: the job ends as dead, with the reason."""


def seconds(given: Seconds) -> float:
    """As a number. Checked here, so that the handler gets the error before its outcome is written."""
    number = given.total_seconds() if isinstance(given, timedelta) else float(given)
    if not abs(number) <= MAX_WAIT_SECONDS:  # written so that NaN is refused too
        raise ValueError(f"{number:g} seconds: must be a number, and within a hundred years")
    return number


@dataclass(frozen=True)
class Failure:
    """A stored error. The same error with other data has the same fingerprint."""

    message: str  # one line
    text: str  # the message, then the traceback
    fingerprint: str

    @classmethod
    def from_error(cls, error: BaseException) -> "Failure":
        message = storable(_one_line(error))
        # The first frame is Mayfly's own call of the handler.
        trace = error.__traceback__.tb_next if error.__traceback__ else None
        frames = traceback.extract_tb(trace)
        text = bounded(storable(f"{message}\n{stack_text(frames)}" if frames else message))
        return cls(message, text, _fingerprint(message, where=frames[-1].name if frames else ""))

    @classmethod
    def from_reason(cls, reason: str) -> "Failure":
        text = bounded(storable(reason))
        message = text.partition("\n")[0]
        return cls(message, text, _fingerprint(message))


def storable(text: str) -> str:
    """NUL and lone surrogates as escapes: PostgreSQL takes no NUL, UTF-8 no surrogates."""
    return text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode()


def bounded(text: str, limit: int = ERROR_LIMIT) -> str:
    """Keeps both ends: the error, and where it happened."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n… {len(text) - limit:,} characters omitted …\n{text[-half:]}"


def _one_line(error: BaseException) -> str:
    try:
        message = " ".join(str(error).split())
    except Exception:  # noqa: BLE001 - the handler's own __str__ may fail, and the job's row must still be written
        message = "(its text cannot be shown)"
    name = type(error).__name__
    return f"{name}: {message}" if message else name


def stack_text(frames: Iterable[traceback.FrameSummary]) -> str:
    """As Python prints it, the innermost call last."""
    return "".join(traceback.format_list(list(frames))).rstrip()


# --- fingerprints -----------------------------------------------------------------------------------------

MAX_SHAPED_LENGTH = 1000  # characters of a message: an error may quote a whole document

# The last part of host names. Not all that exist: `users.id` and `script.py` are no hosts.
_HOST_ENDINGS = (
    "com|net|org|edu|gov|io|dev|cloud|ai|eu|de|at|ch|uk|ie|fr|nl|be|lu|it|es|pt|pl|cz|se|no|dk|fi|us|ca|mx|br|jp|cn|"
    "kr|in|au|nz|za|ru|ua|internal|local|lan|example|invalid"
)
_QUOTES = frozenset("'\"`“‘«")
_QUOTED_TEXT = r"""
    (?<!\w)(?:[bruf]{1,2})?(?:'(?:\\.|[^\\])*?'|"(?:\\.|[^\\])*?")(?!\w)  # the apostrophe of can't begins no quote
  | `[^`]*` | “[^“”]*” | ‘[^‘’]*’ | «[^«»]*»
"""
# Each alternative begins only where its text can begin, so that a long message takes linear time.
_VARYING_TEXT = rf"""
    (?<![\w+.-])[a-z][\w+.-]*://[^\s'"<>)\]}}]+                                             # URLs
  | (?<![\w.+%-])[\w.+%-]+(?:'[\w.+%-]+)?@[\w-]+(?:\.[\w-]+)*                              # mail addresses
  | (?<!\w)[0-9a-f]{{8}}-(?:[0-9a-f]{{4}}-){{3}}[0-9a-f]{{12}}(?!\w)                            # UUIDs
  | (?<![\w/\\.])(?:~|\.{{1,2}}|[a-z]:)?[/\\](?=[\w.+~-])[^\s'"<>()\[\]{{}},;:|*?]*            # absolute paths
  | (?<![\w/\\.+-])[\w.+-]+(?:[/\\][\w.+-]+)*[/\\][\w+-]+\.\w{{1,5}}(?!\w)                # paths with a file name
  | (?<![\w.-])(?:[\w-]+\.)+(?:(?:{_HOST_ENDINGS})(?::\d+)?|[\w-]+:\d{{2,5}})(?!\w|[.-]\w)  # hosts
  | (?<![\w:])(?:[0-9a-f]{{0,4}}:){{2,7}}[0-9a-f]{{0,4}}(?![\w:])                             # IPv6, times
  | 0x[0-9a-f]+ | (?<!\w)(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{{6,}}(?!\w)                      # hexadecimal text
  | (?:(?<!\w)[-+])?\d+(?:[.,]\d+)*(?:e[-+]?\d+)?                                         # numbers, IPv4
"""


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """At the first error: most processes have none, and it takes milliseconds."""
    return re.compile(pattern, re.IGNORECASE | re.VERBOSE)


def error_shape(message: str) -> str:
    """The message with … for its data: the same error with other data has the same shape."""
    text = message[:MAX_SHAPED_LENGTH]
    if not _QUOTES.isdisjoint(text):
        text = _compiled(_QUOTED_TEXT).sub("…", text)
    varying = _compiled(_VARYING_TEXT)
    # Most words are only letters: skipping them makes this ten times as fast.
    return " ".join(word if word.rstrip(".,:;").isalpha() else varying.sub("…", word) for word in text.split(" "))


def _fingerprint(message: str, where: str = "") -> str:
    return hashlib.sha256(f"{error_shape(message)} {where}".encode()).hexdigest()[:16]


# --- outcomes ---------------------------------------------------------------------------------------------


class OutcomeKind(StrEnum):
    """The names under which outcomes are counted."""

    __hash__ = str.__hash__  # Enum's is slow Python code, and a fast lane hashes 20,000 per second

    DONE = "done"
    FAILED = "failed"  # will be retried
    TIMED_OUT = "timed out"  # the same, by a time limit
    DEAD = "dead"
    CANCELLED = "cancelled"
    SNOOZED = "snoozed"
    SLICED = "sliced"  # ended at a checkpoint; the next cycle continues from there
    RELEASED = "released"  # never started, or interrupted through no fault of its own
    CRASHED = "crashed"  # its process died while running it; retried alone

    @property
    def status(self) -> str:
        """The status of the job afterwards."""
        return self.value if self.is_final else tables.PENDING

    @property
    def is_final(self) -> bool:
        return self.value in (tables.DONE, tables.DEAD, tables.CANCELLED)

    @property
    def is_failure(self) -> bool:
        """A failed attempt after which the job is retried."""
        return self.value in tables.FAILED_ATTEMPTS


@dataclass(frozen=True, slots=True)
class Outcome:
    """What settling writes to one job."""

    kind: OutcomeKind
    run_at: datetime | None = None  # None: unchanged
    result: str | None = None  # JSON text
    error: str | None = None
    fingerprint: str | None = None
    keeps_attempt: bool = False  # uses no attempt: the one counted at the claim is subtracted
    interrupted: bool = False
    counts_release: bool = False  # the database or the dispatcher failed while it ran
    crashed: bool = False
    suspect: bool = False
    attempt_ending: OutcomeKind | None = None  # one that is_failure: adds a row to mayfly_attempts
    waiting_for: str | None = None  # why it was postponed until run_at: a pause, a limit, no handler
    unknown_since: datetime | None = None  # when a runner first had no handler for its type


DONE = Outcome(OutcomeKind.DONE)
RELEASED = Outcome(OutcomeKind.RELEASED, keeps_attempt=True)


@dataclass(frozen=True)
class Settlement:
    """A job and its outcome."""

    job: Job
    outcome: Outcome
    duration_ms: int | None = None  # None: its handler never started, or its end was not observed


@dataclass(frozen=True)
class Settler:
    """The owner named in every WHERE clause, and the cycle under which its jobs are counted."""

    worker_id: str
    cycle_id: int
    totals_key: str  # worker_id of its rows in mayfly_totals; each process writes only its own rows
    known_live_jobs: dict[str, int] = field(default_factory=dict, compare=False)  # see mayfly.queue.count
    expired_at: datetime | None = None  # settles only jobs whose lease had expired by then: it may have been extended
    success_lanes: Collection[str] = ()  # where done jobs get a row in mayfly_attempts, too (KEEP_SUCCESSES)
    sources: "Sources | None" = field(default=None, compare=False)  # writes back to the rows of jobs
    requires_rows: bool = False  # in job.transaction(): raises RowChanged instead of leaving a changed row alone
