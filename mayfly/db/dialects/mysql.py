"""MySQL and MariaDB, through PyMySQL."""

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from mayfly.db import dialects
from mayfly.db.dialects import DatabaseServer, Dialect, ErrorKind, Found, TableColumn, TableColumns, utc_text
from mayfly.errors import BadDatabaseOption, DriverMissing

try:
    import pymysql
    from pymysql.constants import CLIENT, ER, FIELD_TYPE
    from pymysql.converters import conversions
    from pymysql.cursors import DictCursor
except ModuleNotFoundError as error:
    raise DriverMissing("mysql", error.name or "") from error

if TYPE_CHECKING:
    from pymysql.cursors import Cursor

    Raw = pymysql.Connection[Cursor]

_ERROR_KINDS = {
    **dict.fromkeys((1213, 1205, 1020), ErrorKind.REPEAT),
    1062: ErrorKind.TAKEN,
    **dict.fromkeys((2002, 2003, 2006, 2013, 2014, 2055, 1053, 1180, 1927, 4031, 0), ErrorKind.AWAY),
    1047: ErrorKind.DETACHED,
    **dict.fromkeys((1040, 1203, 1226), ErrorKind.CROWDED),
    **dict.fromkeys((1044, 1045, 1049, 1130, 1142, 1143, 1698, 3118, 4151), ErrorKind.REFUSED),
    **dict.fromkeys((1021, 1114, 3), ErrorKind.FULL),
    **dict.fromkeys((1290, 1836), ErrorKind.STANDBY),
    1146: ErrorKind.NO_TABLE,
}

# PyMySQL parses times with a regular expression, ten times slower than Python's own parser.
_CONVERSIONS = {**conversions, FIELD_TYPE.DATETIME: datetime.fromisoformat}


COLUMNS = (
    "SELECT column_name, character_maximum_length, data_type FROM information_schema.columns"
    " WHERE table_schema = COALESCE(:schema, DATABASE()) AND table_name = :name ORDER BY ordinal_position"
)
WITHOUT_TRANSACTIONS = (
    "SELECT COUNT(*) FROM information_schema.tables JOIN information_schema.engines USING (engine)"
    " WHERE table_schema = COALESCE(:schema, DATABASE()) AND table_name = :name AND transactions = 'NO'"
)
SERVER_ROLE = "SHOW GLOBAL VARIABLES WHERE variable_name IN ('read_only', 'wsrep_on')"
CATCH_UP = ("SET SESSION wsrep_sync_wait = 1", "SELECT 1", "SET SESSION wsrep_sync_wait = DEFAULT")
SESSION = (
    f"time_zone = '+00:00', wait_timeout = {dialects.IDLE_SECONDS}, sql_mode = 'STRICT_ALL_TABLES',"
    f" innodb_lock_wait_timeout = {dialects.LOCK_SECONDS}"
)
_BINARY = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "bit")

_MAX_ENTRIES_READ = 20_000  # of a small index, to find its groups: about 10 ms
_RELEASED, _HELD = 1 << 61, 1 << 62  # flags added to an id: see `finding`


