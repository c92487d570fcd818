"""The application: what is open to all, the API, and the web console beside it."""

import asyncio
import os
import signal
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import uvicorn
from anyio import CapacityLimiter
from fastapi import APIRouter, FastAPI

from console import health, metrics, problems, web
from console.api import v1
from console.auth import AuthMiddleware, SessionGate
from console.context import ConsoleContext
from console.rate_limit import RateLimiter
from console.web import page
from mayfly import __version__, log_messages
from mayfly.client import App, use_app
from mayfly.clock import milliseconds
from mayfly.db.database import Database
from mayfly.errors import CannotListen
from mayfly.fleet.runners import OUTSIDE
from mayfly.log import Log
from mayfly.queue.external import ExternalTotals
from mayfly.schema.tables import NAME_LENGTH
from mayfly.settings import Settings

ROUTERS: Sequence[APIRouter] = (health.router, metrics.router, v1)
DESCRIPTION = "Enqueue, see, steer and pull jobs. docs/http-api.md says the same in more words."


class Application(FastAPI):
    def openapi(self) -> dict[str, Any]:
        """With the shape of what went wrong, which FastAPI knows of no route."""
        document = super().openapi()
        document["components"]["schemas"] |= problems.schemas()
        return document


def make_app(site: ConsoleContext, api_only: bool = False) -> FastAPI:
    app = Application(
        title="Mayfly",
        version=__version__,
        description=DESCRIPTION,
        openapi_url="/api/v1/openapi.json",
        docs_url=None,  # its page would load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.site = site
    app.state.checkup = health.HealthCheck(site.settings, site.log)
    for each in ROUTERS if api_only else (*ROUTERS, web.router):
        app.include_router(each)
    problems.install(app, None if api_only else page.refusal)
    return app


GRACE_SECONDS = 10  # for requests that are being answered when we are told to end
BACKLOG = 512  # connections that wait to be let in
PROXIES = ["127.0.0.1", "::1"]  # whose word on where a request comes from is believed
MAX_CONNECTIONS = 2000  # requests: beyond it uvicorn answers 503 by itself


class ConsoleServer(uvicorn.Server):
    """One that lets those go who wait for work, as soon as it is told to end."""

    def __init__(self, config: uvicorn.Config, site: ConsoleContext, gate: SessionGate | None) -> None:
        super().__init__(config)
        self._site = site
        self._gate = gate

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Instead of uvicorn's own, which ends the process by the signal, as if something had gone wrong."""
        loop = asyncio.get_running_loop()
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(each, self._end)
        yield

    def _end(self) -> None:
        self._site.watch.close()
        if self._gate is not None:
            self._gate.errands.close()
        self.should_exit = True


def serve(settings: Settings, database: Database, log: Log, connections: int, api_only: bool) -> None:
    asyncio.run(_serve(settings, database, log, connections, api_only))


def open_context(settings: Settings, database: Database, log: Log, connections: int) -> ConsoleContext:
    producer = App(settings, database)
    for module, reason in producer.registry.failures.items():  # imported now, not on the time of a first request
        log.say(log_messages.handler_module_failed(module, reason))
    use_app(producer)
    name = f"{OUTSIDE}{settings.host_name[:20]}-{os.getpid()}-{milliseconds(database.clock.now())}"
    return ConsoleContext(
        settings=settings,
        database=database,
        producer=producer,
        log=log,
        books=ExternalTotals(database, name[:NAME_LENGTH]),
        rate=RateLimiter(settings.console_rate),
        threads=CapacityLimiter(connections),
    )


def listen(host: str, port: int) -> socket.socket:
    """Before anything is said: who is told that it serves can rely on it."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host.strip("[]"), port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise CannotListen(host, port, error.strerror or str(error)) from error
    # Those that are let in inherit it. asyncio sees to it only for sockets that it has opened itself; without it the
    # second part of an answer waits for the other side to acknowledge the first: 40 ms.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


async def _serve(settings: Settings, database: Database, log: Log, connections: int, api_only: bool) -> None:
    site = open_context(settings, database, log, connections)
    gate = None if api_only else SessionGate(site)
    config = uvicorn.Config(
        AuthMiddleware(make_app(site, api_only), site, gate),
        access_log=False,
        log_level="warning",
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=GRACE_SECONDS,
        proxy_headers=settings.console_tls_proxy,  # without a proxy anybody could name another address as his
        forwarded_allow_ips=PROXIES,
        server_header=False,
        date_header=False,
    )
    server = ConsoleServer(config, site, gate)
    with listen(settings.console_host, settings.console_port) as listening:
        url = f"http://{settings.console_host}:{settings.console_port}"
        log.say(log_messages.console_started(url, __version__, api_only))
        await server.serve([listening])
    log.say(log_messages.console_stopped())
