"""Run the application in uvicorn, and end it without keeping anybody waiting."""

import asyncio
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from anyio import CapacityLimiter

from console.app import make_app
from console.door import Door
from console.rate import Rate
from console.site import Site
from console.web.gate import Gate
from mayfly import __version__, events
from mayfly.app import App, use_app
from mayfly.clock import milliseconds
from mayfly.engine import Database
from mayfly.errors import CannotListen
from mayfly.fleet.runners import OUTSIDE
from mayfly.jobs.books import Books
from mayfly.logs import Log
from mayfly.schema import JOBS, NAME_LENGTH
from mayfly.settings import Settings

GRACE_SECONDS = 10  # for requests that are being answered when we are told to end
BACKLOG = 512  # connections that wait to be let in
PROXIES = ["127.0.0.1", "::1"]  # whose word on where a request comes from is believed
MOST_AT_ONCE = 2000  # requests: beyond it uvicorn answers 503 by itself


class Server(uvicorn.Server):
    """One that lets those go who wait for work, as soon as it is told to end."""

    def __init__(self, config: uvicorn.Config, site: Site, gate: Gate | None) -> None:
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


def open_site(settings: Settings, database: Database, log: Log, connections: int) -> Site:
    producer = App(settings, database)
    for module, reason in producer.registry.failures.items():  # imported now, not on the time of a first request
        log.say(events.handler_module_failed(module, reason))
    use_app(producer)
    name = f"{OUTSIDE}{settings.host_name[:20]}-{os.getpid()}-{milliseconds(database.clock.now())}"
    return Site(
        settings=settings,
        database=database,
        producer=producer,
        log=log,
        books=Books(database, JOBS, name[:NAME_LENGTH]),
        rate=Rate(settings.console_rate),
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
    site = open_site(settings, database, log, connections)
    gate = None if api_only else Gate(site)
    config = uvicorn.Config(
        Door(make_app(site, api_only), site, gate),
        access_log=False,
        log_level="warning",
        limit_concurrency=MOST_AT_ONCE,
        timeout_graceful_shutdown=GRACE_SECONDS,
        proxy_headers=settings.console_tls_proxy,  # without a proxy anybody could name another address as his
        forwarded_allow_ips=PROXIES,
        server_header=False,
        date_header=False,
    )
    server = Server(config, site, gate)
    with listen(settings.console_host, settings.console_port) as listening:
        url = f"http://{settings.console_host}:{settings.console_port}"
        log.say(events.console_started(url, __version__, api_only))
        await server.serve([listening])
    log.say(events.console_stopped())
