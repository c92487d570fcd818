"""A URL is passed to the driver as SQLAlchemy would: the same address, options and TLS."""

import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sqlalchemy import make_url
from sqlalchemy.exc import SQLAlchemyError

from mayfly.db import dialects
from mayfly.db.dialects import mysql, postgres, sqlite

NO_TLS = {"ssl_disabled": True}


def by_sqlalchemy(url: str) -> dict[str, Any]:
    """What SQLAlchemy passes to the driver; our additions are stated where they are compared."""
    parsed = make_url(url)
    kind: Any = parsed.get_dialect()
    dialect = kind(dbapi=kind.import_dbapi())
    _, arguments = dialect.create_connect_args(parsed)
    for what_is_no_address in ("context", "client_flag"):  # psycopg's type map and PyMySQL's flags
        arguments.pop(what_is_no_address, None)
    return dict(arguments)


@pytest.fixture
def without_sqlalchemy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if the URL is passed to SQLAlchemy."""

    def asked(url: str) -> dict[str, Any]:
        pytest.fail(f"needs SQLAlchemy for {url}")

    monkeypatch.setattr(dialects, "arguments_by_sqlalchemy", asked)


REMOTE_MYSQL = [
    "mysql+pymysql://mayfly:p%25f%40%3A%2F+x@db.example/app",
    "mysql+pymysql://mayfly@[2001:db8::1]/app",
]
LOCAL_MYSQL = [
    "mysql+pymysql://mayfly:secret@127.0.0.1:3306/app",
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
    "postgresql+psycopg://mayfly@db.example/app?options=-csearch_path%3Djobs%20-c+jit%3Don",
]


@pytest.mark.usefixtures("without_sqlalchemy")
@pytest.mark.parametrize("url", REMOTE_MYSQL)
def test_mysql_is_connected_to_as_by_sqlalchemy(url: str) -> None:
    """Without importing it."""
    assert mysql.arguments(url) == by_sqlalchemy(url)


@pytest.mark.usefixtures("without_sqlalchemy")
@pytest.mark.parametrize("url", LOCAL_MYSQL)
def test_a_local_mysql_is_connected_to_without_tls(url: str) -> None:
    """Building a TLS context takes longer than an idle cycle."""
    assert mysql.arguments(url) == {**by_sqlalchemy(url), **NO_TLS}


@pytest.mark.usefixtures("without_sqlalchemy")
@pytest.mark.parametrize("url", POSTGRES)
def test_postgres_is_connected_to_as_by_sqlalchemy(url: str) -> None:
    """Without importing it."""
    assert postgres.arguments(url) == by_sqlalchemy(url)


@pytest.mark.usefixtures("without_sqlalchemy")
def test_sqlite_is_opened_as_by_sqlalchemy() -> None:
    """The same file."""
    url = "sqlite:////srv/may fly/mayfly.db"

    assert sqlite.arguments(url) == {"database": make_url(url).database}


@pytest.mark.parametrize(
    "url",
    [
        "mysql+pymysql://h/app?charset=latin1",
        "mysql+pymysql://h/app?ssl_ca=/etc/ca.pem",
        "mysql+pymysql://localhost/app?ssl_ca=/etc/ca.pem",
        "mysql+pymysql://h/app?unix_socket",
        "mysql+pymysql://h/a%20b",
        "mysql+pymysql://h/a/b",
    ],
)
def test_parts_of_a_url_that_only_sqlalchemy_understands_are_left_to_it(url: str) -> None:
    """Mostly options, and parts that its versions read differently; TLS is kept as requested."""
    assert mysql.arguments(url) == by_sqlalchemy(url)


@pytest.mark.parametrize("url", ["postgresql+psycopg:///app?host=/run/a,/run/b", "postgresql+psycopg://h/app?port=1"])
def test_an_address_in_the_query_is_left_to_sqlalchemy(url: str) -> None:
    """It has rules for several hosts."""
    assert postgres.arguments(url) == by_sqlalchemy(url)


text = st.text("aB1%2@:/?#+&= é\\'\"~-_.", max_size=8)


@given(st.builds("mysql+pymysql://{}:{}@{}/{}?unix_socket={}".format, text, text, text, text, text))
@example("mysql+pymysql://a:b%@h/c?unix_socket=d%")
def test_a_url_is_parsed_as_by_sqlalchemy_or_not_at_all(url: str) -> None:
    """For any text."""
    try:
        expected = by_sqlalchemy(url)
    except (ValueError, SQLAlchemyError) as error:
        with pytest.raises(type(error), match=re.escape(str(error))):
            mysql.arguments(url)
        return

    assert {**mysql.arguments(url), **NO_TLS} == {**expected, **NO_TLS}
