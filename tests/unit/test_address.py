"""DATABASE_URL, read without SQLAlchemy, means what SQLAlchemy would have made of it."""

from typing import Any

import pytest
from pymysql.constants import CLIENT
from sqlalchemy.engine import make_url

from mayfly.dialect import address
from mayfly.dialect.address import mysql_arguments, postgres_arguments, sqlite_arguments

SERVERS = [
    "://user:secret@db.example:7000/jobs",
    "://user:secret@db.example/jobs",
    "://user@db.example/jobs",
    "://user:@db.example/jobs",
    "://db.example/jobs",
    "://user:p%40ss%2Fw%3Ard%25@db.example/jobs",
    "://user:p+s s#?&=/:x@db.example/jobs",
    "://us%40er:%C3%A4@db.example/jobs",
    "://user:secret@[::1]:7000/jobs",
    "://user:secret@[fe80::1%25eth0]/jobs",
    "://user:secret@/jobs",
    "://user:secret@localhost/jobs_2-x.y",
]
MYSQL_OPTIONS = [
    "",
    "?unix_socket=/run/mysqld/mysqld.sock",
    "?unix_socket=%2Frun%2Fa+b%2Fmysqld.sock",
    "?charset=utf8mb4",
    "?ssl_ca=/etc/ca.pem&ssl_cert=/etc/c.pem&ssl_key=/etc/k.pem",
    "?ssl_disabled=true",
    "?read_timeout=3&unix_socket=/s",
]
POSTGRES_OPTIONS = [
    "",
    "?sslmode=verify-full&sslrootcert=/etc/ca.pem",
    "?application_name=a%20b%26c",
    "?host=/var/run/postgresql",
    "?host=one:5433&host=two:5434",
    "?target_session_attrs=read-write&sslmode=require",
    "?sslmode=require&sslmode=disable",
    "?options=-csearch_path%3Dmine",
]


@pytest.mark.parametrize("options", MYSQL_OPTIONS)
@pytest.mark.parametrize("server", SERVERS)
def test_pymysql_is_called_as_sqlalchemy_would(server: str, options: str) -> None:
    """But for a TLS context that nobody on this machine needs, and for a flag that is always set."""
    url = f"mysql+pymysql{server}{options}"

    given = mysql_arguments(url)

    ours = {"ssl_disabled", "client_flag"}
    assert without(given, ours) == without(by_sqlalchemy(url), ours)


@pytest.mark.parametrize("options", POSTGRES_OPTIONS)
@pytest.mark.parametrize("server", SERVERS)
def test_psycopg_is_called_as_sqlalchemy_would(server: str, options: str) -> None:
    """Passwords with anything in them, IPv6, sockets, TLS and several hosts."""
    url = f"postgresql+psycopg{server}{options}"

    assert postgres_arguments(url) == without(by_sqlalchemy(url), {"context"})  # which types it would read


@pytest.mark.parametrize("path", ["/var/lib/mayfly.db", "/a b/ä.db", "/jobs@home:x.db", "/jobs.db?timeout=3"])
def test_sqlite_is_called_as_sqlalchemy_would(path: str) -> None:
    """A path is a path: nothing in it is escaped."""
    url = f"sqlite:///{path}"

    assert without(sqlite_arguments(url), {"check_same_thread"}) == without(by_sqlalchemy(url), {"check_same_thread"})


@pytest.mark.parametrize(
    ("url", "is_off"),
    [
        ("mysql+pymysql://u@localhost/d", True),
        ("mysql+pymysql://u@127.0.0.1:3307/d", True),
        ("mysql+pymysql://u@[::1]/d", True),
        ("mysql+pymysql://u@/d?unix_socket=/run/mysqld.sock", True),
        ("mysql+pymysql://u@db.example/d", False),
        ("mysql+pymysql://u@localhost/d?ssl_ca=/etc/ca.pem", False),
    ],
)
def test_tls_is_left_out_only_where_nothing_leaves_this_machine(url: str, is_off: bool) -> None:
    """A URL that speaks of TLS is taken at its word."""
    assert ("ssl_disabled" in mysql_arguments(url)) is is_off


@pytest.mark.parametrize("server", [*SERVERS[:4], SERVERS[5], SERVERS[8]])
def test_plain_urls_need_no_sqlalchemy(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """To import it takes longer than to claim a batch."""

    def refuse(url: str) -> Any:
        raise AssertionError(url)

    monkeypatch.setattr(address, "_by_sqlalchemy", refuse)

    assert mysql_arguments(f"mysql+pymysql{server}")["database"] == "jobs"
    assert postgres_arguments(f"postgresql+psycopg{server}?sslmode=require")["dbname"] == "jobs"
    assert sqlite_arguments("sqlite:////var/mayfly.db") == {"database": "/var/mayfly.db"}


def test_the_flag_of_sqlalchemy_is_the_one_we_set() -> None:
    """An UPDATE counts the rows it found, on both ways."""
    assert by_sqlalchemy("mysql+pymysql://u@h/d")["client_flag"] == CLIENT.FOUND_ROWS


def by_sqlalchemy(url: str) -> dict[str, Any]:
    parsed = make_url(url)
    dialect: Any = parsed.get_dialect()
    positional, options = dialect(dbapi=dialect.import_dbapi()).create_connect_args(parsed)
    return {**({"database": positional[0]} if positional else {}), **options}


def without(arguments: dict[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if name not in names}
