"""From DATABASE_URL to the arguments of each driver, as SQLAlchemy and mayfly.dialect make them. Pure.

The URL is one that mayfly.settings has accepted. What only SQLAlchemy would understand of it raises ValueError.
A test compares all of this with what the full path connects with.
"""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote

Arguments = dict[str, Any]

_SERVER = (
    r"[^:]+://(?:(?P<user>[^:/@]*)(?::(?P<password>[^@]*))?@)?"
    r"(?:\[(?P<host6>[^\]/?]+)\]|(?P<host4>[^/:?@\[\]]*))(?::(?P<port>[0-9]+))?"
    r"/(?P<database>[^?/@%]+)(?:\?(?P<query>.*))?"
)
_LOCAL = ("localhost", "127.0.0.1", "::1")

_SQLITE = {"timeout": 10, "check_same_thread": False}
_MYSQL = {
    "connect_timeout": 3,
    "read_timeout": 10,
    "write_timeout": 10,
    "charset": "utf8mb4",
    "init_command": (
        "SET SESSION time_zone='+00:00', wait_timeout=90, sql_mode='STRICT_ALL_TABLES', innodb_lock_wait_timeout=5"
    ),
    "client_flag": 2,  # FOUND_ROWS: an UPDATE counts the rows it found
}
_POSTGRES = {
    "connect_timeout": 3,
    "tcp_user_timeout": 10_000,
    "keepalives_idle": 3,
    "keepalives_interval": 1,
    "options": (
        "-c timezone=UTC -c statement_timeout=10s -c lock_timeout=5s -c idle_in_transaction_session_timeout=90s"
    ),
}
# What may stand behind the ? and is handed on as it is.
_MYSQL_OPTIONS = {"unix_socket"}
_POSTGRES_OPTIONS = {"application_name", "sslcert", "sslkey", "sslmode", "sslrootcert"}


def sqlite_arguments(url: str) -> Arguments:
    path = url.removeprefix("sqlite:///")
    if "?" in path:
        raise ValueError("options")
    return {"database": path, **_SQLITE}


def mysql_arguments(url: str) -> Arguments:
    parts = _parts(url)
    options = _options(parts, _MYSQL_OPTIONS)
    local = {"ssl_disabled": True} if "unix_socket" in options or _host(parts) in _LOCAL else {}
    return {**_address(parts, database="database"), **options, **_MYSQL, **local}


def postgres_arguments(url: str) -> Arguments:
    parts = _parts(url)
    return {**_address(parts, database="dbname"), **_options(parts, _POSTGRES_OPTIONS), **_POSTGRES}


def _parts(url: str) -> Mapping[str, str | None]:
    match = re.fullmatch(_SERVER, url)
    if match is None:
        raise ValueError("form")
    return match.groupdict()


def _address(parts: Mapping[str, str | None], database: str) -> Arguments:
    given = {
        "host": _host(parts),
        "port": int(parts["port"]) if parts["port"] else None,
        "user": unquote(parts["user"] or ""),
        "password": unquote(parts["password"] or ""),
        database: parts["database"],
    }
    return {name: value for name, value in given.items() if value}


def _host(parts: Mapping[str, str | None]) -> str | None:
    return parts["host4"] or parts["host6"]


def _options(parts: Mapping[str, str | None], allowed: set[str]) -> dict[str, str]:
    pairs = parse_qsl(parts["query"] or "", strict_parsing=bool(parts["query"]))
    options = dict(pairs)
    if len(options) < len(pairs) or not options.keys() <= allowed:
        raise ValueError("options")
    return options
