"""One HTTP server for all services that handlers call: channels, push services, lookups, a language model."""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

GONE, OK = 410, 200


class FakeServices(ThreadingHTTPServer):
    """Counts the calls of each service."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.calls: Counter[str] = Counter()
        self.port = int(self.server_address[1])
        self.url = f"http://127.0.0.1:{self.port}"


class _Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FakeServices

    def do_GET(self) -> None:
        self._answer({key: values[0] for key, values in parse_qs(urlsplit(self.path).query).items()})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._answer(json.loads(body))

    def _answer(self, asked: dict[str, Any]) -> None:
        """A request without data is a health check and does not count as a call."""
        name = urlsplit(self.path).path.split("/")[1]
        status: int = OK
        answer: Any = {}
        if asked:
            self.server.calls[name] += 1
            status, answer = ANSWERS[name](asked, self.server.calls[name])
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: Any) -> None:
        """Calls are counted, not logged."""


def _status(_asked: dict[str, Any], number: int) -> tuple[int, Any]:
    return OK, {"id": f"{110_000_000_000 + number}"}


def _taken(_asked: dict[str, Any], _number: int) -> tuple[int, Any]:
    return OK, {"ok": True}


def _phone(_asked: dict[str, Any], number: int) -> tuple[int, Any]:
    """One in ten is gone."""
    return (GONE, {}) if number % 10 == 0 else (OK, {"id": str(number)})


def _hunter(asked: dict[str, Any], number: int) -> tuple[int, Any]:
    verdict = {"status": "valid" if number % 4 else "accept_all", "score": 70 + number % 30}
    if "email" in asked:
        return OK, {"data": {"email": asked["email"], **verdict}}
    first, _, last = asked["full_name"].lower().partition(" ")
    mail = f"{first}.{last.replace(' ', '')}@{asked.get('domain', 'example.org')}"
    return OK, {"data": {"email": mail, "position": "Gardener", "verification": verdict}}


def _broken(_asked: dict[str, Any], _number: int) -> tuple[int, Any]:
    return 500, {}


def _scraper(_asked: dict[str, Any], _number: int) -> tuple[int, Any]:
    return OK, {
        "profile": {"title": "Gardener", "city": "Leipzig", "country": "DE", "website": "https://example.org"}
    }


def _model(asked: dict[str, Any], _number: int) -> tuple[int, Any]:
    """The first message says which fields are wanted."""
    system = asked["messages"][0]["content"]
    content: dict[str, Any] = {"text": "What would help you most this week?"}
    if '"nudge"' in system:
        content["nudge"] = True
    elif '"summary"' in system:
        content = {"summary": "People compared seeds, agreed on a date for planting, and still need tools."}
    usage = {"prompt_tokens": len(json.dumps(asked["messages"])) // 4, "completion_tokens": 30}
    return OK, {"choices": [{"message": {"role": "assistant", "content": json.dumps(content)}}], "usage": usage}


ANSWERS = {
    "mastodon": _status, "hook": _taken, "chat": _taken, "phones": _phone, "hunter": _hunter, "scraper-1": _broken,
    "scraper-2": _scraper, "model": _model,
}  # fmt: skip


@contextmanager
def fake_services() -> Iterator[FakeServices]:
    server = FakeServices()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
