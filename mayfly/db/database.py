"""One database: transactions that are repeated after deadlocks and lost connections, and its clock."""

import re
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from datetime import timedelta
from math import inf
from threading import local
from types import FrameType
from typing import TYPE_CHECKING, TypeVar

from mayfly import errors
from mayfly.clock import MAX_SILENT_SKEW, Clock, clock_from, host_now, monotonic, pause_between
from mayfly.db.connection import Connection, ConnectionPool
from mayfly.db.dialects import Dialect, ErrorKind, Unit, dialect_of_url, reason_of, utc_from_driver
from mayfly.db.hosts import DatabaseHosts
from mayfly.settings.values import mask_password

if TYPE_CHECKING:
    from sqlalchemy import Connection as SqlConnection

T = TypeVar("T")

MAX_TRIES = 6  # deadlocks are rare: six in a row have another cause
FIRST_PAUSE_SECONDS = 0.02
ALARM_SECONDS = 0.25  # between two alarms after a deadline
REPEATED = (ErrorKind.REPEAT, ErrorKind.TAKEN)
UNUSABLE = (ErrorKind.AWAY, ErrorKind.DETACHED)  # after such an error the connection is closed
NOTHING_WRITTEN = (ErrorKind.DETACHED, ErrorKind.STANDBY)  # the statement was refused before it ran


