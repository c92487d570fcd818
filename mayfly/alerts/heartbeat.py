"""Tell a dead man's switch, as healthchecks.io is one, that cron is alive: when a cycle begins, and how it ended."""

from urllib.parse import urlsplit, urlunsplit

from mayfly import exits
from mayfly.alerts.http import post

LONGEST_BODY = 10_000  # bytes; more is cut off there anyway
STARTED = "start"


def tell_start(url: str) -> None:
    post(below(url, STARTED), b"", {"Content-Type": "text/plain"})


def tell_end(url: str, exit_code: int, text: str) -> None:
    """The URL itself means success; a failure is told by its exit code."""
    where = url if exit_code == exits.SUCCESS else below(url, str(exit_code))
    post(where, text.encode()[:LONGEST_BODY], {"Content-Type": "text/plain; charset=utf-8"})


def below(url: str, name: str) -> str:
    """A query stays behind the path."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{name}"))
