"""The HTTP client of all handlers: bounded in time and size; errors become outcomes of the job."""

import json
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from handlers.http.status import outcome_of_status
from mayfly import Dead, Retry, setting

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse, PoolManager

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 15.0  # for the whole answer, even if it arrives byte by byte
MAX_ANSWER_BYTES = 1 << 20
CHUNK_BYTES = 64 << 10


class ResponseTooLarge(Dead):
    """The answer is larger than allowed. Unlike after an error status, the request may have had its effect."""


class ResponseUnknown(Retry):
    """The request was sent and no answer was read: it may have had its effect."""


@dataclass(frozen=True)
class HttpResponse:
    """An answer whose status is 2xx or expected; any other status is raised as an outcome."""

    host: str
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """Retry if the body is no JSON: a proxy may have answered with an error page and status 200."""
        try:
            return json.loads(self.body)
        except ValueError:
            raise Retry(f"{self.host} answered {self.status} with a body that is not JSON") from None


class HttpClient:
    """A client for one base URL: `HttpClient(setting("VENDOR_URL", "https://api.vendor.example"), headers={…})`.

    It neither retries nor follows redirects: the job is retried, and a key for one host is not sent to another. With
    `public_only` it refuses private addresses: for URLs that do not come from the operator. Without `quotes` errors
    do not quote the answer: some answers repeat the URL of the request.
    """

    def __init__(
        self,
        base_url: str,
        *,
        headers: Mapping[str, str] | None = None,
        connect_seconds: float = CONNECT_SECONDS,
        answer_seconds: float = ANSWER_SECONDS,
        max_answer_bytes: int = MAX_ANSWER_BYTES,
        public_only: bool = False,
        quotes: bool = True,
    ) -> None:
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Dead("the base URL of an integration must begin with http:// or https:// and name a host")
        self._base_url = base_url.rstrip("/")
        self._headers = dict(headers or {})
        self._connect_seconds, self._answer_seconds = connect_seconds, answer_seconds
        self._max_answer_bytes, self._quotes = max_answer_bytes, quotes
        self.host = parts.hostname  # for error messages: paths and queries may contain a key
        self._pool = _open_pool(public_only)

    def get(
        self, path: str = "", *, headers: Mapping[str, str] | None = None, expected: Collection[int] = ()
    ) -> HttpResponse:
        return self.call("GET", path, headers=headers, expected=expected)

    def post(self, path: str = "", payload: Any = None, *, headers: Mapping[str, str] | None = None) -> HttpResponse:
        """With the payload as JSON."""
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
        """Return an answer whose status is 2xx or expected; raise the outcome of the job for any other."""
        from urllib3 import Timeout  # slow to import, and most runners make no HTTP calls
        from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError

        ends_at = time.monotonic() + self._answer_seconds
        try:
            response = self._pool.request(
                method,
                self._base_url + path,
                body=body,
                headers={"User-Agent": "mayfly", **self._headers, **(headers or {})},
                timeout=Timeout(connect=self._connect_seconds, read=self._answer_seconds),
                retries=False,
                redirect=False,
                preload_content=False,
            )
            try:
                content = self._read(response, ends_at)
            finally:
                response.close()  # do not wait for the unread rest
        except (ConnectTimeoutError, NewConnectionError) as error:
            raise Retry(f"{self.host} cannot be reached: {_kind(error)}") from None
        except HTTPError as error:
            raise ResponseUnknown(f"{self.host} cannot be reached, or broke the connection: {_kind(error)}") from None
        answer = HttpResponse(self.host, response.status, dict(response.headers), content)
        if response.status in expected:
            return answer
        retry_after = response.headers.get("Retry-After")
        quoted = content if self._quotes else b""
        raised = outcome_of_status(self.host, response.status, retry_after, quoted, datetime.now(UTC))
        if raised is not None:
            raise raised
        return answer

    def _read(self, response: "BaseHTTPResponse", ends_at: float) -> bytes:
        """Decompressed, so that the limit counts bytes in memory.

        By read1, which returns what has arrived: read and stream wait until a chunk is full, without a deadline.
        """
        content = bytearray()
        while chunk := response.read1(CHUNK_BYTES, decode_content=True):
            content += chunk
            if len(content) > self._max_answer_bytes:
                raise ResponseTooLarge(f"{self.host} answered with more than {self._max_answer_bytes:,} bytes")
            if time.monotonic() > ends_at:
                raise ResponseUnknown(f"{self.host} took more than {self._answer_seconds:g} s to answer")
        return bytes(content)


def client_for_user_url(url: str, **options: Any) -> HttpClient:
    """For a URL that a user has entered: public addresses only, except the hosts in PRIVATE_HOSTS."""
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
    """The name of the error's class: the text of some quotes the URL."""
    return type(error).__name__