class Database:
    """One database with at most `connections` sessions. Thread-safe. Must be closed before a fork."""

    def __init__(self, url: str, connections: int = 1, verify: Callable[[Connection], None] | None = None) -> None:
        """`verify` is called with the first connection, before any work: it may refuse the database."""
        self.url = url
        self.name = mask_password(url)  # for logs and errors
        self.dialect = dialect_of_url(url)
        self.repeats = 0  # transactions that had to be run again; shown in the cycle's summary
        self.hosts = DatabaseHosts(url, self.dialect)
        self._pool = ConnectionPool(lambda: Connection(self.hosts.connect(), self.dialect), connections)
        self._verify = verify
        self._clock: Clock | None = None
        self._measured_at = 0.0  # monotonic
        self._ambient = local()
        self.deadline = inf  # monotonic: no statement begins after it, see set_deadline
        self.is_working = False

    @property
    def clock(self) -> Clock:
        """Measured once, on the first connection; a forked runner inherits the clock of its dispatcher."""
        if self._clock is None:
            self.connect()
        assert self._clock is not None
        return self._clock

    def set_clock(self, clock: Clock) -> None:
        self._clock = clock

    def refresh_clock(self, max_age_seconds: float = 0.0) -> timedelta:
        """Measure the clock again unless it was measured recently; returns by how much the database's was set."""
        if monotonic() - self._measured_at < max_age_seconds:
            return timedelta(0)
        before = self.clock
        self.read(self._measure)
        step = self.clock.now() - before.now()
        return step if abs(step) > MAX_SILENT_SKEW else timedelta(0)

    def set_deadline(self, at: float) -> None:
        """Bound the statements of this process by its clock: a server that hangs sends nothing, not even an error.

        Only for a process whose single alarm nothing else uses: a dispatcher or a lease keeper. The alarm interrupts
        a running statement and nothing else; later statements are refused. It is repeated, because a driver may catch
        the first exception and wait for the server once more, as psycopg's executemany() does.
        """
        if at != self.deadline:
            self.deadline = at
            signal.signal(signal.SIGALRM, self._on_alarm)
            first = 0.0 if at == inf else max(0.001, at - monotonic())
            signal.setitimer(signal.ITIMER_REAL, first, ALARM_SECONDS)

    @contextmanager
    def bounded(self, seconds: float) -> Iterator[None]:
        """An earlier deadline for the statements of this block; see set_deadline."""
        before = self.deadline
        self.set_deadline(min(before, monotonic() + seconds))
        try:
            yield
        finally:
            self.set_deadline(before)

    def _on_alarm(self, _number: int, _frame: FrameType | None) -> None:
        if self.is_working and monotonic() >= self.deadline:
            raise errors.DatabaseTooSlow(self.name)

    def connect(self) -> None:
        """Open a connection in advance, so that no lock is held while it is opened."""
        self.read(lambda _connection: None)

    def run(self, work: Callable[[Connection], T], *, repeatable: bool = True) -> T:
        """Run `work` in a transaction and commit it; the whole transaction is repeated after a deadlock or the like.

        If the reply to a COMMIT was lost it may have happened, so `work` must be idempotent. If it is not, pass
        `repeatable=False`: then errors.CommitUnknown is raised instead.
        """
        return self._join_or_repeat(work, Unit.TRANSACTION, repeatable)

    def once(self, work: Callable[[Connection], T], *, repeatable: bool = True, max_tries: int = MAX_TRIES) -> T:
        """The same for a single statement: one round trip to a server instead of three.

        A lost connection is repeated once, even if `max_tries` is 1.
        """
        return self._join_or_repeat(work, Unit.STATEMENT, repeatable, max_tries)

    def read(self, work: Callable[[Connection], T]) -> T:
        """The same for queries only: takes no write lock, which on SQLite would lock the whole file."""
        return self._join_or_repeat(work, Unit.READ)

    def run_sqlalchemy(self, work: "Callable[[SqlConnection], T]", unit: Unit = Unit.TRANSACTION) -> T:
        """`run`, or with Unit.READ `read`, for handlers: `work` is called with a SQLAlchemy connection."""
        joined: tuple[Connection, SqlConnection] | None = getattr(self._ambient, "joined", None)

        def work_on_sqlalchemy(connection: Connection) -> T:
            if joined is not None:
                return work(joined[1])
            with self._begin_on(connection, unit) as sql:
                return work(sql)

        return self._join_or_repeat(work_on_sqlalchemy, Unit.SQLALCHEMY)

    @contextmanager
    def transaction(self) -> "Iterator[SqlConnection]":
        """A SQLAlchemy transaction; `run`, `once` and `read` on the same thread join it."""
        connection, begun, sql = self._begin_sqlalchemy()
        try:
            with begun:
                self._ambient.joined = connection, sql
                try:
                    yield sql
                finally:
                    self._ambient.joined = None
        except BaseException as error:
            original = _driver_error(error)
            self._end(connection, original)
            is_ours = isinstance(original, self.dialect.errors)
            explained = explain(original, self.dialect, self.name) if is_ours else None
            if explained is None:
                raise
            raise explained from error
        else:
            self._pool.put_back(connection)

    def _begin_sqlalchemy(self) -> "tuple[Connection, ExitStack, SqlConnection]":
        """If the connection turns out to be closed, BEGIN is repeated once on a new one: nothing was written yet."""
        for is_last in (False, True):
            begun, connection = ExitStack(), None
            try:
                connection = self._pool.take()
                self._open_once(connection)
                return connection, begun, begun.enter_context(self._begin_on(connection))
            except BaseException as error:
                original = _driver_error(error)
                was_cut = connection is not None and self._end(connection, original)
                if not isinstance(original, self.dialect.errors):
                    raise
                if is_last or not was_cut:
                    raise self._explain(original) from error
        raise AssertionError("unreachable")

    def _begin_on(
        self, connection: Connection, unit: Unit = Unit.TRANSACTION
    ) -> "AbstractContextManager[SqlConnection]":
        from mayfly.db.sqlalchemy import begin_transaction  # slow to import, and most handlers need no database

        return begin_transaction(connection, self.url, unit)

    def close(self) -> None:
        """Close all connections: before a fork, and between cycles."""
        self._pool.close()

    def _join_or_repeat(
        self, work: Callable[[Connection], T], unit: Unit, repeatable: bool = True, max_tries: int = MAX_TRIES
    ) -> T:
        joined: tuple[Connection, SqlConnection] | None = getattr(self._ambient, "joined", None)
        if joined is None:
            return self._repeat_until_deadline(work, unit, repeatable, max_tries)
        connection, sql = joined
        if not sql.in_transaction():
            raise errors.TransactionClosed  # further writes would not be committed
        try:
            return work(connection)
        except Exception as error:
            original = _driver_error(error)
            if isinstance(original, self.dialect.errors):
                raise self._explain(original) from error
            raise

    def _repeat_until_deadline(
        self, work: Callable[[Connection], T], unit: Unit, repeatable: bool, max_tries: int
    ) -> T:
        if monotonic() >= self.deadline:
            raise errors.DatabaseTooSlow(self.name)
        self.is_working = True
        try:
            return self._repeat(work, unit, repeatable, max_tries)
        except errors.DatabaseTooSlow:
            self._pool.reset()  # interrupted anywhere: a slot may be lost, a reply may be half read
            raise
        finally:
            self.is_working = False

    def _repeat(self, work: Callable[[Connection], T], unit: Unit, repeatable: bool, max_tries: int) -> T:
        tries = 0
        while True:
            tries += 1
            connection, is_committing = None, False
            try:
                connection = self._pool.take()
                self._open_once(connection)
                has_begun = self.dialect.begin(connection.raw, unit)
                is_committing = not has_begun  # the server commits a single statement by itself
                found = work(connection)
                is_committing = True
                if has_begun:
                    self.dialect.commit(connection.raw)
            except BaseException as error:
                original = _driver_error(error)
                was_cut = connection is not None and self._end(connection, original)
                if not isinstance(original, self.dialect.errors):
                    raise
                if monotonic() >= self.deadline:  # the driver has replaced the exception of the alarm by its own
                    raise errors.DatabaseTooSlow(self.name) from error
                kind = self.dialect.error_kind(original)
                may_have_happened = is_committing and was_cut and kind not in NOTHING_WRITTEN
                if may_have_happened and not repeatable:
                    raise errors.CommitUnknown(self.name, reason_of(original)) from error
                # After deadlocks and the like; and once, on a new connection, if the old one was closed.
                if not (kind in REPEATED and tries < max_tries) and not (was_cut and tries == 1):
                    raise self._explain(original) from error
                self.repeats += 1
                pause_between(0, FIRST_PAUSE_SECONDS * 2**tries)
            else:
                self._pool.put_back(connection)
                return found

    def _end(self, connection: Connection, error: BaseException) -> bool:
        """Roll back; returns True if the connection was no longer usable."""
        if self._is_usable_after(connection, error):
            with suppress(self.dialect.errors):
                self.dialect.roll_back(connection.raw)
                self._pool.put_back(connection)
                return False
        self._pool.discard(connection)
        self._pool.forget_idle()  # a server that restarted, or has an idle timeout, has closed them all
        return True

    def _is_usable_after(self, connection: Connection, error: BaseException) -> bool:
        if not isinstance(error, Exception) or isinstance(error, errors.DatabaseTooSlow):
            # An interruption: a reply may be half read, and a ROLLBACK would read its rest instead of its own reply.
            return False
        kind = self.dialect.error_kind(error) if isinstance(error, self.dialect.errors) else ErrorKind.OTHER
        # The primary may have become a standby: another host accepts writes now.
        has_moved = kind is ErrorKind.STANDBY and self.hosts.are_several
        return kind not in UNUSABLE and not has_moved and not self.dialect.is_cut(connection.raw)

    def _open_once(self, connection: Connection) -> None:
        if self._clock is None:
            if self._verify is not None:
                self._verify(connection)
            self._measure(connection)

    def _measure(self, connection: Connection) -> None:
        asked_at = host_now()
        database_now = utc_from_driver(connection.execute(f"SELECT {self.dialect.utc_now}").scalar())
        self._clock = clock_from(database_now, asked_at, host_now())
        self._measured_at = monotonic()

    def _explain(self, error: BaseException) -> errors.DatabaseError:
        known = explain(error, self.dialect, self.name)
        return known or errors.DatabaseFailed(self.name, reason_of(error))


