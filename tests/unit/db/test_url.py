"""A URL reaches the driver as SQLAlchemy would hand it on: the same address, options and TLS."""

import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sqlalchemy import make_url
from sqlalchemy.exc import SQLAlchemyError

from mayfly.db import url
from mayfly.db.url import mysql_arguments, postgres_arguments, sqlite_arguments

NO_TLS = {"ssl_disabled": True}


def by_sqlalchemy(url: str) -> dict[str, Any]:
    """What SQLAlchemy hands to the driver; what we add to it is said where it is compared."""
    parsed = make_url(url)
    kind: Any = parsed.get_dialect()
    dialect = kind(dbapi=kind.import_dbapi())
    _, arguments = dialect.create_connect_args(parsed)
    for what_is_no_address in ("context", "client_flag"):  # psycopg's map of types, and PyMySQL's flags
        arguments.pop(what_is_no_address, None)
    return dict(arguments)


@pytest.fixture
def only_ourselves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without help: what has to ask SQLAlchemy fails."""

    def asked(url: str) -> dict[str, Any]:
        pytest.fail(f"needs SQLAlchemy for {url}")

    monkeypatch.setattr(url, "_by_sqlalchemy", asked)


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
]


@pytest.mark.usefixtures("only_ourselves")
@pytest.mark.parametrize("url", REMOTE_MYSQL)
def test_mysql_is_connected_to_as_by_sqlalchemy(url: str) -> None:
    """Without importing it."""
    assert mysql_arguments(url) == by_sqlalchemy(url)


@pytest.mark.usefixtures("only_ourselves")
@pytest.mark.parametrize("url", LOCAL_MYSQL)
def test_a_local_mysql_is_connected_to_without_tls(url: str) -> None:
    """To build a TLS context takes longer than an idle cycle."""
    assert mysql_arguments(url) == {**by_sqlalchemy(url), **NO_TLS}


@pytest.mark.usefixtures("only_ourselves")
@pytest.mark.parametrize("url", POSTGRES)
def test_postgres_is_connected_to_as_by_sqlalchemy(url: str) -> None:
    """Without importing it."""
    assert postgres_arguments(url) == by_sqlalchemy(url)


@pytest.mark.usefixtures("only_ourselves")
def test_sqlite_is_opened_as_by_sqlalchemy() -> None:
    """The same file."""
    url = "sqlite:////srv/may fly/mayfly.db"

    assert sqlite_arguments(url) == {"database": make_url(url).database}


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
def test_what_only_sqlalchemy_understands_of_a_url_is_left_to_it(url: str) -> None:
    """Options above all, and what its versions read differently; TLS stays as it is asked for."""
    assert mysql_arguments(url) == by_sqlalchemy(url)


@pytest.mark.parametrize("url", ["postgresql+psycopg:///app?host=/run/a,/run/b", "postgresql+psycopg://h/app?port=1"])
def test_a_second_address_behind_the_question_mark_is_left_to_sqlalchemy(url: str) -> None:
    """It has rules for several hosts."""
    assert postgres_arguments(url) == by_sqlalchemy(url)


text = st.text("aB1%2@:/?#+&= é\\'\"~-_.", max_size=8)


@given(st.builds("mysql+pymysql://{}:{}@{}/{}?unix_socket={}".format, text, text, text, text, text))
@example("mysql+pymysql://a:b%@h/c?unix_socket=d%")
def test_a_url_is_understood_as_by_sqlalchemy_or_not_at_all(url: str) -> None:
    """Whatever stands in it."""
    try:
        expected = by_sqlalchemy(url)
    except (ValueError, SQLAlchemyError) as error:
        with pytest.raises(type(error), match=re.escape(str(error))):
            mysql_arguments(url)
        return

    assert {**mysql_arguments(url), **NO_TLS} == {**expected, **NO_TLS}
