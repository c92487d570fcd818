"""The faults that are injected, one at a time at random moments. Each is recorded before it happens."""

import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from sqlalchemy.exc import DBAPIError

from scripts.faults.history import note
from scripts.faults.hosts import Host
from scripts.faults.servers import TortureDatabase

CLOCK_STEPS = (-600.0, 600.0, 86_400.0, 8 * 86_400.0)


@dataclass(frozen=True)
class Nemesis:
    database: TortureDatabase
    hosts: list[Host]
    choice: random.Random
    small_disk: bool  # the database is on a file system that may be filled up

    def names(self) -> list[str]:
        """The faults that can be injected here."""
        names = ["kill_runner", "kill_dispatcher", "freeze_runner", "freeze_dispatcher"]
        if self.database.server is not None:
            names += ["restart_server", "kill_sessions", "cancel_statements", "freeze_server"]
            # With SQLite the clock of the process is the clock of the database: a step there is a step for all.
            names += ["step_clock"] if self.hosts[0].clock_library is not None else []
        if self.hosts[0].link is not None:
            names += ["cut_network", "drop_replies"]
        if self.small_disk:
            names.append("fill_disk")
        return names

    def inject(self, name: str) -> None:
        host = self.choice.choice(self.hosts)
        fault: Callable[[Host], None] = getattr(self, name)
        # A job may run again until its lease has expired and another host has taken it over.
        until = time.monotonic() + 4 * host.pace.lease_seconds
        note("fault", name=name, host=host.name, until=until)
        fault(host)

    def kill_runner(self, host: Host) -> None:
        runners = host.runners()
        if runners:
            self._signal(self.choice.choice(runners), signal.SIGKILL)

    def kill_dispatcher(self, host: Host) -> None:
        for pid in host.dispatchers():
            host.disturbed.add(pid)
            self._signal(psutil.Process(pid), signal.SIGKILL)

    def freeze_runner(self, host: Host) -> None:
        """Until its lease has expired, so that it wakes up as a stale owner."""
        runners = host.runners()
        if runners:
            self._freeze(self.choice.choice(runners), host.pace.lease_seconds + 1)

    def freeze_dispatcher(self, host: Host) -> None:
        for pid in host.dispatchers()[:1]:
            host.disturbed.add(pid)
            with suppress(psutil.NoSuchProcess):
                self._freeze(psutil.Process(pid), self.choice.uniform(1, host.pace.lease_seconds))

    def restart_server(self, _host: Host) -> None:
        self.database.restart_after_kill()

    def freeze_server(self, _host: Host) -> None:
        assert self.database.server is not None
        processes = _server_processes(self.database)
        for each in processes:
            self._signal(each, signal.SIGSTOP)
        time.sleep(self.choice.uniform(1, 6))
        for each in processes:
            self._signal(each, signal.SIGCONT)

    def kill_sessions(self, _host: Host) -> None:
        with suppress(DBAPIError):
            self.database.kill_sessions()

    def cancel_statements(self, _host: Host) -> None:
        with suppress(DBAPIError):
            self.database.cancel_statements()

    def cut_network(self, host: Host) -> None:
        assert host.link is not None
        host.link.cut()
        time.sleep(self.choice.uniform(1, host.pace.lease_seconds))
        host.link.heal()

    def drop_replies(self, host: Host) -> None:
        """So that a COMMIT happens and its answer is lost."""
        assert host.link is not None
        host.link.drop_replies()
        time.sleep(self.choice.uniform(0.2, 4))
        host.link.heal()

    def step_clock(self, host: Host) -> None:
        host.set_clock(self.choice.choice(CLOCK_STEPS))
        time.sleep(self.choice.uniform(1, 5))
        host.set_clock(0)

    def fill_disk(self, _host: Host) -> None:
        self.database.fill_disk()
        time.sleep(self.choice.uniform(1, 4))
        self.database.heal()

    def _freeze(self, process: psutil.Process, seconds: float) -> None:
        self._signal(process, signal.SIGSTOP)
        time.sleep(seconds)
        self._signal(process, signal.SIGCONT)

    def _signal(self, process: psutil.Process, number: signal.Signals) -> None:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def _server_processes(database: TortureDatabase) -> list[psutil.Process]:
    assert database.server is not None
    home = str(Path(database.server.home))
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if any(home in part for part in process.info["cmdline"] or ()):
            found += [process, *process.children(recursive=True)]
    return found
