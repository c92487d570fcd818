"""SQLite: a file, one writer at a time, no server."""

import os
import sqlite3
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

from mayfly.clock import monotonic, pause_between
from mayfly.db import dialects
from mayfly.db.dialects import DatabaseServer, Dialect, ErrorKind, TableColumn, TableColumns, Unit, utc_text
from mayfly.errors import BadDatabaseOption

WRITE_LOCK_PAUSE = (0.001, 0.003)  # seconds between two tries

_ERROR_KINDS = {
    "SQLITE_BUSY": ErrorKind.REPEAT,
    "SQLITE_LOCKED": ErrorKind.REPEAT,
    "SQLITE_CANTOPEN": ErrorKind.UNOPENABLE,
    "SQLITE_NOTADB": ErrorKind.UNOPENABLE,
    "SQLITE_CORRUPT": ErrorKind.UNOPENABLE,
    "SQLITE_FULL": ErrorKind.FULL,
    "SQLITE_READONLY": ErrorKind.FULL,
    "SQLITE_IOERR": ErrorKind.FULL,
}

COLUMNS = "SELECT name, type FROM pragma_table_info(:name, :schema) ORDER BY cid"


class SQLite(Dialect):
    name = "sqlite"
    utc_now = "(strftime('%Y-%m-%d %H:%M:%f000', 'now'))"
    location = "SELECT file FROM pragma_database_list WHERE name = 'main'"
    errors = sqlite3.Error
    mark = "?"  # Differs because sqlite3 has no %s.
    # Differs because it has no row locks: BEGIN IMMEDIATE has already made this transaction the only writer.
    row_lock = claim_lock = ""
    has_times = False  # Differs because it stores times as texts.

    def connect(self, url: str, *, for_writes: bool = False) -> "_Connection":  # noqa: ARG002
        ours = {"timeout": dialects.STATEMENT_SECONDS, "check_same_thread": False, "factory": _Connection}
        given = arguments(url)
        _create_private(given["database"])
        try:
            raw: _Connection = sqlite3.connect(**{**given, **ours})
        except (TypeError, ValueError) as error:
            raise BadDatabaseOption(str(error)) from error
        raw.isolation_level = None  # transactions begin explicitly
        raw.execute("PRAGMA synchronous=FULL")
        _write_ahead(raw)
        return raw

    def server(self, _raw: sqlite3.Connection) -> DatabaseServer:
        return DatabaseServer("SQLite", sqlite3.sqlite_version_info)

    def begin(self, raw: "_Connection", unit: Unit = Unit.TRANSACTION) -> bool:
        # Differs because Python's sqlite3 begins DEFERRED, and upgrading such a transaction fails at once with
        # "database is locked", regardless of the busy timeout: writers acquire the lock when they begin.
        if unit is Unit.SQLALCHEMY:
            return False
        if unit is Unit.READ:
            raw.set_busy_timeout(True)
            raw.execute("BEGIN")
        else:
            self._take_write_lock(raw)
        return True

    def _take_write_lock(self, raw: "_Connection") -> None:
        """Polls every other millisecond: SQLite itself would sleep up to a tenth of a second."""
        until = monotonic() + dialects.STATEMENT_SECONDS
        raw.set_busy_timeout(False)
        while True:
            try:
                raw.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if self.error_kind(error) is not ErrorKind.REPEAT or monotonic() > until:
                    raise
                pause_between(*WRITE_LOCK_PAUSE)
            else:
                return

    def is_cut(self, _raw: sqlite3.Connection) -> bool:
        return False

    def is_alive(self, _raw: sqlite3.Connection) -> bool:
        # Differs because a file has no session that could end.
        return True

    def error_kind(self, error: BaseException) -> ErrorKind:
        # Differs because "no such table" has no error name of its own.
        if "no such table" in str(error):
            return ErrorKind.NO_TABLE
        name = getattr(error, "sqlite_errorname", "")
        return next((meaning for prefix, meaning in _ERROR_KINDS.items() if name.startswith(prefix)), ErrorKind.OTHER)

    def rendered(self, statement: str) -> str:
        # Differs because `:name` is its driver's own style.
        return statement

    def verbatim(self, sql: str) -> str:
        # Differs because its own parser finds the parameters, and none in a text.
        return sql

    def json_object(self, columns: Mapping[str, str]) -> str:
        # Differs because it has a function for it, which refuses a BLOB; any column may hold one.
        fields = (
            f"'{name}', CASE typeof({column}) WHEN 'blob' THEN hex({column}) ELSE {column} END"
            for name, column in columns.items()
        )
        return f"json_object({', '.join(fields)})"

    def columns(self, connection: Any, table: str) -> TableColumns:
        # Differs because each database describes its tables in its own way; the length of a type is not enforced.
        schema, _, name = table.rpartition(".")
        values = {"name": name, "schema": schema or "main"}
        found = connection.execute(COLUMNS, values).all()
        return {column: TableColumn(is_integer="INT" in kind.upper()) for column, kind in found}

    def moment(self, text: str) -> str:
        # Differs because it compares texts: a time that was inserted by plain SQL may have any number of digits.
        super().moment(text)
        return text

    def bound(self, value: Any) -> Any:
        # Differs because it stores times as texts: all in one format and in UTC, so that they can be compared.
        return utc_text(value, "microseconds") if isinstance(value, datetime) else value


class _Connection(sqlite3.Connection):
    """Caches its busy timeout: setting it for each commit would take as long as some jobs."""

    _waits = True

    def set_busy_timeout(self, waits: bool) -> None:
        """Whether SQLite itself waits for locks."""
        if waits is not self._waits:
            self.execute(f"PRAGMA busy_timeout={dialects.STATEMENT_SECONDS * 1000 if waits else 0}")
            self._waits = waits


def arguments(url: str) -> dict[str, Any]:
    path = url.partition(":///")[2]
    return dialects.arguments_by_sqlalchemy(url) if "?" in path else {"database": path}


def _create_private(database: str) -> None:
    """Create a missing file, because SQLite would let other users read it. Its other files have the same mode.

    An existing file must not be opened: closing it would end the locks that SQLite has on it in this process.
    """
    if not database.startswith("/"):  # :memory:, or a URI
        return
    with suppress(OSError):  # it exists; or sqlite3 reports why it cannot be created
        os.close(os.open(database, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _write_ahead(raw: sqlite3.Connection) -> None:
    """WAL: readers never wait. Stored in the file, but checked for each connection: a copy may have lost it."""
    [pages] = raw.execute("PRAGMA page_count").fetchone()
    if pages == 0:
        return  # not before the tables exist: a file with any content counts as complete
    with suppress(sqlite3.OperationalError):  # another process uses it: the next connection tries again
        raw.execute("PRAGMA journal_mode=WAL")


DIALECT = SQLite()
