"""One POST, once: no redirects, no retries, and an end to the waiting."""

from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit

from mayfly.errors import Undelivered
from mayfly.timing import timing

AGENT = "mayfly"


def post(url: str, body: bytes, headers: Mapping[str, str]) -> None:
    """Raises Undelivered unless the answer is one of success. The URL is a secret: it is in no error."""
    parts = urlsplit(url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=timing().request_seconds)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection.request("POST", target, body, {"User-Agent": AGENT, **headers})
        status = connection.getresponse().status
    except (OSError, HTTPException) as error:
        raise Undelivered(f"{parts.hostname}: {type(error).__name__}: {error}") from error
    finally:
        connection.close()
    if not 200 <= status < 300:
        raise Undelivered(f"{parts.hostname} answered {status}")
