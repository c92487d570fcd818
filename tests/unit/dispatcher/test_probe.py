"""The idle cycle connects as the full path does, and knows a server by the same name, or not at all."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sqlalchemy import make_url

from dispatcher.probe import SUMMARY
from dispatcher.probe.address import mysql_arguments, postgres_arguments, sqlite_arguments
from dispatcher.probe.drivers import parse_statements
from dispatcher.probe.server import OLDEST, Server, mysql_server, postgres_server
from dispatcher.summary import Summary, summary_lines
from mayfly.dialect import engine_options, require_skip_locked, server_name


def full_path(url: str) -> dict[str, Any]:
    """What SQLAlchemy hands to the driver."""
    parsed = make_url(url)
    kind: Any = parsed.get_dialect()
    dialect = kind(dbapi=kind.import_dbapi())
    _, arguments = dialect.create_connect_args(parsed)
    options = {**arguments, **engine_options(parsed, 1)["connect_args"]}
    for how_values_are_read in ("context", "conv"):  # psycopg's map of types, and PyMySQL's: not what the session is
        options.pop(how_values_are_read, None)
    return options


MYSQL = [
    "mysql+pymysql://mayfly:secret@127.0.0.1:3306/app",
    "mysql+pymysql://mayfly:p%25f%40%3A%2F+x@db.example/app",
    "mysql+pymysql://may%20fly@localhost/app",
    "mysql+pymysql://[::1]:3307/app",
    "mysql+pymysql:///app?unix_socket=/run/mysqld/mysqld.sock",
    "mysql+pymysql://mayfly:@localhost:3306/app?unix_socket=%2Frun%2Fmy+socket",
]
POSTGRES = [
    "postgresql+psycopg://mayfly:secret@127.0.0.1:5432/app",
    "postgresql+psycopg://mayfly:p%25f%40%3A%2F@db.example/app?sslmode=verify-full&sslrootcert=/etc/ca.pem",
    "postgresql+psycopg:///app",
    "postgresql+psycopg://[fe80::1]/app?application_name=mayfly",
]


@pytest.mark.parametrize("url", MYSQL)
def test_mysql_is_connected_to_as_by_the_full_path(url: str) -> None:
    """The same address, time-outs, session settings and TLS."""
    assert mysql_arguments(url) == full_path(url)


@pytest.mark.parametrize("url", POSTGRES)
def test_postgres_is_connected_to_as_by_the_full_path(url: str) -> None:
    """The same address, time-outs, session settings and TLS."""
    assert postgres_arguments(url) == full_path(url)


def test_sqlite_is_opened_as_by_the_full_path() -> None:
    """The same file, and the same patience with a lock."""
    url = "sqlite:////srv/may fly/mayfly.db"
    options = full_path(url)

    assert sqlite_arguments(url) == {
        "database": make_url(url).database,
        **{name: options[name] for name in ("timeout", "check_same_thread")},
    }


@pytest.mark.parametrize(
    "url",
    [
        "mysql+pymysql://h/app?charset=latin1",
        "mysql+pymysql://h/app?ssl_ca=/etc/ca.pem",
        "mysql+pymysql://h/app?unix_socket=/a&unix_socket=/b",
        "mysql+pymysql://h/app?unix_socket",
        "mysql+pymysql://h/a%20b",
        "mysql+pymysql://h/a/b",
    ],
)
def test_what_only_sqlalchemy_understands_of_a_url_is_left_to_it(url: str) -> None:
    """Options above all, and what its versions read differently."""
    with pytest.raises(ValueError, match=r"options|form|bad query field"):
        mysql_arguments(url)


@pytest.mark.parametrize("url", ["postgresql+psycopg:///app?host=/run/a,/run/b", "postgresql+psycopg://h/app?port=1"])
def test_a_second_address_behind_the_question_mark_is_left_to_sqlalchemy(url: str) -> None:
    """It has rules for several hosts."""
    with pytest.raises(ValueError, match="options"):
        postgres_arguments(url)


text = st.text("aB1%2@:/?#+&= é\\'\"~-_.", max_size=8)


@settings(deadline=None)
@given(st.builds("mysql+pymysql://{}:{}@{}/{}?unix_socket={}".format, text, text, text, text, text))
@example("mysql+pymysql://a:b%@h/c?unix_socket=d%")
def test_a_url_is_understood_as_by_sqlalchemy_or_not_at_all(url: str) -> None:
    """Whatever stands in it."""
    try:
        arguments = mysql_arguments(url)
    except ValueError:
        return

    assert arguments == full_path(url)


# --- the server -------------------------------------------------------------------------------------------


def told_by_sqlalchemy(version: str) -> str:
    dialect = make_url("mysql+pymysql://").get_dialect()()
    dialect._parse_server_version(version)  # type: ignore[attr-defined]
    return server_name(SimpleNamespace(dialect=dialect))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "version",
    [
        "10.11.6-MariaDB-0+deb12u1",
        "11.4.2-MariaDB-ubu2404",
        "10.6.0-MariaDB",
        "8.4.3",
        "8.0.35-0ubuntu0.22.04.1",
        "8.0.36-28",
        "9.1.0-log",
    ],
)
def test_the_two_mysqls_are_told_apart_as_by_the_full_path(version: str) -> None:
    """And their versions are written alike."""
    assert str(mysql_server(version)) == told_by_sqlalchemy(version)


@pytest.mark.parametrize("version", ["5.5.5-10.11.6-MariaDB", "8.0.11-TiDB-v7.5.0-MariaDB", "8.0", "proxy"])
def test_a_strange_mysql_is_not_known(version: str) -> None:
    """The full path may know better."""
    with pytest.raises(ValueError, match=version):
        mysql_server(version)


def test_postgres_is_known_by_what_it_says() -> None:
    """Only a release: whoever runs a beta gets the full path."""
    said = "PostgreSQL 15.6 (Debian 15.6-0+deb12u1) on x86_64-pc-linux-gnu, compiled by gcc"

    assert str(postgres_server(said)) == "PostgreSQL 15.6"
    for strange in ("PostgreSQL 18beta1 on x86_64", "EnterpriseDB 15.6 on x86_64"):
        with pytest.raises(ValueError, match=strange):
            postgres_server(strange)


@pytest.mark.parametrize("product", OLDEST)
def test_a_server_that_is_known_is_good_enough_for_the_full_path(product: str) -> None:
    """Which refuses one that has no SKIP LOCKED."""
    name = {"MySQL": "mysql", "MariaDB": "mysql", "PostgreSQL": "postgresql", "SQLite": "sqlite"}[product]
    dialect = SimpleNamespace(name=name, is_mariadb=product == "MariaDB", server_version_info=OLDEST[product])

    require_skip_locked(SimpleNamespace(dialect=dialect))  # type: ignore[arg-type]

    assert Server(product, OLDEST[product]).is_known
    assert not Server(product, (OLDEST[product][0] - 1, 99)).is_known


# --- what it says -----------------------------------------------------------------------------------------


def test_the_summary_is_that_of_a_cycle_without_runners() -> None:
    """Line by line, in the words of summary.py."""
    summary = Summary(cycle_id=1, pending="0", planned=0, ends=(), duration_ms=42)

    assert [line.format(duration_ms=42) for line in SUMMARY] == summary_lines(summary)


def test_a_file_of_statements_is_blocks_with_a_title() -> None:
    """The first is the heading of the file."""
    assert parse_statements("-- heading\n-- more\n\n-- a b\nSELECT 1\nFROM c\n\n-- d\nSELECT 2\n") == {
        "a b": "SELECT 1\nFROM c",
        "d": "SELECT 2",
    }
