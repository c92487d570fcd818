"""SQLite: a file, one writer at a time, no server to lose."""

import sqlite3
from contextlib import suppress
from datetime import datetime
from typing import Any

from mayfly.clock import monotonic, pause_between
from mayfly.db.dialects import base
from mayfly.db.dialects.base import DatabaseServer, Dialect, ErrorKind, Unit, utc_text
from mayfly.db.url import sqlite_arguments
from mayfly.errors import BadDatabaseOption

WRITE_LOCK_PAUSE = (0.001, 0.003)  # seconds between two tries

_TROUBLES = {
    "SQLITE_BUSY": ErrorKind.REPEAT,
    "SQLITE_LOCKED": ErrorKind.REPEAT,
    "SQLITE_CANTOPEN": ErrorKind.UNOPENABLE,
    "SQLITE_NOTADB": ErrorKind.UNOPENABLE,
    "SQLITE_CORRUPT": ErrorKind.UNOPENABLE,
    "SQLITE_FULL": ErrorKind.FULL,
    "SQLITE_READONLY": ErrorKind.FULL,
    "SQLITE_IOERR": ErrorKind.FULL,
}


class SQLite(Dialect):
    name = "sqlite"
    utc_now = "(strftime('%Y-%m-%d %H:%M:%f000', 'now'))"
    errors = sqlite3.Error
    mark = "?"  # Differs because sqlite3 knows no %s.
    # Differs because it has no row locks: BEGIN IMMEDIATE has already made this transaction the only writer.
    row_lock = claim_lock = ""

    def connect(self, url: str) -> "_Connection":
        ours = {"timeout": base.STATEMENT_SECONDS, "check_same_thread": False, "factory": _Connection}
        try:
            raw: _Connection = sqlite3.connect(**{**sqlite_arguments(url), **ours})
        except (TypeError, ValueError) as error:
            raise BadDatabaseOption(str(error)) from error
        raw.isolation_level = None  # we say ourselves when a transaction begins
        raw.execute("PRAGMA synchronous=FULL")
        _write_ahead(raw)
        return raw

    def server(self, _raw: sqlite3.Connection) -> DatabaseServer:
        return DatabaseServer("SQLite", sqlite3.sqlite_version_info)

    def begin(self, raw: "_Connection", unit: Unit = Unit.TRANSACTION) -> bool:
        # Differs because Python's sqlite3 begins DEFERRED, and upgrading such a transaction fails at once with
        # "database is locked" whatever the busy timeout is: writers ask for the lock when they begin.
        if unit is Unit.LENT:
            return False
        if unit is Unit.LOOK:
            raw.let_wait(True)
            raw.execute("BEGIN")
        else:
            self._take_the_write_lock(raw)
        return True

    def _take_the_write_lock(self, raw: "_Connection") -> None:
        """Asked for every other millisecond: SQLite itself sleeps up to a tenth of a second while it lies idle."""
        until = monotonic() + base.STATEMENT_SECONDS
        raw.let_wait(False)
        while True:
            try:
                raw.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if self.trouble(error) is not ErrorKind.REPEAT or monotonic() > until:
                    raise
                pause_between(*WRITE_LOCK_PAUSE)
            else:
                return

    def is_cut(self, _raw: sqlite3.Connection) -> bool:
        return False

    def is_alive(self, _raw: sqlite3.Connection) -> bool:
        # Differs because a file has no session that could end.
        return True

    def trouble(self, error: BaseException) -> ErrorKind:
        # Differs because "no such table" alone has no name of its own here.
        if "no such table" in str(error):
            return ErrorKind.NO_TABLE
        name = getattr(error, "sqlite_errorname", "")
        return next((meaning for prefix, meaning in _TROUBLES.items() if name.startswith(prefix)), ErrorKind.OTHER)

    def rendered(self, statement: str) -> str:
        # Differs because `:name` is its driver's own way.
        return statement

    def moment(self, text: str) -> str:
        # Differs because it compares texts: a time that came by plain SQL may have any number of digits.
        super().moment(text)
        return text

    def bound(self, value: Any) -> Any:
        # Differs because it keeps times as texts: all written alike, and in UTC, so that they can be compared.
        return utc_text(value, "microseconds") if isinstance(value, datetime) else value


class _Connection(sqlite3.Connection):
    """One that knows its own time-out: to set it anew for each commit costs as much as some jobs do."""

    _waits = True

    def let_wait(self, waits: bool) -> None:
        """Whether SQLite itself waits for locks."""
        if waits is not self._waits:
            self.execute(f"PRAGMA busy_timeout={base.STATEMENT_SECONDS * 1000 if waits else 0}")
            self._waits = waits


def _write_ahead(raw: sqlite3.Connection) -> None:
    """WAL: readers wait for nobody. A property of the file, set by the first who can; a copy may have lost it."""
    [pages] = raw.execute("PRAGMA page_count").fetchone()
    if pages == 0:
        return  # not before the tables are in it: a file that has any content counts as complete
    with suppress(sqlite3.OperationalError):  # somebody is at work in it: another time
        raw.execute("PRAGMA journal_mode=WAL")


DIALECT = SQLite()
