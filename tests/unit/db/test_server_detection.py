"""A server is identified by its version, and one without SKIP LOCKED is refused."""

from typing import Any

import pytest
from sqlalchemy import make_url

from mayfly.db.dialects import MIN_VERSIONS, DatabaseServer, mysql, postgres


def as_sqlalchemy_detects(version: str) -> str:
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
def test_mysql_and_mariadb_are_distinguished_as_by_sqlalchemy(version: str) -> None:
    """Their versions have the same format."""
    assert str(mysql.server_of(version)) == as_sqlalchemy_detects(version)


@pytest.mark.parametrize(("version", "product"), [("proxy", "MySQL"), ("", "MySQL"), ("some MariaDB", "MariaDB")])
def test_a_server_without_a_version_is_accepted(version: str, product: str) -> None:
    """Its own errors will show what it lacks."""
    server = mysql.server_of(version)

    assert (str(server), server.is_known) == (product, True)


@pytest.mark.parametrize(("number", "name"), [(150006, "PostgreSQL 15.6"), (120000, "PostgreSQL 12.0")])
def test_the_version_of_postgres_is_its_number(number: int, name: str) -> None:
    """As libpq returns it."""
    assert (str(postgres.server_of(number)), postgres.server_of(number).is_known) == (name, True)


def test_an_old_postgres_is_not_supported() -> None:
    """Its number had three parts, of which the first two suffice."""
    assert not postgres.server_of(90624).is_known


@pytest.mark.parametrize("product", MIN_VERSIONS)
def test_the_oldest_supported_server_is_accepted_and_older_ones_are_not(product: str) -> None:
    """It is the first with SKIP LOCKED and the other features that are needed."""
    assert DatabaseServer(product, MIN_VERSIONS[product]).is_known
    assert not DatabaseServer(product, (MIN_VERSIONS[product][0] - 1, 99)).is_known