class MySQL(Dialect):
    name = "mysql"
    utc_now = "(UTC_TIMESTAMP(6))"
    location = "SELECT CONCAT_WS(' ', @@hostname, @@port, @@datadir, DATABASE())"
    errors = pymysql.MySQLError
    # Differs because REPEATABLE READ, its default, hides later commits. A shared lock, as taken by INSERT IGNORE.
    newest = " LOCK IN SHARE MODE"
    has_insert_returning = False  # Differs because MySQL has no RETURNING at all, and MariaDB's is not MySQL's.
    has_update_returning = False  # Differs because neither has UPDATE … RETURNING, or an UPDATE that skips locks.

    def connect(self, url: str, *, for_writes: bool = False) -> "Raw":
        ours = {
            "connect_timeout": dialects.CONNECT_SECONDS,
            # Differs because connect_timeout ends before the handshake, which a server that hangs never sends.
            "read_timeout": dialects.CONNECT_SECONDS if for_writes else dialects.STATEMENT_SECONDS,
            "write_timeout": dialects.STATEMENT_SECONDS,
            "charset": "utf8mb4",
            "autocommit": True,
            "conv": _CONVERSIONS,
        }
        try:
            given = arguments(url)
            flags = given.get("client_flag", 0) | CLIENT.FOUND_ROWS  # an UPDATE counts the rows it found
            raw = pymysql.connect(**{**given, **ours, "client_flag": flags})
        except (TypeError, ValueError, OSError, pymysql.ProgrammingError) as error:
            # Differs because the options behind the ? are Python arguments, with the errors of a wrong call.
            raise BadDatabaseOption(str(error).strip()) from error
        try:
            begin_session(raw)
            if for_writes:
                _require_writable(raw)
        except BaseException:
            raw.close()
            raise
        if for_writes:
            raw._read_timeout = dialects.STATEMENT_SECONDS  # type: ignore[attr-defined]
        return raw

    def server(self, raw: "Raw") -> DatabaseServer:
        with raw.cursor() as cursor:
            cursor.execute("SELECT VERSION()")  # the handshake may be that of a proxy
            [version] = cursor.fetchone() or ("",)
        return server_of(str(version))

    def is_cut(self, raw: "Raw") -> bool:
        return not raw.open

    def error_kind(self, error: BaseException) -> ErrorKind:
        code = error.args[0] if error.args else 0
        return _ERROR_KINDS.get(code, ErrorKind.OTHER) if isinstance(code, int) else ErrorKind.OTHER

    def bound(self, value: Any) -> Any:
        # Differs because it stores no zone: we pass UTC without one, as text, because PyMySQL is ten times slower.
        return utc_text(value) if isinstance(value, datetime) else value

    def in_order_of(self, index: str) -> str:
        # Differs because it would use only the equalities, and still begin at the oldest entry.
        return f" FORCE INDEX FOR ORDER BY ({index})"

    def along(self, index: str) -> str:
        # Differs because its estimates include entries of an index that are deleted and not purged yet.
        return f" FORCE INDEX ({index})"

    def first_of_each(self, connection: Any, table: str, index: str, columns: Sequence[str]) -> str | None:
        # Differs because GROUP BY may do it: then MySQL steps from group to group ("Using index for group-by"). But
        # with old statistics, as just after a bulk insert, it plans to read the whole index.
        *combined, least = columns
        grouped = ", ".join(combined)
        statement = f"SELECT {grouped}, MIN({least}) FROM {table} FORCE INDEX ({index}) GROUP BY {grouped}"
        with connection.raw.cursor(DictCursor) as cursor:
            cursor.execute(f"EXPLAIN {statement}")
            plan = cursor.fetchone()
        steps = "index for group-by" in (plan["Extra"] or "")
        return statement if steps or int(plan["rows"] or 0) <= _MAX_ENTRIES_READ else None

    def assignments(self, columns: Collection[str]) -> str:
        # Differs because SIGNAL is a reserved word.
        return ", ".join(f"`{name}` = :{name}" for name in columns)

    def as_text(self, column: str) -> str:
        # Differs because it casts to CHAR only; MariaDB's JSON is text already, MySQL's is not.
        return f"CAST({column} AS CHAR)"

    def quoted(self, name: str) -> str:
        # Differs because double quotes are text, unless the server is configured otherwise.
        return ".".join(f"`{part}`" for part in name.split("."))

    def row_key(self, prefix: str, column: str) -> str:
        # Differs because || is OR, and the column may have another character set and collation than the unique key.
        return f"CONVERT(CONCAT('{prefix}', {column}) USING utf8mb4) COLLATE utf8mb4_bin"

    def json_object(self, columns: Mapping[str, str]) -> str:
        # Differs because it has a function for it.
        fields = (f"'{name}', {column}" for name, column in columns.items())
        return f"JSON_OBJECT({', '.join(fields)})"

    def columns(self, connection: Any, table: str) -> TableColumns:
        # Differs because each database describes its tables in its own way.
        schema, _, name = table.rpartition(".")
        found = connection.execute(COLUMNS, {"schema": schema or None, "name": name}).all()
        return {
            column: TableColumn(
                None if length is None else int(length), kind.lower() in _BINARY, kind.lower().endswith("int")
            )
            for column, length, kind in found
        }

    def rolls_back(self, connection: Any, table: str) -> bool:
        # Differs because the table of an application may have an engine like MyISAM, without transactions.
        schema, _, name = table.rpartition(".")
        return not connection.execute(WITHOUT_TRANSACTIONS, {"schema": schema or None, "name": name}).scalar()

    def keeping(self, _key: str, _condition: str) -> tuple[str, str]:
        # Differs because MySQL has neither ON CONFLICT nor partial indexes. IGNORE also turns other errors into
        # warnings: every value has been validated by then.
        return "IGNORE ", ""

    def given(self, name: str) -> str:
        # Differs because it has a function instead of `excluded`.
        return f"VALUES({name})"

    def held_key(self, _key: str) -> str:
        # Differs because it has no partial indexes: a generated column has the key of the rows that hold it.
        return "live_key"

    def finding(self, id_column: str, key: str, over: str, changes: Mapping[str, str], replaceable: str) -> str:
        # Differs because it has no RETURNING. A second statement would not find the holder inside an application's
        # REPEATABLE READ, and two transactions that read before they write would deadlock.
        replaced = (f"{name} = IF({replaceable}, {value}, {name})" for name, value in changes.items())
        flags = f"CASE WHEN {over} THEN {_RELEASED} WHEN {replaceable} THEN 0 ELSE {_HELD} END"
        released = f"{key} = IF({over}, NULL, {key})"
        noted = f"{id_column} = IF(LAST_INSERT_ID({id_column} + {flags}), {id_column}, {id_column})"
        return f" ON DUPLICATE KEY UPDATE {', '.join([*replaced, released, noted])}"

    def found(self, lastrowid: int) -> Found:
        # Differs because the row count does not show it: whether an unchanged row counts depends on the
        # connection's flags. Ids never reach these bits.
        return Found(lastrowid % _RELEASED, lastrowid & _HELD != 0, lastrowid & _RELEASED != 0)

    def insert_missing(self, table: str, _key: Collection[str], columns: Collection[str]) -> str:
        # Differs because MySQL has no ON CONFLICT, see above.
        return self.insert(table, columns, "IGNORE ")

    def upsert(self, table: str, key: Collection[str], columns: Collection[str]) -> str:
        # Differs because MySQL writes ON DUPLICATE KEY UPDATE where the others write ON CONFLICT.
        changes = ", ".join(f"{name} = VALUES({name})" for name in columns if name not in key)
        return f"{self.insert(table, columns)} ON DUPLICATE KEY UPDATE {changes}"

    def packet_limit(self, connection: Any) -> int | None:
        # Differs because MySQL closes the connection at a larger statement (2006) instead of returning an error.
        return int(connection.execute("SELECT @@max_allowed_packet").scalar())


