"""PostgreSQL, through psycopg."""

from collections.abc import Sequence
from typing import Any

from mayfly.db.dialects import base
from mayfly.db.dialects.base import DatabaseServer, Dialect, ErrorKind, Row, postgres_server
from mayfly.db.url import postgres_arguments
from mayfly.errors import BadDatabaseOption, DriverMissing

try:
    import psycopg
    from psycopg.types.json import set_json_loads
except ModuleNotFoundError as error:
    raise DriverMissing("postgresql", error.name or "") from error

_TROUBLES = {
    **dict.fromkeys(("40001", "40P01", "55P03"), ErrorKind.REPEAT),
    "23505": ErrorKind.TAKEN,
    **dict.fromkeys(("57P01", "57P02", "57P03", "57P05", "25P03"), ErrorKind.AWAY),
    "53300": ErrorKind.CROWDED,
    **dict.fromkeys(("28000", "28P01", "3D000", "42501"), ErrorKind.REFUSED),
    **dict.fromkeys(("53100", "25006"), ErrorKind.FULL),
    "42P01": ErrorKind.NO_TABLE,
}

_CROWDED = ("too many clients", "too many connections", "connection slots are reserved")
_REFUSED = ("authentication failed", "does not exist", "no pg_hba.conf")

Raw = psycopg.Connection[Any]


class PostgreSQL(Dialect):
    name = "postgresql"
    utc_now = "clock_timestamp()"  # now() would be the start of the transaction
    errors = psycopg.Error
    has_lastrowid = False  # Differs because an oid is not an id.
    # Differs because there it is a matter of each transaction, not of the session.
    begin_words = "BEGIN ISOLATION LEVEL READ COMMITTED"

    def connect(self, url: str) -> Raw:
        session = (
            f"-c timezone=UTC -c statement_timeout={base.STATEMENT_SECONDS}s -c lock_timeout={base.LOCK_SECONDS}s "
            # No JIT: compiling a statement takes longer than any of ours runs.
            f"-c idle_in_transaction_session_timeout={base.IDLE_SECONDS}s -c jit=off "
            # The session of an unreachable host, and its locks, end within seconds.
            f"-c tcp_user_timeout={base.STATEMENT_SECONDS * 1000} -c tcp_keepalives_idle={base.CONNECT_SECONDS} "
            "-c tcp_keepalives_interval=1 -c tcp_keepalives_count=3"
        )
        ours = {
            "connect_timeout": base.CONNECT_SECONDS,
            "tcp_user_timeout": base.STATEMENT_SECONDS * 1000,
            "keepalives_idle": base.CONNECT_SECONDS,
            "keepalives_interval": 1,
            "options": session,
        }
        try:
            raw = psycopg.connect(**{**postgres_arguments(url), **ours}, autocommit=True)
        except (TypeError, ValueError, psycopg.ProgrammingError) as error:
            raise BadDatabaseOption(str(error).strip()) from error
        # Differs because psycopg parses JSON by itself, and we need its text.
        set_json_loads(lambda json: json if isinstance(json, str) else bytes(json).decode(), raw)
        return raw

    def server(self, raw: Raw) -> DatabaseServer:
        return postgres_server(raw.info.server_version)

    def is_cut(self, raw: Raw) -> bool:
        return raw.closed

    def error_kind(self, error: BaseException) -> ErrorKind:
        state = getattr(error, "sqlstate", None)
        if state is not None:
            return _TROUBLES.get(state, ErrorKind.AWAY if state.startswith("08") else ErrorKind.OTHER)
        # Differs because an error has no SQLSTATE when it could not even connect.
        message = str(error)
        if any(each in message for each in _CROWDED):
            return ErrorKind.CROWDED
        if any(each in message for each in _REFUSED):
            return ErrorKind.REFUSED
        return ErrorKind.AWAY if isinstance(error, psycopg.OperationalError) else ErrorKind.OTHER

    def insert_many(
        self, connection: Any, table: str, columns: Sequence[str], rows: Sequence[Row], keeping: tuple[str, str]
    ) -> int:
        # Differs because a parameter may be a list: one per column, whatever the number of rows.
        lists = ", ".join(f":{name} ::{_TYPES.get(name, 'text')}[]" for name in columns)
        values = ", ".join("payload::json" if name == "payload" else name for name in columns)
        names = ", ".join(columns)
        given = f"SELECT {values} FROM unnest({lists}) AS given ({names})"
        by_column = dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True))
        return int(connection.execute(f"INSERT INTO {table} ({names}) {given}{keeping[1]}", by_column).rowcount)


_TYPES = {
    **dict.fromkeys(("priority", "max_attempts"), "int"),
    **dict.fromkeys(("run_at", "expires_at", "unique_until"), "timestamptz"),
    "parent_id": "bigint",
}

DIALECT = PostgreSQL()
