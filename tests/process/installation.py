"""An installation of Mayfly for one test: a home, a database, and real processes started in it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import accumulate
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote
from weakref import WeakSet

import psutil
from sqlalchemy import Select, make_url, text

from mayfly.db.database import Database
from mayfly.db.dialects import Unit
from mayfly.process import Timing
from mayfly.process.status_page import RunnerStatus, read_status_page
from mayfly.schema import create_embedded
from tests.factories import insert_rows
from tests.process import warm
from tests.process.warm import ForkedProcess, warm_process
from tests.sqlalchemy_engines import engine_of

CHECKOUT = Path(__file__).parent.parent.parent
DEADLINE_SECONDS = 60.0
RUN_SECONDS = 90.0
# On a busy machine a receiver may take seconds to answer. Tests of this limit use the product's value.
LONG_TIMEOUTS = Timing(notify_seconds=20.0, request_seconds=10.0)

StartedProcess = subprocess.Popen[str] | ForkedProcess


@dataclass(eq=False)
class Installation:
    """Settings that are not given have Mayfly's defaults; the load of the machine must not cut a plan here."""

    open_ones: ClassVar[WeakSet["Installation"]] = WeakSet()  # for the report of a failure

    home: Path
    url: str
    settings: Mapping[str, str] = field(default_factory=dict)
    timing: Timing = LONG_TIMEOUTS  # for forked processes; a new interpreter uses the product's timing
    new_interpreters: bool = False  # for tests of the start itself; the others fork a warm process

    def __post_init__(self) -> None:
        self.open_ones.add(self)
        self.database = Database(self.url)
        self._started: list[StartedProcess] = []
        self._sessions: set[int] = set()  # of the forked processes

    @property
    def log(self) -> str:
        path = self.home / "logs" / "dispatcher.log"
        return path.read_text() if path.exists() else ""

    @property
    def secrets(self) -> set[str]:
        """The password of its database, plain and URL-encoded; none with SQLite."""
        password = make_url(self.url).password
        return {str(password), quote(str(password), safe="")} if password else set()

    def environment(self, **changes: str) -> dict[str, str]:
        """As cron sets it, without our own environment: PATH, HOME, and the settings of this test."""
        return {
            "PATH": "/usr/bin:/bin",
            "HOME": str(self.home),
            "MAYFLY_HOME": str(self.home),
            "DATABASE_URL": self.url,
            "STATE_DIR": str(self.home / "state"),
            "HANDLERS": handler_modules("misbehaving", "outcomes"),
            "PYTHONPATH": str(CHECKOUT),
            "MAX_LOAD": "0",
            **warm.measurement(),
            **self.settings,
            **changes,
        }

    def run(self, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        """Run `python -m …` to its end."""
        process = self.start(*arguments, **settings)
        with process:
            try:
                # A cycle that takes longer than this is a bug.
                out, err = process.communicate(timeout=RUN_SECONDS)
            except BaseException:
                process.kill()
                raise
        self._started.remove(process)
        assert process.returncode is not None
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def dispatch(self, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        return self.run("dispatcher", *arguments, **settings)

    def start(self, *arguments: str, **settings: str) -> StartedProcess:
        """Start `python -m …` in the background; the caller waits for it."""
        environment = self.environment(**settings)
        process: StartedProcess
        if self.new_interpreters or arguments[0] not in warm.IMPORTS:
            process = subprocess.Popen(
                [sys.executable, "-m", *arguments],
                env=environment,
                cwd="/",
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        else:
            process = warm_process().start(arguments, environment, self.timing)
            self._sessions.add(process.pid)
        self._started.append(process)
        return process

    def enqueue(self, type_name: str, payload: str = "{}", count: int = 1, **columns: Any) -> list[int]:
        create_embedded(self.url)
        return insert_rows(self.database, count, type=type_name, payload=payload, **columns)

    def rows(self, query: str | Select[Any], **parameters: Any) -> Sequence[Any]:
        """Raw values for SQL text; aware times for a query on a table of mayfly.schema.metadata."""
        statement = text(query) if isinstance(query, str) else query
        with engine_of(self.database, Unit.READ).begin() as connection:
            return connection.execute(statement, parameters).all()

    def execute(self, sql: str) -> None:
        """A statement without a result."""
        with engine_of(self.database).begin() as connection:
            connection.execute(text(sql))

    def job(self, job_id: int) -> Any:
        return self.rows("SELECT * FROM mayfly_jobs WHERE id = :id", id=job_id)[0]

    def statuses(self) -> dict[str, int]:
        counted = self.rows("SELECT status, COUNT(*) AS number FROM mayfly_jobs GROUP BY status")
        return {row.status: row.number for row in counted}

    def now(self) -> datetime:
        """By the clock of the database."""
        return self.database.clock.now()

    def lane_lines(self) -> list[dict[str, str]]:
        """The figures of each cycle and lane, from the key=value lines of the log."""
        lines = [line.partition("[DISPATCHER] ")[2] for line in self.log.splitlines()]
        return [dict(part.split("=", 1) for part in line.split()) for line in lines if line.startswith("cycle=")]

    def wait_for_gate(self) -> None:
        """Until a `gated` job runs; it ends after `open_gate`."""
        wait_until((self.home / "reached").exists, "the gated job runs")

    def open_gate(self) -> None:
        (self.home / "go").touch()

    def runner_pids(self) -> list[int]:
        """Of runners that have taken over their rows and have not exited."""
        live = self.rows("SELECT pid FROM mayfly_runners WHERE finished_at IS NULL AND heartbeat_at IS NOT NULL")
        return [row.pid for row in live]

    def status_pages(self) -> list[RunnerStatus]:
        """Of its runners."""
        return [*filter(None, map(read_status_page, (self.home / "state").glob("*/*.page")))]

    def is_running(self, job_id: int) -> bool:
        """Whether its handler has started and not ended."""
        return any(page.running_job(job_id) is not None for page in self.status_pages())

    def processes(self) -> list[psutil.Process]:
        """All live processes of this installation, found by their environment or their session."""
        return [process for process in psutil.process_iter() if self._is_ours(process.pid)]

    def _is_ours(self, pid: int) -> bool:
        try:
            if os.getsid(pid) in self._sessions:
                return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
            environ = Path(f"/proc/{pid}/environ").read_text(errors="replace").split("\0")
        except (OSError, psutil.Error):
            return False
        return f"MAYFLY_HOME={self.home}" in environ

    def end(self) -> None:
        """No process survives its test."""
        self.open_ones.discard(self)
        self.database.close()
        for process in self.processes():
            try:
                os.kill(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        for started in self._started:
            with started:  # waits for it, and closes its pipes
                continue


def handler_modules(*names: str) -> str:
    """HANDLERS: the basic handlers, and the named modules of tests/process/sample_handlers."""
    return ",".join(["tests.basic_handlers", *(f"tests.process.sample_handlers.{name}" for name in names)])


def children_of(pid: int) -> list[psutil.Process]:
    """Read from /proc: psutil's process_iter() passes over a process whose pid was in use when it was last called,
    and during a run of all tests the pids start again from the beginning."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, psutil.NoSuchProcess):  # it has just exited
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            if parent == pid:
                found.append(psutil.Process(int(stat.parent.name)))
    return found


def suspend(pid: int) -> psutil.Process:
    """Stop a process; returns when it has stopped, which takes a moment, or has exited."""
    process = psutil.Process(pid)
    process.suspend()
    wait_until(lambda: process.status() in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE), f"{pid} is stopped")
    return process


def suspend_with_children(pid: int) -> tuple[psutil.Process, list[psutil.Process]]:
    """Stop a dispatcher, so that it starts no further runner; returns it and its children, which go on running."""
    return suspend(pid), children_of(pid)


def most_at_once(intervals: Iterable[tuple[datetime, datetime]]) -> int:
    """The most that overlap at any instant; one that begins where another ends does not."""
    steps = [step for start, end in intervals for step in ((start, 1), (end, -1))]
    return max(accumulate(change for _, change in sorted(steps)), default=0)


def wait_until(true: Callable[[], object], what: str, seconds: float = DEADLINE_SECONDS) -> None:
    """Wait for an event, with a deadline that fails the test."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(0.02)
