"""A fake language model on a local HTTP server: answers in one piece or as a stream."""

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@dataclass(frozen=True)
class Asked:
    path: str
    key: str
    body: dict[str, Any]

    @property
    def system(self) -> str:
        return str(self.body["messages"][0]["content"])

    @property
    def data(self) -> Any:
        """What users wrote: the second message, as JSON."""
        return json.loads(self.body["messages"][1]["content"])


Reply = Callable[[Asked], str]


@dataclass
class PlayedModel:
    """`reply` returns the content of an answer; `streams` sends it as events, without the last one if it is cut."""

    port: int = 0
    reply: Reply = lambda _asked: "{}"
    streams: bool = False
    cut: bool = False
    usage: dict[str, Any] | None = field(default_factory=lambda: {"prompt_tokens": 1000, "completion_tokens": 100})
    asked: list[Asked] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"


def completion(content: str, usage: dict[str, Any] | None = None) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
    answer = {"id": "c-1", "object": "chat.completion", "choices": [choice]}
    return json.dumps(answer | ({"usage": usage} if usage else {})).encode()


def events(content: str) -> Iterator[bytes]:
    for each in content:
        choice = {"index": 0, "delta": {"content": each}}
        yield b"data: " + json.dumps({"object": "chat.completion.chunk", "choices": [choice]}).encode() + b"\n\n"
    yield b"data: [DONE]\n\n"


@contextmanager
def played_model() -> Iterator[PlayedModel]:
    model = PlayedModel()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked = Asked(self.path, self.headers["Authorization"], body)
            model.asked.append(asked)
            content = model.reply(asked)
            with suppress(OSError):  # the caller may close the connection early
                self._stream(list(events(content))) if model.streams else self._answer(
                    completion(content, model.usage)
                )

        def _answer(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _stream(self, chunks: list[bytes]) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for chunk in chunks[: len(chunks) // 2] if model.cut else chunks:
                self.wfile.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
            if model.cut:
                self.connection.shutdown(socket.SHUT_RDWR)
            else:
                self.wfile.write(b"0\r\n\r\n")

        def log_message(self, *_: object) -> None:
            """Nothing on stderr."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        model.port = server.server_port
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()  # seconds until it notices its end
        yield model
        server.shutdown()
