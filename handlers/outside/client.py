"""One HTTP client for all calls to the outside: bounded in time and size, and no surprise left to the handler."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from handlers.outside.meaning import what_to_do
from mayfly import Dead, Retry

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse, PoolManager

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 15.0  # for the whole answer, however steadily it drips
ANSWER_LIMIT = 1 << 20  # bytes
CHUNK = 64 << 10


class TooMuch(Dead):
    """More than anybody wants to hold. Unlike after a refusal, what was asked for may have happened."""


@dataclass(frozen=True)
class Answer:
    """What came back, and was well: any other status has ended the handler."""

    who: str
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """Whoever answers 200 with something else (a proxy, a page of excuses) is asked again."""
        try:
            return json.loads(self.body)
        except ValueError:
            raise Retry(f"{self.who} answered {self.status} with something that is no JSON") from None


class Outside:
    """One who is called: `Outside(setting("VENDOR_URL", "https://api.vendor.example"), headers={…})`.

    Nothing is repeated in here and no redirect is followed: the job is what is tried again, and a key that was
    meant for one host is not carried to another.
    """

    def __init__(
        self,
        base_url: str,
        *,
        headers: Mapping[str, str] | None = None,
        connect_seconds: float = CONNECT_SECONDS,
        answer_seconds: float = ANSWER_SECONDS,
        answer_limit: int = ANSWER_LIMIT,
    ) -> None:
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Dead("the base URL of an integration must begin with http:// or https:// and name a host")
        self._base_url = base_url.rstrip("/")
        self._headers = dict(headers or {})
        self._connect_seconds, self._answer_seconds = connect_seconds, answer_seconds
        self._answer_limit = answer_limit
        self.who = parts.hostname  # what errors show: paths and queries may hold a key
        self._pool = _open_pool()

    def get(self, path: str = "", *, headers: Mapping[str, str] | None = None) -> Answer:
        return self.call("GET", path, headers=headers)

    def post(self, path: str = "", payload: Any = None, *, headers: Mapping[str, str] | None = None) -> Answer:
        """With the payload as JSON."""
        body = json.dumps(payload, separators=(",", ":")).encode()
        return self.call("POST", path, body, {"Content-Type": "application/json", **(headers or {})})

    def call(
        self, method: str, path: str = "", body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """The answer if its status is 2xx; otherwise raises what should become of the job."""
        from urllib3 import Timeout  # here, as below: most runners call nobody
        from urllib3.exceptions import HTTPError

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
                response.close()  # what is left unread is nothing to wait for
        except HTTPError as error:
            raise Retry(f"{self.who} cannot be reached, or broke off: {_kind(error)}") from None
        answer = Answer(self.who, response.status, dict(response.headers), content)
        retry_after = response.headers.get("Retry-After")
        raised = what_to_do(self.who, response.status, retry_after, content, datetime.now(UTC))
        if raised is not None:
            raise raised
        return answer

    def _read(self, response: "BaseHTTPResponse", ends_at: float) -> bytes:
        """Decompressed, so that the limit counts what would fill the memory.

        By read1, which gives what is there: read and stream wait until a chunk is full, for ever if it drips.
        """
        content = bytearray()
        while chunk := response.read1(CHUNK, decode_content=True):
            content += chunk
            if len(content) > self._answer_limit:
                raise TooMuch(f"{self.who} answered with more than {self._answer_limit:,} bytes")
            if time.monotonic() > ends_at:
                raise Retry(f"{self.who} took more than {self._answer_seconds:g} s to answer")
        return bytes(content)


def _open_pool() -> "PoolManager":
    try:
        from urllib3 import PoolManager
    except ModuleNotFoundError:
        raise Dead("calls to the outside need urllib3: pip install 'mayfly-jobs[http]'") from None
    return PoolManager(maxsize=4)


def _kind(error: Exception) -> str:
    """Its name alone: the text of some of them quotes the URL."""
    return type(error).__name__
