"""A home and a database for one measurement, and the programs that are measured in it."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import text

from mayfly.clock import monotonic
from mayfly.engine import Database
from mayfly.migrations import migrate
from tests.databases import Databases

CHECKOUT = Path(__file__).parent.parent.parent


@dataclass(frozen=True)
class Spent:
    """What one program took."""

    seconds: float
    cpu_seconds: float  # of itself and the children it waited for
    code: int


@dataclass(frozen=True)
class Stage:
    engine: str
    url: str
    home: Path

    def database(self) -> Database:
        return Database(self.url)

    def environment(self, changes: Mapping[str, str]) -> dict[str, str]:
        """Bytecode is used and written: as in production."""
        inherited = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG")}
        ours = {
            "MAYFLY_HOME": str(self.home),
            "DATABASE_URL": self.url,
            "BARE_URL": self.url,
            "STATE_DIR": str(self.home / "state"),
            "PYTHONPATH": str(CHECKOUT),
            "HANDLERS": "handlers,scripts.benchmark.handlers",
            "MAX_LOAD": "0",
        }
        return {**inherited, **ours, **changes}

    def run(self, *arguments: str, **settings: str) -> Spent:
        """`python …` to its end."""
        started = monotonic()
        process = subprocess.Popen(  # noqa: S603 - our own programs
            [sys.executable, *arguments], env=self.environment(settings), cwd="/", stdout=subprocess.DEVNULL
        )
        _pid, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        return Spent(monotonic() - started, usage.ru_utime + usage.ru_stime, process.returncode)

    def dispatch(self, **settings: str) -> Spent:
        spent = self.run("-m", "dispatcher", **settings)
        assert spent.code == 0, (self.home / "logs" / "dispatcher.log").read_text()[-2000:]
        return spent

    def value(self, sql: str) -> float:
        database = self.database()
        found = database.read(lambda connection: connection.execute(text(sql)).scalar_one())
        database.close()
        return float(found)

    def clear(self) -> None:
        database = self.database()
        for table in ("mayfly_jobs", "mayfly_runners", "mayfly_totals"):
            database.run(lambda connection, table=table: connection.execute(text(f"DELETE FROM {table}")))  # type: ignore[misc] # noqa: S608
        database.close()


@contextmanager
def new_stage(databases: Databases, engine: str) -> Iterator[Stage]:
    with databases.fresh(engine, migrate) as url, TemporaryDirectory(prefix="mayfly-bench-") as home:
        yield Stage(engine, url, Path(home))
