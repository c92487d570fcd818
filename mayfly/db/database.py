"""The door to the database: units of work that are committed once, and repeated when the database asks for it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from enum import Enum, auto
from math import inf
from threading import local
from typing import TYPE_CHECKING, TypeVar

from mayfly.clock import MAX_SILENT_SKEW, Clock, clock_from, host_now, monotonic, pause_between
from mayfly.db.connection import Connection
from mayfly.db.dialects import ErrorKind, Unit, dialect_of_url, utc_from_driver
from mayfly.db.errors import explain, first_line
from mayfly.db.pool import ConnectionPool
from mayfly.errors import CommitUnknown, DatabaseError, DatabaseFailed, DatabaseTooSlow, TransactionClosed
from mayfly.settings.values import mask_password

if TYPE_CHECKING:
    from sqlalchemy import Connection as Lent

T = TypeVar("T")

MAX_TRIES = 6  # deadlocks are rare and short: whoever loses six times in a row has met something else
FIRST_PAUSE_SECONDS = 0.02
REPEATED = (ErrorKind.REPEAT, ErrorKind.TAKEN)


class Stage(Enum):
    """How far a unit of work has come."""

    CONNECTING = auto()
    WORKING = auto()
    COMMITTING = auto()


class Database:
    """One database and at most `connections` sessions on it. Safe to use from threads; only closed across a fork."""

    def __init__(self, url: str, connections: int = 1) -> None:
        self.url = url
        self.name = mask_password(url)  # for logs and errors
        self.dialect = dialect_of_url(url)
        self.repeats = 0  # transactions that had to be run again; shown in the cycle's summary
        self._pool = ConnectionPool(self._connect, connections)
        self._clock: Clock | None = None
        self._measured_at = 0.0  # monotonic
        self._ambient = local()
        self.deadline = inf  # monotonic: no statement begins after it; see dispatcher.context
        self.is_working = False

    @property
    def clock(self) -> Clock:
        """Measured once, on the first connection, and continued from there; a forked runner has its dispatcher's."""
        if self._clock is None:
            self.connect()
        assert self._clock is not None
        return self._clock

    def set_clock(self, clock: Clock) -> None:
        self._clock = clock

    def refresh_clock(self, max_age_seconds: float = 0.0) -> timedelta:
        """Measure the clock again unless that was done lately; by how much the database's own clock was set since."""
        if monotonic() - self._measured_at < max_age_seconds:
            return timedelta(0)
        before = self.clock
        self.read(self._measure)
        step = self.clock.now() - before.now()
        return step if abs(step) > MAX_SILENT_SKEW else timedelta(0)

    def connect(self) -> None:
        """Have a connection before it is needed: where others wait, nobody should wait for that."""
        self.read(lambda _connection: None)

    def run(self, work: Callable[[Connection], T], *, twice: bool = True) -> T:
        """Run one unit of work in a transaction and commit it; repeat it whole after a deadlock and its kind.

        A COMMIT whose answer was lost may have happened, so what `work` does must bear to be done twice. Where it
        doesn't (`twice=False`), CommitUnknown is raised instead.
        """
        return self._join_or_repeat(work, Unit.TRANSACTION, twice)

    def once(self, work: Callable[[Connection], T], *, twice: bool = True) -> T:
        """The same for work that is a single statement: a server does in one round trip what would take three."""
        return self._join_or_repeat(work, Unit.STATEMENT, twice)

    def read(self, work: Callable[[Connection], T]) -> T:
        """Run something that only looks: takes no write lock where that is the whole file (SQLite)."""
        return self._join_or_repeat(work, Unit.LOOK)

    def run_lent(self, work: "Callable[[Lent], T]", unit: Unit = Unit.TRANSACTION) -> T:
        """`run`, or with Unit.LOOK `read`, for handlers: `work` is called with a SQLAlchemy connection."""
        from mayfly.db.sqlalchemy import driver_errors, lend  # slow to import, and most handlers need no database

        joined: tuple[Connection, Lent] | None = getattr(self._ambient, "joined", None)

        def work_lent(connection: Connection) -> T:
            with driver_errors():
                if joined is not None:
                    return work(joined[1])
                with lend(connection, self.url, unit) as lent:
                    return work(lent)

        return self._join_or_repeat(work_lent, Unit.LENT)

    @contextmanager
    def transaction(self) -> "Iterator[Lent]":
        """A transaction of the caller's own, for SQLAlchemy; `run` on the same thread joins it."""
        from sqlalchemy.exc import DBAPIError  # slow to import, and most handlers ask for no transaction

        connection, begun, lent = self._begin_lent()
        try:
            with begun:
                self._ambient.joined = connection, lent
                try:
                    yield lent
                finally:
                    self._ambient.joined = None
        except (DBAPIError, self.dialect.errors) as error:
            original = _driver_error(error)
            self._end(connection, original)
            raise self._explain_known(original) or error from error
        except BaseException as error:
            self._end(connection, error)
            raise
        else:
            self._pool.give_back(connection)

    def _begin_lent(self) -> "tuple[Connection, ExitStack, Lent]":
        """A BEGIN that finds its connection closed is repeated once, on a new one; nothing was written yet."""
        from sqlalchemy.exc import DBAPIError  # as above

        from mayfly.db.sqlalchemy import lend

        for is_last in (False, True):
            begun, connection = ExitStack(), None
            try:
                connection = self._pool.take()
                self._measure_once(connection)
                return connection, begun, begun.enter_context(lend(connection, self.url))
            except (DBAPIError, self.dialect.errors) as error:
                original = _driver_error(error)
                was_cut = connection is not None and self._end(connection, original)
                if is_last or not was_cut:
                    raise self._explain(original) from error
            except BaseException as error:
                if connection is not None:
                    self._end(connection, error)
                raise
        raise AssertionError("unreachable")

    def close(self) -> None:
        """Nothing stays open: before a fork, and between cycles."""
        self._pool.close()

    def _connect(self) -> Connection:
        return Connection(self.dialect.connect(self.url), self.dialect)

    def _join_or_repeat(self, work: Callable[[Connection], T], unit: Unit, twice: bool = True) -> T:
        joined: tuple[Connection, Lent] | None = getattr(self._ambient, "joined", None)
        if joined is None:
            return self._repeat_until_deadline(work, unit, twice)
        connection, lent = joined
        if not lent.in_transaction():
            raise TransactionClosed  # what would be written now belongs to nothing that anybody commits
        with self._explaining():
            return work(connection)

    def _repeat_until_deadline(self, work: Callable[[Connection], T], unit: Unit, twice: bool) -> T:
        if monotonic() >= self.deadline:
            raise DatabaseTooSlow(self.name)
        self.is_working = True
        try:
            return self._repeat(work, unit, twice)
        except DatabaseTooSlow:
            self._pool.reset()  # interrupted at any instruction: a place may be lost, half an answer be in the pipe
            raise
        finally:
            self.is_working = False

    def _repeat(self, work: Callable[[Connection], T], unit: Unit, twice: bool) -> T:
        tries = 0
        while True:
            tries += 1
            stage, connection = Stage.CONNECTING, None
            try:
                connection = self._pool.take()
                stage = Stage.WORKING
                self._measure_once(connection)
                has_begun = self.dialect.begin(connection.raw, unit)
                stage = Stage.WORKING if has_begun else Stage.COMMITTING
                found = work(connection)
                stage = Stage.COMMITTING
                if has_begun:
                    self.dialect.commit(connection.raw)
            except self.dialect.errors as error:
                was_cut = connection is not None and self._end(connection, error)
                if stage is Stage.COMMITTING and was_cut and not twice:
                    raise CommitUnknown(self.name, first_line(error)) from error
                # Deadlocks and their kind; and once, on a new connection, after the old one was found cut.
                may_repeat = self.dialect.trouble(error) in REPEATED or (was_cut and tries == 1)
                if tries == MAX_TRIES or not may_repeat:
                    raise self._explain(error) from error
                self.repeats += 1
                pause_between(0, FIRST_PAUSE_SECONDS * 2**tries)
            except BaseException as error:
                if connection is not None:
                    self._end(connection, error)
                raise
            else:
                self._pool.give_back(connection)
                return found

    def _end(self, connection: Connection, error: BaseException) -> bool:
        """Roll back what was not committed; whether the connection was of no more use."""
        if self._can_go_on(connection, error):
            with suppress(self.dialect.errors):
                self.dialect.roll_back(connection.raw)
                self._pool.give_back(connection)
                return False
        self._pool.throw_away(connection)
        self._pool.forget_idle()  # a server that was restarted, or was tired of waiting, has cut them all
        return True

    def _can_go_on(self, connection: Connection, error: BaseException) -> bool:
        if not isinstance(error, Exception) or isinstance(error, DatabaseTooSlow):
            # An interruption: half an answer may still be in the pipe. Neither ROLLBACK nor the next statement could
            # trust it.
            return False
        is_away = isinstance(error, self.dialect.errors) and self.dialect.trouble(error) is ErrorKind.AWAY
        return not is_away and not self.dialect.is_cut(connection.raw)

    def _measure_once(self, connection: Connection) -> None:
        if self._clock is None:
            self._measure(connection)

    def _measure(self, connection: Connection) -> None:
        asked_at = host_now()
        database_now = utc_from_driver(connection.execute(f"SELECT {self.dialect.utc_now}").scalar())
        self._clock = clock_from(database_now, asked_at, host_now())
        self._measured_at = monotonic()

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        try:
            yield
        except self.dialect.errors as error:
            raise self._explain(error) from error

    def _explain(self, error: BaseException) -> DatabaseError:
        return self._explain_known(error) or DatabaseFailed(self.name, first_line(error))

    def _explain_known(self, error: BaseException) -> DatabaseError | None:
        return explain(error, self.dialect, self.name, MAX_TRIES)


def _driver_error(error: BaseException) -> BaseException:
    """SQLAlchemy wraps the driver's errors."""
    return getattr(error, "orig", None) or error
