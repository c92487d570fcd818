"""Decide the outcome of a job by the HTTP status of a response. Pure: `now` is an argument."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from mayfly import Dead, Retry, Snooze

# The client errors that may be temporary: request timeout, too early, too many requests.
TEMPORARY_CLIENT_ERRORS = (408, 425, 429)
TOO_MANY_REQUESTS = 429
MAX_WAIT_SECONDS = 86_400.0
MIN_WAIT_SECONDS = 1.0
MAX_QUOTE_LENGTH = 200  # characters of the response in an error message


class ServiceUnavailable(Retry):
    """The service is down, overloaded or unreachable: the request had no effect."""


def outcome_of_status(
    host: str, status: int, retry_after: str | None, body: bytes, now: datetime, min_delay_seconds: float = 0.0
) -> Snooze | Retry | Dead | None:
    """The outcome to raise; None for 2xx.

    429 with Retry-After snoozes the job without using an attempt. Other temporary errors are retried after the usual
    backoff, or after Retry-After if that is longer: a server that always sends `Retry-After: 1` while it is down must
    not use up all attempts. All other statuses are final.
    """
    if 200 <= status < 300:
        return None
    wait = wait_seconds(retry_after, now)
    if status == TOO_MANY_REQUESTS and wait is not None:
        return Snooze(after=wait, reason=f"{host} returned {status}: too many requests")
    message = f"{host} returned {status}{_quote(body)}"
    if status in TEMPORARY_CLIENT_ERRORS or status >= 500:
        return ServiceUnavailable(message, after=None if wait is None else max(wait, min_delay_seconds))
    return Dead(message)


def wait_seconds(retry_after: str | None, now: datetime) -> float | None:
    """The Retry-After header, a number or a date, in seconds; None if it is missing or invalid."""
    text = (retry_after or "").strip()
    if text.isascii() and text.isdigit():
        seconds = float(text[:9])
    else:
        try:
            at = parsedate_to_datetime(text)
        except ValueError:
            return None
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        seconds = (at - now).total_seconds()
    return min(max(seconds, MIN_WAIT_SECONDS), MAX_WAIT_SECONDS)


def _quote(body: bytes) -> str:
    text = " ".join(body[: 4 * MAX_QUOTE_LENGTH].decode("utf-8", "replace").split())[:MAX_QUOTE_LENGTH]
    return f": {text}" if text else ""
