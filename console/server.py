"""Build the application and serve it with uvicorn."""

import asyncio
import resource
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from console import health, hooks, problems, web
from console.api import read, v1
from console.auth import AuthMiddleware
from console.context import ConsoleContext, open_context
from console.web import page
from mayfly import __version__, log_messages
from mayfly.db.database import Database
from mayfly.errors import CannotListen
from mayfly.log import Log
from mayfly.settings import Settings

DESCRIPTION = "Enqueue, list, control and pull jobs. Explained in docs/how-to/pull-workers.md."
SHUTDOWN_SECONDS = 10  # that requests in progress may take after SIGTERM
BACKLOG = 512  # of connections not yet accepted
TRUSTED_PROXIES = ["127.0.0.1", "::1"]  # from others X-Forwarded-For is ignored
MAX_REQUESTS = 2000  # connections at once; uvicorn responds to others with 503
MAX_HALF_RECEIVED = 1000  # of them without a whole request; more than BACKLOG, which may be accepted at once
MAX_OPEN_FILES = 4096  # the usual limit is 1024


class Application(FastAPI):
    def openapi(self) -> dict[str, Any]:
        """Add the schema of problem details, which is no route's response model."""
        document = super().openapi()
        document["components"]["schemas"] |= problems.schemas()
        return document


def _api() -> FastAPI:
    app = Application(
        title="Mayfly",
        version=__version__,
        description=DESCRIPTION,
        openapi_url="/api/v1/openapi.json",
        docs_url=None,  # it would load scripts from another host
        redoc_url=None,
        redirect_slashes=False,
    )
    for each in (health.router, read.metrics_router, v1):
        app.include_router(each)
    return app


def openapi_document() -> dict[str, Any]:
    return _api().openapi()


def make_app(context: ConsoleContext, api_only: bool = False) -> FastAPI:
    app = _api()
    app.state.health_check = health.HealthCheck(context.settings, context.log)
    if not api_only:
        app.include_router(web.router)
    hooks.mount(app, context.registry, context.log)
    problems.install(app, None if api_only else page.error_page)
    return app


class ConsoleProtocol(H11Protocol):
    """Closes the connection that has waited longest for the rest of its request, if too many of them wait.

    uvicorn has no timeout for them, and counts them in limit_concurrency.
    """

    waiting: ClassVar[dict[H11Protocol, None]] = {}  # the oldest first

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._note_state()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._note_state()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.waiting.pop(self, None)

    def _note_state(self) -> None:
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY) or self.transport.is_closing():
            self.waiting.pop(self, None)
            return
        self.waiting[self] = None
        if len(self.waiting) > MAX_HALF_RECEIVED:
            oldest = next(iter(self.waiting))
            del self.waiting[oldest]
            oldest.transport.close()


class ConsoleServer(uvicorn.Server):
    """On SIGTERM, ends long polls and background tasks and exits with code 0."""

    def __init__(self, config: uvicorn.Config, context: ConsoleContext) -> None:
        super().__init__(config)
        self._context = context

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Replaces uvicorn's handlers, which re-raise the signal, so the process would seem to have failed."""
        loop = asyncio.get_running_loop()
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(each, self._stop)
        yield

    def _stop(self) -> None:
        self._context.close()
        self.should_exit = True


def listen(host: str, port: int) -> socket.socket:
    """Bind before the start is logged, so that the logged address accepts connections."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host.strip("[]"), port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise CannotListen(host, port, error.strerror or str(error)) from error
    # Accepted connections inherit it; asyncio sets it only for sockets that it opens itself. Without it the second
    # part of a response waits 40 ms until the client acknowledges the first.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def allow_open_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(MAX_OPEN_FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))


async def serve(settings: Settings, database: Database, log: Log, connections: int, api_only: bool) -> None:
    allow_open_files()
    context = open_context(settings, database, log, connections)
    config = uvicorn.Config(
        AuthMiddleware(make_app(context, api_only), context, has_pages=not api_only),
        http=ConsoleProtocol,
        access_log=False,
        log_level="warning",
        limit_concurrency=MAX_REQUESTS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        proxy_headers=settings.console_tls_proxy,  # without a proxy, any client could forge its address
        forwarded_allow_ips=TRUSTED_PROXIES,
        server_header=False,
        date_header=False,
    )
    with listen(settings.console_host, settings.console_port) as listening:
        url = f"http://{settings.console_host}:{settings.console_port}"
        log.write(log_messages.console_started(url, __version__, api_only))
        await ConsoleServer(config, context).serve([listening])
    log.write(log_messages.console_stopped())
