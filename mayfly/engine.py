"""The door to the database: units of work that are committed once, and repeated when the database asks for it."""

import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from enum import Enum, auto
from threading import local
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, select
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import DBAPIError

from mayfly import dialect
from mayfly.clock import Clock, clock_from, host_now, pause
from mayfly.dialect import Trouble
from mayfly.errors import (
    BadDatabaseOption,
    CommitUnknown,
    DatabaseAway,
    DatabaseBusy,
    DatabaseError,
    DatabaseFull,
    DatabaseRefused,
    DatabaseUnopenable,
    DriverMissing,
    Interrupted,
    SchemaMissing,
)
from mayfly.settings.values import mask_password

T = TypeVar("T")

TRIES = 6  # deadlocks are rare and short: whoever loses six times in a row has met something else
FIRST_PAUSE = 0.02


class Stage(Enum):
    """How far a unit of work has come."""

    CONNECTING = auto()
    WORKING = auto()
    COMMITTING = auto()


class Database:
    """One database and at most `connections` sessions on it. Safe to use from threads; only closed across a fork."""

    def __init__(self, url: str, connections: int = 1) -> None:
        parsed = make_url(url)
        self.name = shown(parsed)
        self.engine = make_engine(parsed, **dialect.engine_options(parsed, connections))
        self.repeats = 0  # transactions that had to be run again; shown in the cycle's summary
        self._clock: Clock | None = None
        self._ambient = local()

    @property
    def clock(self) -> Clock:
        """Measured once, on the first connection; a forked runner has its dispatcher's."""
        if self._clock is None:
            self.read(lambda _connection: None)
        assert self._clock is not None
        return self._clock

    def set_clock(self, clock: Clock) -> None:
        self._clock = clock

    def run(self, work: Callable[[Connection], T], *, twice: bool = True) -> T:
        """Run one unit of work in a transaction and commit it; repeat it whole after a deadlock and its kind.

        A COMMIT whose answer was lost may have happened, so what `work` does must bear to be done twice. Where it
        doesn't (`twice=False`), CommitUnknown is raised instead.
        """
        joined: Connection | None = getattr(self._ambient, "connection", None)
        if joined is not None:
            return work(joined)
        return self._repeat(self._begin, work, twice)

    def read(self, work: Callable[[Connection], T]) -> T:
        """Run something that only looks: takes no write lock where that is the whole file (SQLite)."""
        return self._repeat(self._begin_reading, work)

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A transaction of the caller's own; `run` on the same thread joins it instead of waiting for it."""
        try:
            with self._begin() as connection:
                self._ambient.connection = connection
                try:
                    yield connection
                finally:
                    self._ambient.connection = None
        except DBAPIError as error:
            raise self._explain(error) from error

    def close(self) -> None:
        """Nothing stays open: before a fork, and between cycles."""
        self.engine.dispose()

    def _repeat(
        self,
        begin: Callable[[], AbstractContextManager[Connection]],
        work: Callable[[Connection], T],
        twice: bool = True,
    ) -> T:
        tries = 0
        while True:
            tries += 1
            stage = Stage.CONNECTING
            try:
                with begin() as connection:
                    stage = Stage.WORKING
                    found = work(connection)
                    stage = Stage.COMMITTING
            except DBAPIError as error:
                if stage is Stage.COMMITTING and error.connection_invalidated and not twice:
                    raise CommitUnknown(self.name, _first_line(error)) from error
                if tries == TRIES or not self._may_repeat(error, tries, stage):
                    raise self._explain(error) from error
                self.repeats += 1
                pause(random.uniform(0, FIRST_PAUSE * 2**tries))  # noqa: S311 - spreads rivals, guards nothing
            else:
                return found

    @contextmanager
    def _begin_reading(self) -> Iterator[Connection]:
        with self.engine.connect().execution_options(mayfly_reading=True) as connection, connection.begin():
            self._measure_once(connection)
            yield connection

    @contextmanager
    def _begin(self) -> Iterator[Connection]:
        with self.engine.begin() as connection:
            try:
                self._measure_once(connection)
                yield connection
            except Interrupted:
                # Half an answer may still be in the pipe: neither ROLLBACK nor the next statement could trust it.
                connection.invalidate()
                raise

    def _measure_once(self, connection: Connection) -> None:
        if self._clock is None:
            self._clock = _measure_clock(connection)

    def _may_repeat(self, error: DBAPIError, tries: int, stage: Stage) -> bool:
        """Deadlocks and their kind; and once, on a new connection, after the old one was found cut."""
        if dialect.trouble(error, self.engine.dialect) is Trouble.REPEAT:
            return True
        return error.connection_invalidated and tries == 1 and stage is not Stage.CONNECTING

    def _explain(self, error: DBAPIError) -> Exception:
        return explain(error, self.engine, self.name)


def shown(url: URL) -> str:
    """For logs and errors: without the password, wherever in the URL it stands."""
    return mask_password(url.render_as_string(hide_password=True))


def make_engine(url: URL, **options: Any) -> Engine:
    try:
        # An error's text goes to the log and to last_error: it must not quote payloads.
        engine = create_engine(url, hide_parameters=True, **options)
    except ModuleNotFoundError as error:
        raise DriverMissing(url.get_backend_name(), error.name or "") from error
    except ValueError as error:
        raise BadDatabaseOption(str(error)) from error
    dialect.prepare_engine(engine)
    return engine


def explain(error: DBAPIError, engine: Engine, where: str) -> Exception:
    """The sentence for a person; an error that is our own mistake stays what it is."""
    reason = _first_line(error)
    explained: dict[Trouble, DatabaseError] = {
        Trouble.REPEAT: DatabaseBusy(where, TRIES, reason),
        Trouble.AWAY: DatabaseAway(where, reason),
        Trouble.REFUSED: DatabaseRefused(where, reason),
        Trouble.UNOPENABLE: DatabaseUnopenable(where, reason),
        Trouble.FULL: DatabaseFull(where, reason),
        Trouble.NO_TABLE: SchemaMissing(),
    }
    return explained.get(dialect.trouble(error, engine.dialect), error)


def _measure_clock(connection: Connection) -> Clock:
    asked_at = host_now()
    database_now = connection.execute(select(dialect.utc_now())).scalar_one()
    return clock_from(database_now, asked_at, host_now())


def _first_line(error: DBAPIError) -> str:
    return str(error.orig).strip().partition("\n")[0].rstrip(".")
