"""A plain DATABASE_URL is parsed without SQLAlchemy."""

from typing import Any

import pytest

from mayfly.db import dialects
from mayfly.db.dialects import mysql, postgres, sqlite

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
def test_tls_is_off_only_for_connections_within_this_machine(url: str, is_off: bool) -> None:
    """TLS options of a URL are kept."""
    assert ("ssl_disabled" in mysql.arguments(url)) is is_off


@pytest.mark.parametrize("server", PLAIN)
def test_plain_urls_need_no_sqlalchemy(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing it takes longer than claiming a batch."""

    def refuse(url: str) -> Any:
        raise AssertionError(url)

    monkeypatch.setattr(dialects, "arguments_by_sqlalchemy", refuse)

    assert mysql.arguments(f"mysql+pymysql{server}")["database"] == "jobs"
    assert postgres.arguments(f"postgresql+psycopg{server}?sslmode=require")["dbname"] == "jobs"
    assert sqlite.arguments("sqlite:////var/mayfly.db") == {"database": "/var/mayfly.db"}
