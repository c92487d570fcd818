"""Which server answered, and whether it is new enough."""

import pytest

from mayfly.dialect import dialect_named
from mayfly.dialect.server import Server, mysql_server, postgres_server
from mayfly.errors import ServerTooOld


@pytest.mark.parametrize(
    ("greeting", "told", "is_known"),
    [
        ("5.5.5-10.11.6-MariaDB-0+deb12u1", "MariaDB 10.11.6", True),
        ("11.4.2-MariaDB", "MariaDB 11.4.2", True),
        ("10.6.0-MariaDB", "MariaDB 10.6.0", True),
        ("5.5.5-10.5.29-MariaDB", "MariaDB 10.5.29", False),
        ("5.5.68-MariaDB", "MariaDB 5.5.68", False),
        ("8.4.3", "MySQL 8.4.3", True),
        ("8.0.35-0ubuntu0.22.04.1", "MySQL 8.0.35", True),
        ("8.0.0-dmr", "MySQL 8.0.0", False),
        ("5.7.44-log", "MySQL 5.7.44", False),
        ("5.5.5", "MySQL 5.5.5", False),
        ("a proxy", "MySQL", True),
    ],
)
def test_mysqls_are_known_by_their_greeting(greeting: str, told: str, is_known: bool) -> None:
    """MariaDB says 5.5.5 first, for clients of long ago; who says nothing is believed."""
    server = mysql_server(greeting)

    assert (str(server), server.is_known) == (told, is_known)


@pytest.mark.parametrize(
    ("number", "told", "is_known"),
    [
        (150006, "PostgreSQL 15.6", True),
        (120000, "PostgreSQL 12.0", True),
        (110022, "PostgreSQL 11.22", False),
        (90624, "PostgreSQL 9.624", False),
    ],
)
def test_postgres_is_known_by_its_number(number: int, told: str, is_known: bool) -> None:
    """Two parts since 10; what is older is refused by any name."""
    server = postgres_server(number)

    assert (str(server), server.is_known) == (told, is_known)


def test_a_server_without_skip_locked_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """With both versions in the sentence: the one that is there, and the one that is needed."""
    mysql = dialect_named("mysql")
    monkeypatch.setattr(type(mysql), "server", lambda *_: Server("MySQL", (5, 7, 44)))

    with pytest.raises(ServerTooOld, match=r"^MySQL 5\.7\.44 has no .* Mayfly needs MySQL 8\.0\.1 or newer"):
        mysql.require_skip_locked(None)
