"""The hosts of the torture test: each starts a real dispatcher per tick, as cron does, and has a producer."""

import os
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from scripts.faults.evidence import DispatcherExit
from scripts.faults.history import DIRECTORY
from scripts.faults.network import Link

CHECKOUT = Path(__file__).parent.parent.parent
MAX_WORKERS = 4  # per lane, on all hosts together
HOST_MAX_WORKERS = 6
SCHEDULE = "* * * * * torture_plain name=minutely lane=fast\n"


@dataclass(frozen=True)
class Pace:
    """The length of a cron minute in this test, and the timeouts to match."""

    tick_seconds: float
    worker_timeout: float
    dispatch_timeout: float

    def slowed(self, factor: float) -> "Pace":
        return Pace(
            *(round(factor * each, 1) for each in (self.tick_seconds, self.worker_timeout, self.dispatch_timeout))
        )

    @property
    def max_cycle_seconds(self) -> float:
        """The guarantee is DISPATCH_TIMEOUT + 3 s; the rest is for a busy machine."""
        return self.dispatch_timeout + 3 + 4

    @property
    def lease_seconds(self) -> float:
        return self.dispatch_timeout + 5


@dataclass(eq=False)
class Host:
    name: str
    directory: Path
    database_url: str
    history: Path
    pace: Pace
    clock_library: Path | None = None
    link: Link | None = None
    exits: list[DispatcherExit] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.home = self.directory / self.name
        (self.home / "cron.d").mkdir(parents=True)
        (self.home / "cron.d" / "schedule").write_text(SCHEDULE)
        self.set_clock(0)
        self._stopping = threading.Event()
        self._running: dict[int, threading.Thread] = {}
        self._cron = threading.Thread(target=self._tick, daemon=True)
        self._producer: subprocess.Popen[bytes] | None = None

    def start(self, rate: float, seed: int) -> None:
        self._cron.start()
        arguments = ("-m", "scripts.faults.producer", self.name, str(rate), str(seed))
        self._producer = subprocess.Popen(self._command(*arguments), env=self.environment(), cwd="/")  # noqa: S603

    def stop_producer(self) -> None:
        if self._producer is not None:
            self._producer.terminate()
            self._producer.wait(30)
            self._producer = None

    def stop_cron(self) -> None:
        """Wait for the running dispatchers."""
        self._stopping.set()
        self._cron.join()
        for each in list(self._running.values()):
            each.join(self.pace.max_cycle_seconds * 3)

    def dispatchers(self) -> list[psutil.Process]:
        found = []
        for pid in list(self._running):
            with suppress(psutil.NoSuchProcess):
                found.append(psutil.Process(pid))
        return found

    def runners(self) -> list[psutil.Process]:
        return [each for each in self.processes() if each.pid not in self._running and not self._is_producer(each)]

    def processes(self) -> Iterator[psutil.Process]:
        """All processes with this MAYFLY_HOME."""
        wanted = f"MAYFLY_HOME={self.home}".encode()
        for path in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError, psutil.NoSuchProcess):
                if wanted in path.read_bytes().split(b"\0"):
                    yield psutil.Process(int(path.parent.name))

    def set_clock(self, seconds: float) -> None:
        """Step the wall clock of this host's processes, including running ones."""
        with (self.home / "skew").open("r+b" if (self.home / "skew").exists() else "wb") as file:
            file.write(struct.pack("d", seconds))

    def heal(self) -> None:
        self.set_clock(0)
        if self.link is not None:
            self.link.heal()
        for each in self.processes():
            with suppress(psutil.NoSuchProcess):
                each.send_signal(signal.SIGCONT)

    def close(self) -> None:
        for each in self.processes():
            with suppress(psutil.NoSuchProcess):
                each.kill()
        if self.link is not None:
            self.link.close()

    def environment(self) -> dict[str, str]:
        clock = {"LD_PRELOAD": str(self.clock_library), "SKEW_FILE": str(self.home / "skew")}
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "MAYFLY_HOME": str(self.home),
            "PYTHONPATH": str(CHECKOUT),
            DIRECTORY: str(self.history),
            "DATABASE_URL": self.database_url,
            "HOST_NAME": self.name,
            "STATE_DIR": str(self.home / "state"),
            "HANDLERS": "scripts.faults.jobs",
            "WORKER_TIMEOUT": f"{self.pace.worker_timeout:g}",
            "DISPATCH_TIMEOUT": f"{self.pace.dispatch_timeout:g}",
            "MAX_WORKERS": str(MAX_WORKERS),
            "HOST_MAX_WORKERS": str(HOST_MAX_WORKERS),
            "BACKOFF_BASE": "0.2",
            "MAX_LOAD": "0",
            **(clock if self.clock_library is not None else {}),
        }

    def _tick(self) -> None:
        while not self._stopping.is_set():
            command = self._command("-m", "dispatcher")
            process = subprocess.Popen(  # noqa: S603
                command, env=self.environment(), cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            waiter = threading.Thread(target=self._wait_for, args=(process, time.monotonic()), daemon=True)
            self._running[process.pid] = waiter
            waiter.start()
            self._stopping.wait(self.pace.tick_seconds)

    def _wait_for(self, process: "subprocess.Popen[bytes]", started: float) -> None:
        code = process.wait()
        self.exits.append(DispatcherExit(self.name, process.pid, started, time.monotonic(), code))
        del self._running[process.pid]

    def _command(self, *arguments: str) -> list[str]:
        """nsenter replaces itself by the program, so that the pid is the program's."""
        prefix = self.link.prefix if self.link is not None else ()
        return [*prefix, sys.executable, *arguments]

    def _is_producer(self, process: psutil.Process) -> bool:
        return self._producer is not None and process.pid == self._producer.pid