def _driver_error(error: BaseException) -> BaseException:
    """SQLAlchemy wraps the driver's errors."""
    return getattr(error, "orig", None) or error


# --- errors of drivers as errors of Mayfly ----------------------------------------------------------------

_EXPLAINED = {
    ErrorKind.REPEAT: errors.DatabaseBusy,
    ErrorKind.AWAY: errors.DatabaseAway,
    ErrorKind.DETACHED: errors.DatabaseAway,
    ErrorKind.CROWDED: errors.DatabaseCrowded,
    ErrorKind.REFUSED: errors.DatabaseRefused,
    ErrorKind.UNOPENABLE: errors.DatabaseUnopenable,
    ErrorKind.FULL: errors.DatabaseFull,
    ErrorKind.STANDBY: errors.DatabaseReadOnly,
}
FIRST_TABLES = ("mayfly_jobs", "mayfly_version")  # read first: if one of them is missing, all tables are

# The messages of PostgreSQL, MySQL and SQLite; the name of the database or schema may precede the table's.
_NO_TABLE = re.compile(r"""(?:relation "|Table '|no such table: )(?:[^."']*\.)?(?P<name>[^."']+)""")


def explain(error: BaseException, dialect: Dialect, where: str) -> errors.DatabaseError | None:
    """None for an unknown error."""
    kind = dialect.error_kind(error)
    if kind is ErrorKind.NO_TABLE:
        return _missing(reason_of(error))
    return _EXPLAINED[kind](where, reason_of(error)) if kind in _EXPLAINED else None


def _missing(reason: str) -> errors.DatabaseError:
    found = _NO_TABLE.search(reason)
    if found is None or found["name"] in FIRST_TABLES:
        return errors.SchemaMissing()
    return errors.TableMissing(found["name"])
