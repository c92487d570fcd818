"""Build the application and serve it with uvicorn."""

import asyncio
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI

from console import health, problems, web
from console.api import read, v1
from console.auth import AuthMiddleware
from console.context import ConsoleContext, open_context
from console.web import page
from mayfly import __version__, log_messages
from mayfly.db.database import Database
from mayfly.errors import CannotListen
from mayfly.log import Log
from mayfly.settings import Settings

DESCRIPTION = "Enqueue, list, control and pull jobs. Explained in docs/http-api.md."
SHUTDOWN_SECONDS = 10  # for requests in progress at SIGTERM
BACKLOG = 512  # connections that wait to be accepted
TRUSTED_PROXIES = ["127.0.0.1", "::1"]  # X-Forwarded-For of others is ignored
MAX_REQUESTS = 2000  # at once: beyond it uvicorn answers 503 by itself


class Application(FastAPI):
    def openapi(self) -> dict[str, Any]:
        """With the schema of problem details, which no route returns as its response model."""
        document = super().openapi()
        document["components"]["schemas"] |= problems.schemas()
        return document


def make_app(context: ConsoleContext, api_only: bool = False) -> FastAPI:
    app = Application(
        title="Mayfly",
        version=__version__,
        description=DESCRIPTION,
        openapi_url="/api/v1/openapi.json",
        docs_url=None,  # that page would load scripts from another host
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.checkup = health.HealthCheck(context.settings, context.log)
    for each in (health.router, read.metrics_router, v1):
        app.include_router(each)
    if not api_only:
        app.include_router(web.router)
    problems.install(app, None if api_only else page.error_page)
    return app


class ConsoleServer(uvicorn.Server):
    """Ends long polls and background tasks at SIGTERM, and then exits with code 0."""

    def __init__(self, config: uvicorn.Config, context: ConsoleContext) -> None:
        super().__init__(config)
        self._context = context

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Instead of uvicorn's own, which ends the process by the signal, as if it had failed."""
        loop = asyncio.get_running_loop()
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(each, self._stop)
        yield

    def _stop(self) -> None:
        self._context.close()
        self.should_exit = True


def listen(host: str, port: int) -> socket.socket:
    """Bind before the log says that the console serves."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host.strip("[]"), port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise CannotListen(host, port, error.strerror or str(error)) from error
    # Accepted connections inherit it. asyncio sets it only for sockets that it has opened itself; without it the
    # second part of a response waits until the client acknowledges the first: 40 ms.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def serve(settings: Settings, database: Database, log: Log, connections: int, api_only: bool) -> None:
    asyncio.run(_serve(settings, database, log, connections, api_only))


async def _serve(settings: Settings, database: Database, log: Log, connections: int, api_only: bool) -> None:
    context = open_context(settings, database, log, connections)
    config = uvicorn.Config(
        AuthMiddleware(make_app(context, api_only), context, has_pages=not api_only),
        access_log=False,
        log_level="warning",
        limit_concurrency=MAX_REQUESTS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        proxy_headers=settings.console_tls_proxy,  # without a proxy any client could send another address
        forwarded_allow_ips=TRUSTED_PROXIES,
        server_header=False,
        date_header=False,
    )
    with listen(settings.console_host, settings.console_port) as listening:
        url = f"http://{settings.console_host}:{settings.console_port}"
        log.say(log_messages.console_started(url, __version__, api_only))
        await ConsoleServer(config, context).serve([listening])
    log.say(log_messages.console_stopped())
