"""Run programs of one checkout with a separate home and database, and measure them."""

import json
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile, mkdtemp
from types import MappingProxyType
from typing import Any, TypeVar

import psutil
from sqlalchemy import URL, Connection, create_engine, make_url, text
from sqlalchemy.pool import NullPool

from mayfly.clock import monotonic
from scripts.benchmark import ledger
from scripts.benchmark.engines import Engine
from scripts.benchmark.figures import alternately
from tests.databases import Databases
from tests.servers import PrivateServer

CHECKOUT = Path(__file__).parent.parent.parent
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - mkdtemp makes a directory of our own
ROWS_PER_INSERT = 100_000
WATCH_SECONDS = 0.1

T = TypeVar("T")
Watch = Callable[[int], None]  # called ten times per second with the pid of the program


class Failed(Exception):
    """A program that is measured failed; the message has the end of its output."""


@dataclass(frozen=True)
class Spent:
    seconds: float
    cpu_seconds: float  # of the program and the children it waited for
    output: str


@dataclass(frozen=True)
class Lab:
    """The argument of a benchmark: servers, the engine, the scale, and the checkout to compare with."""

    databases: Databases
    engine: Engine
    scale: float
    times: int
    show: Callable[[str], None]  # the current activity
    other_checkout: Path | None = None

    def scaled(self, full: int, least: int = 1) -> int:
        return max(least, round(full * self.scale))

    def compare(
        self, run: Callable[["Stage"], T], bare: Callable[["Stage"], T] | None = None, times: int | None = None
    ) -> tuple[list[T], list[T]]:
        """The values of Mayfly and of the yardstick: the other checkout if there is one, else the bare program."""
        repeat = times or self.times
        with ExitStack() as stack:
            ours = stack.enter_context(self.stage(CHECKOUT))
            if self.other_checkout is not None:
                other = stack.enter_context(self.stage(self.other_checkout))
                return alternately(lambda: run(ours), lambda: run(other), repeat)
            if bare is None:
                return [run(ours) for _ in range(repeat)], []
            return alternately(lambda: run(ours), lambda: bare(ours), repeat)

    @contextmanager
    def stage(self, checkout: Path = CHECKOUT) -> Iterator["Stage"]:
        with (
            self.databases.fresh(self.engine.name, lambda _url: None) as url,
            TemporaryDirectory(prefix="mayfly-bench-") as home,
            TemporaryDirectory(prefix="mayfly-bench-", dir=SHARED_MEMORY) as memory,
        ):
            stage = Stage(self, checkout, make_url(url), Path(home), Path(memory))
            stage.run("-m", "mayfly", "migrate")
            yield stage