def begin_session(raw: "Raw") -> None:
    """One statement, also for the isolation level, whose variable has another name in MariaDB before 11.1."""
    names = ["transaction_isolation", "tx_isolation"]
    is_mariadb = "MariaDB" in raw.server_version  # type: ignore[attr-defined]
    first, second = reversed(names) if is_mariadb else names
    with raw.cursor() as cursor:
        try:
            cursor.execute(f"SET SESSION {first} = 'READ-COMMITTED', {SESSION}")
        except pymysql.OperationalError as error:  # the handshake may be that of a proxy
            if error.args[0] != ER.UNKNOWN_SYSTEM_VARIABLE:
                raise
            cursor.execute(f"SET SESSION {second} = 'READ-COMMITTED', {SESSION}")


def _require_writable(raw: "Raw") -> None:
    with raw.cursor() as cursor:
        cursor.execute(SERVER_ROLE)
        role = dict(cursor.fetchall())
        if role["read_only"] != "OFF":
            raise pymysql.OperationalError(1290, "the server is read-only")
        if role.get("wsrep_on") == "ON":
            _require_member(cursor)


def _require_member(cursor: "Cursor") -> None:
    """A node of Galera that belongs to its cluster, and has applied what was committed on the node used before."""
    cursor.execute("SHOW STATUS LIKE 'wsrep_ready'")
    if cursor.fetchone() != ("wsrep_ready", "ON"):
        raise pymysql.OperationalError(1047, "the node is not connected to its cluster")
    for statement in CATCH_UP:
        cursor.execute(statement)


def arguments(url: str) -> dict[str, Any]:
    given = dialects.server_arguments(url, "database", {"unix_socket"})
    # PyMySQL builds a TLS context for every connection, 30 ms of CPU that loopback does not need. Options about TLS
    # are kept.
    has_tls_options = any(name.startswith("ssl") for name in given)
    is_local = "unix_socket" in given or given.get("host") in ("localhost", "127.0.0.1", "::1")
    return given | ({"ssl_disabled": True} if is_local and not has_tls_options else {})


def server_of(version_text: str) -> DatabaseServer:
    """From its version text: 5.5.5-10.11.6-MariaDB-0+deb12u1, 11.4.2-MariaDB, 8.4.3, 8.0.35-0ubuntu0.22.04.1."""
    match = re.match(r"([0-9]+)\.([0-9]+)\.([0-9]+)", version_text.removeprefix("5.5.5-"))  # a prefix for old clients
    version = tuple(map(int, match.groups())) if match else ()
    return DatabaseServer("MariaDB" if "MariaDB" in version_text else "MySQL", version)


DIALECT = MySQL()
