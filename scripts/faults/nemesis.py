"""The faults that are injected, one at a time at random moments. Each is recorded before and after it happens."""

import random
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import psutil
from sqlalchemy.exc import DBAPIError

from scripts.faults.database import TortureDatabase
from scripts.faults.history import note
from scripts.faults.hosts import Host
from tests.servers import PrivateServer

CLOCK_STEPS = (-600.0, 600.0, 86_400.0, 8 * 86_400.0)
LOCAL = frozenset({"kill_runner", "kill_dispatcher", "cut_network", "drop_replies", "step_clock"})


class NoVictim(Exception):
    """There was no process to kill or suspend."""


@dataclass
class Nemesis:
    database: TortureDatabase
    hosts: list[Host]
    choice: random.Random
    _numbers: "count[int]" = field(default_factory=count)

    def names(self) -> list[str]:
        """The faults that can be injected here."""
        names = ["kill_runner", "kill_dispatcher", "freeze_runner", "freeze_dispatcher"]
        if self.database.servers:
            names += ["restart_server", "kill_sessions", "cancel_statements", "freeze_server"]
            # Not on SQLite: the clock of the process is the clock of the database, so a step would affect all hosts.
            names += ["step_clock"] if self.hosts[0].clock_library is not None else []
        if self.hosts[0].link is not None:
            names += ["cut_network", "drop_replies"]
        if self.database.with_small_disks:
            names.append("fill_disk")
        return names

    def inject(self, name: str) -> None:
        host = self.choice.choice(self.hosts)
        fault: Callable[[Host], None] = getattr(self, name)
        number, missed = next(self._numbers), False
        note("fault", number=number, name=name, host=host.name if name in LOCAL else None)
        try:
            fault(host)
        except NoVictim:
            missed = True
        note("fault_over", number=number, missed=missed)

    def kill_runner(self, host: Host) -> None:
        self._signal(self._victim(host, host.runners), signal.SIGKILL)

    def kill_dispatcher(self, host: Host) -> None:
        self._signal(self._victim(host, host.dispatchers), signal.SIGKILL)

    def freeze_runner(self, host: Host) -> None:
        """Until its lease has expired, so that it continues as a stale owner."""
        self._freeze([self._victim(host, host.runners)], host.pace.lease_seconds + 1)

    def freeze_dispatcher(self, host: Host) -> None:
        seconds = self.choice.uniform(1, host.pace.lease_seconds)
        self._freeze([self._victim(host, host.dispatchers)], seconds)

    def restart_server(self, _host: Host) -> None:
        self.database.restart_after_kill(self._server())

    def freeze_server(self, _host: Host) -> None:
        self._freeze(_processes_of(self._server()), self.choice.uniform(1, 6))
        self.database.heal()

    def kill_sessions(self, _host: Host) -> None:
        with suppress(DBAPIError):
            self.database.kill_sessions(self._server())

    def cancel_statements(self, _host: Host) -> None:
        with suppress(DBAPIError):
            self.database.cancel_statements(self._server())

    def cut_network(self, host: Host) -> None:
        assert host.link is not None
        host.link.cut()
        time.sleep(self.choice.uniform(1, host.pace.lease_seconds))
        host.link.heal()

    def drop_replies(self, host: Host) -> None:
        """A COMMIT may succeed while its reply is lost."""
        assert host.link is not None
        host.link.drop_replies()
        time.sleep(self.choice.uniform(0.2, 4))
        host.link.heal()

    def step_clock(self, host: Host) -> None:
        host.set_clock(self.choice.choice(CLOCK_STEPS))
        time.sleep(self.choice.uniform(1, 5))
        host.set_clock(0)

    def fill_disk(self, _host: Host) -> None:
        self.database.fill_disk(self._server() if self.database.servers else None)
        time.sleep(self.choice.uniform(1, 4))
        self.database.heal()

    def _server(self) -> PrivateServer:
        return self.choice.choice(self.database.servers)

    def _victim(self, host: Host, find: Callable[[], list[psutil.Process]]) -> psutil.Process:
        """Waits for one: between two cycles there is none."""
        deadline = time.monotonic() + host.pace.tick_seconds
        while time.monotonic() < deadline:
            if found := find():
                return self.choice.choice(found)
            time.sleep(0.05)
        raise NoVictim

    def _freeze(self, processes: Iterable[psutil.Process], seconds: float) -> None:
        frozen = list(processes)
        for each in frozen:
            self._signal(each, signal.SIGSTOP)
        time.sleep(seconds)
        for each in frozen:
            self._signal(each, signal.SIGCONT)

    def _signal(self, process: psutil.Process, number: signal.Signals) -> None:
        note("signal", process=process.pid, signal=number.name)
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def _processes_of(server: PrivateServer) -> list[psutil.Process]:
    home = str(Path(server.home))
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if any(home in part for part in process.info["cmdline"] or ()):
            found += [process, *process.children(recursive=True)]
    return found
