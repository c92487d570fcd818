"""A home and a database for one measurement, and the programs that are measured in it."""

import json
import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from types import MappingProxyType
from typing import Any

from sqlalchemy import URL, Connection, create_engine, make_url, text
from sqlalchemy.pool import NullPool

from mayfly.clock import monotonic
from mayfly.db.database import Database
from mayfly.schema.migrations import migrate
from scripts.benchmark import ledger
from scripts.benchmark.engines import Engine
from scripts.benchmark.verify import Ledgers
from tests.databases import Databases

CHECKOUT = Path(__file__).parent.parent.parent
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - mkdtemp makes what is ours
LOOK_SECONDS = 0.1
COMPLAINTS = 3
USUAL: Mapping[str, str] = MappingProxyType({})
JOBS = "handlers,scripts.benchmark.jobs.nothing"

Watch = Callable[[float, int], None]  # seconds since the start, and the program's pid


class Failed(Exception):
    """A program that is measured ended badly; the message has the end of what it said."""


@dataclass(frozen=True)
class Spent:
    """What one program took, and what it printed."""

    seconds: float
    cpu_seconds: float  # of itself and the children it waited for
    answer: str


@dataclass(frozen=True)
class Stage:
    engine: Engine
    databases: Databases
    url: URL
    home: Path
    memory: Path  # where ledgers lie

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """For what is not measured: every statement commits by itself, and may take its time."""
        arguments = {} if self.engine.driver != "pymysql" else {"ssl_disabled": True}
        engine = create_engine(self.url, isolation_level="AUTOCOMMIT", poolclass=NullPool, connect_args=arguments)
        with engine.connect() as connection:
            yield connection

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with self.connect() as connection:
            return [tuple(row) for row in connection.execute(text(sql))]

    def value(self, sql: str) -> float:
        return float(self.rows(sql)[0][0] or 0)

    def database(self) -> Database:
        return Database(self.url.render_as_string(hide_password=False))

    def rest(self) -> None:
        with self.connect() as connection:
            self.engine.rest(connection)

    def new_ledgers(self, jobs: int) -> tuple[Ledgers, Mapping[str, str]]:
        """An empty ledger, and the environment in which programs write to it."""
        directory = Path(mkdtemp(dir=self.memory))
        return Ledgers(directory), {ledger.DIRECTORY: str(directory), ledger.SLOTS: str(2 * jobs + 1000)}

    def dispatch(self, settings: Mapping[str, str] = USUAL, watch: Watch | None = None) -> Spent:
        """One cycle, from the start of `python -m dispatcher` to its exit."""
        try:
            return self.run("-m", "dispatcher", settings=settings, watch=watch)
        except Failed as error:
            raise Failed(f"{error} {self._complaints()}".strip()) from None

    def _complaints(self) -> str:
        """What the log says of it."""
        log = self.home / "logs" / "dispatcher.log"
        lines = log.read_text().splitlines() if log.exists() else []
        return " ".join([line for line in lines if " ERROR: " in line][:COMPLAINTS])

    def run(self, *arguments: str, settings: Mapping[str, str] = USUAL, watch: Watch | None = None) -> Spent:
        """`python …` to its end."""
        with (self.home / "said").open("w+b") as said:
            started = monotonic()
            process = subprocess.Popen(  # noqa: S603 - our own programs
                [sys.executable, *arguments], env=self._environment(settings), cwd="/", stdout=said, stderr=said
            )
            try:
                _await(process.pid, started, watch)
            except BaseException:  # Ctrl-C: nothing goes on without us
                process.terminate()
                process.wait()
                raise
            seconds = monotonic() - started
            _pid, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            said.seek(0)
            answer = said.read().decode(errors="replace")
        if process.returncode != 0:
            raise Failed(f"{' '.join(arguments[:2])} ended with {process.returncode}: {answer[-2000:].strip()}")
        return Spent(seconds, usage.ru_utime + usage.ru_stime, answer)

    @contextmanager
    def started(self, *arguments: str, settings: Mapping[str, str] = USUAL) -> Iterator[Callable[[], bool]]:
        """`python …` that goes on beside us; whether it still does."""
        with (self.home / "said").open("w+b") as said:
            process = subprocess.Popen(  # noqa: S603 - our own programs
                [sys.executable, *arguments], env=self._environment(settings), cwd="/", stdout=said, stderr=said
            )
            try:
                yield lambda: process.poll() is None
            finally:
                process.terminate()
                process.wait()

    def _environment(self, changes: Mapping[str, str]) -> dict[str, str]:
        """Mayfly's own defaults but for MAX_LOAD: what else the machine does must not cut a plan.

        Bytecode is used and written, as in production.
        """
        inherited = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG")}
        ours = {
            "MAYFLY_HOME": str(self.home),
            "DATABASE_URL": self.url.render_as_string(hide_password=False),
            "STATE_DIR": str(self.home / "state"),
            "PYTHONPATH": str(CHECKOUT),
            "HANDLERS": JOBS,
            "MAX_LOAD": "0",
            "BARE_DRIVER": self.engine.driver,
            "BARE_ADDRESS": json.dumps(self.engine.address(self.url)),
        }
        return {**inherited, **ours, **changes}


def _await(pid: int, started: float, watch: Watch | None) -> None:
    """Until it has ended; looked at ten times a second meanwhile, if somebody wants to."""
    pidfd = os.pidfd_open(pid)
    try:
        ending = select.poll()
        ending.register(pidfd, select.POLLIN)
        while not ending.poll(LOOK_SECONDS * 1000 if watch else None):
            if watch:
                watch(monotonic() - started, pid)
    finally:
        os.close(pidfd)


@contextmanager
def new_stage(databases: Databases, engine: Engine) -> Iterator[Stage]:
    with (
        databases.fresh(engine.name, migrate) as url,
        TemporaryDirectory(prefix="mayfly-bench-") as home,
        TemporaryDirectory(prefix="mayfly-bench-", dir=SHARED_MEMORY) as memory,
    ):
        stage = Stage(engine, databases, make_url(url), Path(home), Path(memory))
        stage.database().clock.now()  # the first one who connects to a new SQLite file switches WAL on
        yield stage
