"""A server is known by what it says of itself, and one without SKIP LOCKED is refused."""

from typing import Any

import pytest
from sqlalchemy import make_url

from mayfly.db.dialects.base import MIN_VERSIONS, DatabaseServer, mysql_server, postgres_server


def told_by_sqlalchemy(version: str) -> str:
    dialect: Any = make_url("mysql+pymysql://").get_dialect()()
    dialect._parse_server_version(version)
    product = "MariaDB" if dialect.is_mariadb else "MySQL"
    return f"{product} {'.'.join(map(str, dialect.server_version_info[:3]))}"


@pytest.mark.parametrize(
    "version",
    [
        "10.11.6-MariaDB-0+deb12u1",
        "5.5.5-10.11.6-MariaDB",
        "11.4.2-MariaDB-ubu2404",
        "10.6.0-MariaDB",
        "8.4.3",
        "8.0.35-0ubuntu0.22.04.1",
        "8.0.36-28",
        "9.1.0-log",
    ],
)
def test_the_two_mysqls_are_told_apart_as_by_sqlalchemy(version: str) -> None:
    """And their versions are written alike."""
    assert str(mysql_server(version)) == told_by_sqlalchemy(version)


@pytest.mark.parametrize(("version", "product"), [("proxy", "MySQL"), ("", "MySQL"), ("some MariaDB", "MariaDB")])
def test_a_server_that_does_not_tell_its_version_is_let_be(version: str, product: str) -> None:
    """Whatever it lacks, its own errors will say so."""
    server = mysql_server(version)

    assert (str(server), server.is_known) == (product, True)


@pytest.mark.parametrize(("number", "name"), [(150006, "PostgreSQL 15.6"), (120000, "PostgreSQL 12.0")])
def test_postgres_is_known_by_its_number(number: int, name: str) -> None:
    """As libpq gives it."""
    assert (str(postgres_server(number)), postgres_server(number).is_known) == (name, True)


def test_a_postgres_of_long_ago_is_not_known() -> None:
    """Its number had three parts then, of which the first two are enough."""
    assert not postgres_server(90624).is_known


@pytest.mark.parametrize("product", MIN_VERSIONS)
def test_the_oldest_server_is_known_and_what_came_before_is_not(product: str) -> None:
    """The first with SKIP LOCKED, or with what else is asked of it."""
    assert DatabaseServer(product, MIN_VERSIONS[product]).is_known
    assert not DatabaseServer(product, (MIN_VERSIONS[product][0] - 1, 99)).is_known
