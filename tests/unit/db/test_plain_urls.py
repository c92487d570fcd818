"""The usual DATABASE_URL is read without SQLAlchemy."""

from typing import Any

import pytest

from mayfly.db import url
from mayfly.db.url import mysql_arguments, postgres_arguments, sqlite_arguments

PLAIN = [
    "://user:secret@db.example:7000/jobs",
    "://user:secret@db.example/jobs",
    "://user@db.example/jobs",
    "://user:@db.example/jobs",
    "://user:p%40ss%2Fw%3Ard%25@db.example/jobs",
    "://user:secret@[::1]:7000/jobs",
]


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


@pytest.mark.parametrize("server", PLAIN)
def test_plain_urls_need_no_sqlalchemy(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """To import it takes longer than to claim a batch."""

    def refuse(url: str) -> Any:
        raise AssertionError(url)

    monkeypatch.setattr(url, "_by_sqlalchemy", refuse)

    assert mysql_arguments(f"mysql+pymysql{server}")["database"] == "jobs"
    assert postgres_arguments(f"postgresql+psycopg{server}?sslmode=require")["dbname"] == "jobs"
    assert sqlite_arguments("sqlite:////var/mayfly.db") == {"database": "/var/mayfly.db"}
