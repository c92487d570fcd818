"""PostgreSQL, through psycopg."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from mayfly.db import dialects
from mayfly.db.dialects import DatabaseServer, Dialect, ErrorKind, Row, TableColumn, TableColumns, Values
from mayfly.errors import BadDatabaseOption, DriverMissing, SessionOptionsRefused

try:
    import psycopg
    from psycopg.types.json import set_json_loads
except ModuleNotFoundError as error:
    raise DriverMissing("postgresql", error.name or "") from error

_ERROR_KINDS = {
    **dict.fromkeys(("40001", "40P01", "55P03"), ErrorKind.REPEAT),
    "23505": ErrorKind.TAKEN,
    **dict.fromkeys(("57P01", "57P02", "57P03", "57P05", "25P03"), ErrorKind.AWAY),
    "53300": ErrorKind.CROWDED,
    **dict.fromkeys(("28000", "28P01", "3D000", "42501"), ErrorKind.REFUSED),
    "53100": ErrorKind.FULL,
    "25006": ErrorKind.STANDBY,
    "42P01": ErrorKind.NO_TABLE,
}

_OPTIONS = {"application_name", "options", "sslcert", "sslkey", "sslmode", "sslrootcert"}
# The last of each line is PgBouncer's.
_CROWDED = (
    "too many clients",
    "too many connections",
    "connection slots are reserved",
    "no more connections allowed",
)
_REFUSED = ("authentication failed", "does not exist", "no pg_hba.conf", "no such database", "no such user")
_STANDBY = ("session is read-only", "server is in hot standby mode")
_OPTIONS_REFUSED = "unsupported startup parameter"

APPLICATION_NAME = "mayfly"  # in pg_stat_activity, unless the URL has another one
# The settings of our sessions that a role can have instead: PgBouncer does not pass them on.
SESSION_SETTINGS = {
    "timezone": "UTC",
    "statement_timeout": f"{dialects.STATEMENT_SECONDS}s",
    "lock_timeout": f"{dialects.LOCK_SECONDS}s",
    "idle_in_transaction_session_timeout": f"{dialects.IDLE_SECONDS}s",
    "jit": "off",  # compiling takes longer than any of our statements
}
# The session of an unreachable host, and its locks, end within seconds.
_TCP_SETTINGS = {
    "tcp_user_timeout": dialects.STATEMENT_SECONDS * 1000,
    "tcp_keepalives_idle": dialects.CONNECT_SECONDS,
    "tcp_keepalives_interval": 1,
    "tcp_keepalives_count": 3,
}
_UNSET = ("0", "on")  # a timeout that is off, and jit
_SHOWN_SETTINGS = ", ".join(f"current_setting('{name}')" for name in SESSION_SETTINGS)

COLUMNS = (
    "SELECT attname, CASE WHEN atttypid IN ('varchar'::regtype, 'bpchar'::regtype) THEN atttypmod ELSE -1 END,"
    " atttypid IN ('int2'::regtype, 'int4'::regtype, 'int8'::regtype)"
    " FROM pg_attribute WHERE attrelid = to_regclass(:name) AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
)

_INSERT = re.compile(r"(?P<head>INSERT .*? VALUES )(?P<row>\((?:%\(\w+\)s(?:, )?)+\))(?P<rest>.*)", re.DOTALL)

Raw = psycopg.Connection[Any]


class PostgreSQL(Dialect):
    name = "postgresql"
    utc_now = "clock_timestamp()"  # now() would be the start of the transaction
    # With the oid of the table: two schemas of one database may have their own.
    location = (
        "SELECT CONCAT_WS(' ', CAST(EXTRACT(EPOCH FROM pg_postmaster_start_time()) AS bigint), current_database(),"
        " CAST(to_regclass('mayfly_jobs') AS oid))"
    )
    errors = psycopg.Error
    for_each_row = " OFFSET 0"  # Differs because it prefers a join by a hash of the whole index, even for a few rows.
    # Without statistics it takes each condition for a fixed share of the table, and sorts all due rows. With two
    # bounds per column it expects one row, and reads along the index, as in a claim of jobs.
    needs_both_bounds = True  # Differs because only its planner does this.
    has_lastrowid = False  # Differs because lastrowid is an oid, not an id.
    # Differs because the isolation level is set per transaction, not per session.
    begin_statement = "BEGIN ISOLATION LEVEL READ COMMITTED"

    def connect(self, url: str, *, for_writes: bool = False) -> Raw:
        given = arguments(url)
        if for_writes:
            given.setdefault("target_session_attrs", "read-write")
        name = given.pop("application_name", APPLICATION_NAME)
        ours = {
            "connect_timeout": dialects.CONNECT_SECONDS,
            "tcp_user_timeout": dialects.STATEMENT_SECONDS * 1000,
            "keepalives_idle": dialects.CONNECT_SECONDS,
            "keepalives_interval": 1,
            "options": session_options(name, given.get("options", "")),
        }
        raw = _connected({**given, **ours})
        if raw.info.parameter_status("application_name") != name:
            # Our options did not reach the server: a pooler such as PgBouncer gives each transaction another session,
            # in which our prepared statements do not exist, or are those of another client.
            raw.prepare_threshold = None
        # Differs because psycopg parses JSON by itself, and we need the text.
        set_json_loads(lambda json: json if isinstance(json, str) else bytes(json).decode(), raw)
        return raw

    def missing_session_settings(self, connection: Any) -> list[str]:
        # Differs because a pooler does not pass on the options of a session; a server itself always applies them.
        shown = connection.execute(f"SELECT {_SHOWN_SETTINGS}").first()
        values = dict(zip(SESSION_SETTINGS, shown, strict=True))
        missing = [name for name, value in values.items() if value in _UNSET]
        if not values["timezone"].endswith("UTC"):  # Etc/UTC is the same
            missing.insert(0, "timezone")
        role = "SELECT quote_ident(current_user), quote_ident(current_database())"
        user, database = connection.execute(role).first()
        return [
            f"ALTER ROLE {user} IN DATABASE {database} SET {name} = '{SESSION_SETTINGS[name]}';" for name in missing
        ]

    def server(self, raw: Raw) -> DatabaseServer:
        return server_of(raw.info.server_version)

    def is_cut(self, raw: Raw) -> bool:
        return raw.closed

    def error_kind(self, error: BaseException) -> ErrorKind:
        state = getattr(error, "sqlstate", None)
        if state is not None:
            return _ERROR_KINDS.get(state, ErrorKind.AWAY if state.startswith("08") else ErrorKind.OTHER)
        # Differs because a failed connect has no SQLSTATE.
        message = str(error)
        if any(each in message for each in _CROWDED):
            return ErrorKind.CROWDED
        if any(each in message for each in _STANDBY):
            return ErrorKind.STANDBY
        if any(each in message for each in _REFUSED):
            return ErrorKind.REFUSED
        return ErrorKind.AWAY if isinstance(error, psycopg.OperationalError) else ErrorKind.OTHER

    def execute_many(self, cursor: Any, statement: str, rows: Sequence[Values]) -> None:
        # Differs because psycopg sends, and the server executes, one statement per row.
        insert = _INSERT.fullmatch(self.rendered(statement))
        if insert is None or len(rows) == 1:
            super().execute_many(cursor, statement, rows)
            return
        names = re.findall(r"%\((\w+)\)s", insert["row"])
        mark = f"({', '.join(['%s'] * len(names))})"
        for start in range(0, len(rows), dialects.ROWS_PER_STATEMENT):
            part = rows[start : start + dialects.ROWS_PER_STATEMENT]
            values = [self.bound(row[name]) for row in part for name in names]
            cursor.execute(f"{insert['head']}{', '.join([mark] * len(part))}{insert['rest']}", values)

    def first_of_each(self, _connection: Any, table: str, _index: str, columns: Sequence[str]) -> str:
        # Differs because a recursive query does it: after each combination it finds the next one in the index.
        *combined, _least = columns
        listed, ordered = ", ".join(columns), f"FROM {table}{{}} ORDER BY {', '.join(columns)} LIMIT 1"
        after = f" WHERE ({', '.join(combined)}) > ({', '.join(f'found.{each}' for each in combined)})"
        return (
            f"WITH RECURSIVE found AS ((SELECT {listed} {ordered.format('')}) UNION ALL"
            f" SELECT following.* FROM found, LATERAL (SELECT {listed} {ordered.format(after)}) AS following)"
            f" SELECT {listed} FROM found"
        )

    def row_key(self, prefix: str, column: str) -> str:
        # Differs because a cast removes trailing spaces of CHAR, which the driver returns.
        return f"CONCAT('{prefix}', {column})"

    def json_object(self, columns: Mapping[str, str]) -> str:
        # Differs because json_build_object takes at most 50 pairs; any type is converted.
        fields = ", ".join(f'{column} AS "{name}"' for name, column in columns.items())
        return f"(SELECT row_to_json(fields) FROM (SELECT {fields}) AS fields)"

    def columns(self, connection: Any, table: str) -> TableColumns:
        # Differs because each database describes its tables in its own way. The length of a varchar has an offset.
        found = connection.execute(COLUMNS, {"name": self.quoted(table)}).all()
        return {
            column: TableColumn(modifier - 4 if modifier > 0 else None, is_integer=is_integer)
            for column, modifier, is_integer in found
        }

    def insert_many(
        self, connection: Any, table: str, columns: Sequence[str], rows: Sequence[Row], keeping: tuple[str, str]
    ) -> int:
        # Differs because a parameter may be a list: one per column, for any number of rows.
        lists = ", ".join(f":{name} ::{_array_type(value)}" for name, value in zip(columns, rows[0], strict=True))
        values = ", ".join("payload::json" if name == "payload" else name for name in columns)
        names = ", ".join(columns)
        given = f"SELECT {values} FROM unnest({lists}) AS given ({names})"
        by_column = dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True))
        return int(connection.execute(f"INSERT INTO {table} ({names}) {given}{keeping[1]}", by_column).rowcount)


def _connected(given: dict[str, Any]) -> Raw:
    try:
        return psycopg.connect(**given, autocommit=True)
    except (TypeError, ValueError, psycopg.ProgrammingError) as error:
        raise BadDatabaseOption(str(error).strip()) from error
    except psycopg.OperationalError as error:
        if _OPTIONS_REFUSED in str(error):
            raise SessionOptionsRefused from error
        raise


def _array_type(value: object) -> str:
    """The insert converts an integer to the type of its column."""
    return "bigint[]" if isinstance(value, int) else "timestamptz[]" if isinstance(value, datetime) else "text[]"


def arguments(url: str) -> dict[str, Any]:
    return dialects.server_arguments(url, "dbname", _OPTIONS)


def session_options(application_name: str, given: str) -> str:
    """For the startup parameter `options`. Those given in the URL are last: they override ours."""
    escaped = re.sub(r"([\\\s])", r"\\\1", application_name)  # a space ends the value
    ours = {"application_name": escaped, **SESSION_SETTINGS, **_TCP_SETTINGS}
    return " ".join([*(f"-c {name}={value}" for name, value in ours.items()), given]).strip()


def server_of(number: int) -> DatabaseServer:
    """150006 is 15.6."""
    return DatabaseServer("PostgreSQL", divmod(number, 10_000))


DIALECT = PostgreSQL()
