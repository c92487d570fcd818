"""Connection arguments of each driver from DATABASE_URL, which mayfly.settings has validated."""

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

# Options after the ? that are passed on unchanged. SQLAlchemy parses the others.
_MYSQL_OPTIONS = {"unix_socket"}
_POSTGRES_OPTIONS = {"application_name", "sslcert", "sslkey", "sslmode", "sslrootcert"}


def sqlite_arguments(url: str) -> Arguments:
    path = url.partition(":///")[2]
    return _by_sqlalchemy(url) if "?" in path else {"database": path}


def mysql_arguments(url: str) -> Arguments:
    parts = _parts(url)
    options = _options(parts, _MYSQL_OPTIONS)
    given = _by_sqlalchemy(url) if options is None else {**_address(parts, database="database"), **options}
    # PyMySQL builds a TLS context for every connection, 30 ms of CPU that loopback does not need. Options about TLS
    # are kept.
    has_tls_options = any(name.startswith("ssl") for name in given)
    is_local = "unix_socket" in given or given.get("host") in _LOCAL
    return given | ({"ssl_disabled": True} if is_local and not has_tls_options else {})


def postgres_arguments(url: str) -> Arguments:
    parts = _parts(url)
    options = _options(parts, _POSTGRES_OPTIONS)
    return _by_sqlalchemy(url) if options is None else {**_address(parts, database="dbname"), **options}


def _parts(url: str) -> Mapping[str, str | None]:
    match = re.fullmatch(_SERVER, url)
    return match.groupdict() if match else {"query": "?"}


def _address(parts: Mapping[str, str | None], database: str) -> Arguments:
    given = {
        "host": parts["host4"] or parts["host6"],
        "port": int(parts["port"]) if parts["port"] else None,
        "user": unquote(parts["user"] or ""),
        "password": unquote(parts["password"] or ""),
        database: parts["database"],
    }
    return {name: value for name, value in given.items() if value}


def _options(parts: Mapping[str, str | None], simple: set[str]) -> dict[str, str] | None:
    """None if not all of them are simple."""
    query = parts["query"] or ""
    try:
        pairs = parse_qsl(query, strict_parsing=bool(query))
    except ValueError:
        return None
    options = dict(pairs)
    return options if len(options) == len(pairs) and options.keys() <= simple else None


def _by_sqlalchemy(url: str) -> Arguments:
    """Exact, but slow to import: the arguments of its own engines."""
    from sqlalchemy.engine import make_url

    parsed = make_url(url)
    dialect: Any = parsed.get_dialect()
    positional, options = dialect(dbapi=dialect.import_dbapi()).create_connect_args(parsed)
    for name in ("context", "client_flag"):  # how its own engines read values and count rows
        options.pop(name, None)
    named = {"database": positional[0]} if positional else {}
    return {**named, **{name: value for name, value in options.items() if name != "context"}}  # its own types
