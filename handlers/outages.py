"""How handlers that call another service are retried: they survive an outage of six hours, webhooks of three days."""

from typing import TypedDict

from mayfly import current_job


class RetryOptions(TypedDict):
    """Arguments of @handler."""

    max_attempts: int
    backoff_base: float
    backoff_cap: float


# After 1, 2, 4, 8, 16 and 32 minutes, then every hour: the last attempt is 6 h 3 min after the first.
SURVIVES_OUTAGE: RetryOptions = {"max_attempts": 12, "backoff_base": 30.0, "backoff_cap": 3600.0}
# After 1, 2, 4 … 256 minutes, then every 6 hours: the last attempt is 74 h 31 min after the first.
SURVIVES_THREE_DAYS: RetryOptions = {"max_attempts": 21, "backoff_base": 30.0, "backoff_cap": 21_600.0}


def delay_seconds(attempt: int, options: RetryOptions = SURVIVES_OUTAGE) -> float:
    """How long to wait after this attempt."""
    return min(options["backoff_base"] * 2.0 ** min(attempt, 62), options["backoff_cap"])


def min_delay_seconds() -> float:
    """The delay after the attempt that is running; 0 outside of a job."""
    job = current_job()
    return 0.0 if job is None else delay_seconds(job.attempt)