@dataclass(frozen=True)
class Stage:
    """One checkout with a home and a database."""

    lab: Lab
    checkout: Path
    url: URL
    home: Path
    memory: Path  # for ledgers

    @property
    def engine(self) -> Engine:
        return self.lab.engine

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """For work that is not measured: every statement commits by itself."""
        arguments = {"ssl_disabled": True} if self.engine.driver == "pymysql" else {}
        engine = create_engine(self.url, isolation_level="AUTOCOMMIT", poolclass=NullPool, connect_args=arguments)
        with engine.connect() as connection:
            yield connection

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with self.connect() as connection:
            return [tuple(row) for row in connection.execute(text(sql))]

    def value(self, sql: str) -> float:
        return float(self.rows(sql)[0][0] or 0)

    def server_cpu_seconds(self) -> float:
        """Of the database server since its start; 0 for SQLite, which runs in our own processes."""
        if not self.engine.has_server:
            return 0.0
        server = self.lab.databases.server(self.engine.name)
        assert isinstance(server, PrivateServer)
        return server.cpu_seconds

    def settle(self, table: str = "mayfly_jobs") -> None:
        with self.connect() as connection:
            self.engine.settle(connection, table)

    def refill(self, jobs: int, type_name: str, **changes: str) -> None:
        """Empty the tables and insert this many jobs, all of them due."""
        self.lab.show(f"filling {jobs:,} rows")
        first_at = datetime.now(UTC) - timedelta(hours=1, milliseconds=jobs)
        with self.connect() as connection:
            self.engine.empty(connection)
        self.insert(jobs, first_at, type_name=type_name, changes=changes)
        self.settle()

    def insert(
        self,
        jobs: int,
        first_at: datetime,
        status: str = "pending",
        type_name: str = "nothing",
        first_id: int = 1,
        changes: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Generated inside the database, due a millisecond apart. Ten million rows take minutes.

        `changes` are SQL expressions of other columns.
        """
        with self.connect() as connection:
            for begin in range(0, jobs, ROWS_PER_INSERT):
                numbers = self.engine.numbers(begin + 1, min(begin + ROWS_PER_INSERT, jobs))
                columns = {**_columns(self.engine.time_of(first_at), status, type_name, first_id), **changes}
                names, values = ", ".join(columns), ", ".join(columns.values())
                connection.execute(text(f"INSERT INTO mayfly_jobs ({names}) SELECT {values} FROM {numbers}"))

    def new_ledger(self, jobs: int) -> tuple[Path, Mapping[str, str]]:
        """A directory for the ledgers of one run, and the environment that names it."""
        directory = Path(mkdtemp(dir=self.memory))
        return directory, {ledger.DIRECTORY: str(directory), ledger.SLOTS: str(2 * jobs + 1000)}

    def dispatch(self, settings: Mapping[str, str] | None = None, watch: Watch | None = None) -> Spent:
        """One cycle, from the start of `python -m dispatcher` to its exit."""
        try:
            return self.run("-m", "dispatcher", settings=settings, watch=watch)
        except Failed as error:
            raise Failed(f"{error} {self._logged_errors()}".strip()) from None

    def dispatch_hosts(self, hosts: int, settings: Mapping[str, str]) -> list[Spent]:
        """One cycle on each of several hosts, all started at once."""

        def one(number: int) -> Spent:
            return self.dispatch(
                {**settings, "HOST_NAME": f"host-{number}", "STATE_DIR": str(self.home / f"state-{number}")}
            )

        with ThreadPoolExecutor(hosts) as threads:
            return list(threads.map(one, range(hosts)))

    def run(self, *arguments: str, settings: Mapping[str, str] | None = None, watch: Watch | None = None) -> Spent:
        """Run `python …` to its end."""
        with TemporaryFile() as output:
            started = monotonic()
            process = subprocess.Popen(  # noqa: S603 - our own programs
                [sys.executable, *arguments],
                env=self._environment(settings or {}), cwd="/", stdout=output, stderr=output,
            )  # fmt: skip
            try:
                _wait(process.pid, watch)
            except BaseException:  # Ctrl-C: leave no process behind
                process.terminate()
                process.wait()
                raise
            seconds = monotonic() - started
            _pid, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            output.seek(0)
            printed = output.read().decode(errors="replace")
        if process.returncode != 0:
            raise Failed(f"{' '.join(arguments[:2])} exited with {process.returncode}: {printed[-2000:].strip()}")
        return Spent(seconds, usage.ru_utime + usage.ru_stime, printed)

    def _logged_errors(self) -> str:
        log = self.home / "logs" / "dispatcher.log"
        lines = log.read_text().splitlines() if log.exists() else []
        return " ".join([line for line in lines if " ERROR: " in line][:3])

    def _environment(self, changes: Mapping[str, str]) -> dict[str, str]:
        """Mayfly's defaults except MAX_LOAD: other load on the machine must not cut a plan."""
        inherited = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG")}
        ours = {
            "MAYFLY_HOME": str(self.home),
            "DATABASE_URL": self.url.render_as_string(hide_password=False),
            "STATE_DIR": str(self.home / "state"),
            "PYTHONPATH": str(self.checkout),
            "HANDLERS": "scripts.benchmark.jobs",
            "MAX_LOAD": "0",
            "BARE_DRIVER": self.engine.driver,
            "BARE_ADDRESS": json.dumps(self.engine.connect_arguments(self.url)),
        }
        return {**inherited, **ours, **changes}


@contextmanager
def checkout_of(revision: str) -> Iterator[Path]:
    """Another revision in a separate directory, with the benchmarks of this one."""
    with TemporaryDirectory(prefix="mayfly-bench-") as directory:
        path = Path(directory) / "checkout"
        _git("worktree", "add", "--quiet", "--detach", str(path), revision)
        try:
            shutil.rmtree(path / "scripts" / "benchmark")
            shutil.copytree(CHECKOUT / "scripts" / "benchmark", path / "scripts" / "benchmark")
            yield path
        finally:
            _git("worktree", "remove", "--force", str(path))


def _git(*arguments: str) -> None:
    done = subprocess.run(["git", *arguments], cwd=CHECKOUT, capture_output=True, text=True, check=False)  # noqa: S603, S607
    if done.returncode != 0:
        raise Failed(f"git {' '.join(arguments)}: {done.stderr.strip()}")


def proportional_memory_bytes(pid: int) -> int:
    """PSS of a process and its descendants: a shared page counts once."""
    with suppress(psutil.NoSuchProcess):
        family = [pid, *(each.pid for each in psutil.Process(pid).children(recursive=True))]
        return sum(map(_pss_bytes, family))
    return 0


def processes_of(home: Path) -> int:
    """How many processes run with this MAYFLY_HOME."""
    wanted, found = f"MAYFLY_HOME={home}".encode(), 0
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            found += wanted in path.read_bytes().split(b"\0")
    return found


def _pss_bytes(pid: int) -> int:
    with suppress(OSError):  # it may have exited
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def _columns(time: str, status: str, type_name: str, first_id: int) -> dict[str, str]:
    columns = {
        "id": f"{first_id - 1} + n",
        "type": f"'{type_name}'",
        "lane": "'default'",
        "payload": "'{}'",
        "status": f"'{status}'",
        "run_at": time,
        "created_at": time,
    }
    if status != "pending":  # as wide as the row of a job that has run
        columns |= {"attempts": "1", "claims": "1", "duration_ms": "1", "worker_id": "'worker-1700000000000-1'"}
        columns |= dict.fromkeys(("locked_at", "started_at", "finished_at"), time)
    return columns


def _wait(pid: int, watch: Watch | None) -> None:
    pidfd = os.pidfd_open(pid)
    try:
        ending = select.poll()
        ending.register(pidfd, select.POLLIN)
        while not ending.poll(WATCH_SECONDS * 1000 if watch else None):
            if watch:
                watch(pid)
    finally:
        os.close(pidfd)
