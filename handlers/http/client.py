"""The HTTP client of all handlers: bounded in time and size; errors become outcomes of the job."""

import json
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from handlers.http.status import ServiceUnavailable, outcome_of_status
from handlers.outages import min_delay_seconds
from mayfly import Dead, Retry, setting

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse, PoolManager

CONNECT_SECONDS = 5.0
RESPONSE_SECONDS = 15.0  # for the whole response, even if it arrives byte by byte
MAX_RESPONSE_BYTES = 1 << 20
CHUNK_BYTES = 64 << 10


class ResponseTooLarge(Dead):
    """The response is larger than allowed. Unlike with an error status, the request may have taken effect."""


class ServiceUnreachable(ServiceUnavailable):
    """There was no connection: nothing was sent."""


class ResponseUnknown(Retry):
    """The request was sent and no response was read: it may have taken effect."""


@dataclass(frozen=True)
class HttpResponse:
    """A response whose status is 2xx or expected; any other status is raised as an outcome."""

    host: str
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """Raise Retry if the body is not JSON: a proxy may have sent an error page with status 200."""
        try:
            return json.loads(self.body)
        except ValueError:
            raise Retry(f"{self.host} returned {self.status} with a body that is not JSON") from None


class HttpClient:
    """A client for one base URL: `HttpClient(setting("VENDOR_URL", "https://api.vendor.example"), headers={…})`.

    It does not retry, because the job is retried, and does not follow redirects, because a key for one host must not
    be sent to another. With `public_only` it refuses private addresses, for URLs that do not come from the operator.
    Without `quotes` errors do not quote the response: some responses repeat the URL of the request.
    """

    def __init__(
        self,
        base_url: str,
        *,
        headers: Mapping[str, str] | None = None,
        connect_seconds: float = CONNECT_SECONDS,
        response_seconds: float = RESPONSE_SECONDS,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
        public_only: bool = False,
        quotes: bool = True,
    ) -> None:
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Dead("the base URL of an integration must begin with http:// or https:// and name a host")
        self._base_url = base_url.rstrip("/")
        self._headers = dict(headers or {})
        self._connect_seconds, self._response_seconds = connect_seconds, response_seconds
        self._max_response_bytes, self._quotes = max_response_bytes, quotes
        self.host = parts.hostname  # for error messages: paths and queries may contain a key
        self._pool = _open_pool(public_only)

    def get(
        self, path: str = "", *, headers: Mapping[str, str] | None = None, expected: Collection[int] = ()
    ) -> HttpResponse:
        return self.call("GET", path, headers=headers, expected=expected)

    def post(self, path: str = "", payload: Any = None, *, headers: Mapping[str, str] | None = None) -> HttpResponse:
        """Send the payload as JSON."""
        body = json.dumps(payload, separators=(",", ":")).encode()
        return self.call("POST", path, body, {"Content-Type": "application/json", **(headers or {})})

    def call(
        self,
        method: str,
        path: str = "",
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        expected: Collection[int] = (),
    ) -> HttpResponse:
        """Return a response whose status is 2xx or expected; raise the outcome of the job for any other."""
        from urllib3 import Timeout  # slow to import, and most runners make no HTTP calls
        from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError

        ends_at = time.monotonic() + self._response_seconds
        try:
            response = self._pool.request(
                method,
                self._base_url + path,
                body=body,
                headers={"User-Agent": "mayfly", **self._headers, **(headers or {})},
                timeout=Timeout(connect=self._connect_seconds, read=self._response_seconds),
                retries=False,
                redirect=False,
                preload_content=False,
            )
            try:
                content = self._read(response, ends_at)
            finally:
                response.close()  # does not wait for the unread rest
        except (ConnectTimeoutError, NewConnectionError) as error:
            raise ServiceUnreachable(f"{self.host} cannot be reached: {_kind(error)}") from None
        except HTTPError as error:
            raise ResponseUnknown(f"{self.host} is unreachable, or closed the connection: {_kind(error)}") from None
        result = HttpResponse(self.host, response.status, dict(response.headers), content)
        if response.status in expected:
            return result
        retry_after = response.headers.get("Retry-After")
        quoted = content if self._quotes else b""
        now, min_delay = datetime.now(UTC), min_delay_seconds()
        raised = outcome_of_status(self.host, response.status, retry_after, quoted, now, min_delay)
        if raised is not None:
            raise raised
        return result

    def _read(self, response: "BaseHTTPResponse", ends_at: float) -> bytes:
        """Return the decompressed body, so that the limit counts bytes in memory.

        Uses read1, which returns available bytes: read and stream wait until a chunk is full, without a deadline.
        """
        content = bytearray()
        while chunk := response.read1(CHUNK_BYTES, decode_content=True):
            content += chunk
            if len(content) > self._max_response_bytes:
                raise ResponseTooLarge(f"{self.host} returned more than {self._max_response_bytes:,} bytes")
            if time.monotonic() > ends_at:
                raise ResponseUnknown(f"{self.host} took more than {self._response_seconds:g} s to respond")
        return bytes(content)


def base_and_path(url: str) -> tuple[str, str]:
    """Of a complete URL, whose path and query are sent as they are."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}", urlunsplit(("", "", parts.path, parts.query, ""))


def client_for_user_url(url: str, **options: Any) -> HttpClient:
    """A client for a URL entered by a user: public addresses only, except the hosts in PRIVATE_HOSTS."""
    host = (urlsplit(url).hostname or "").lower()
    is_private = host in setting("PRIVATE_HOSTS", "").lower().split()
    return HttpClient(url, public_only=not is_private, **options)


def _open_pool(public_only: bool) -> "PoolManager":
    try:
        from urllib3 import PoolManager
    except ModuleNotFoundError:
        raise Dead("HTTP calls need urllib3: pip install 'mayfly-jobs[http]'") from None
    if public_only:
        from handlers.http.public_pool import PublicPool

        return PublicPool(maxsize=4)
    return PoolManager(maxsize=4)


def _kind(error: Exception) -> str:
    """The name of the error's class: some error texts contain the URL."""
    return type(error).__name__
