"""Where the tests' servers come from, and what happens without them."""

import pytest

from tests.conftest import or_skip
from tests.servers import (
    MariaDBServer,
    PostgresServer,
    Unavailable,
    engine_names,
    missing_packages,
    named_server,
    program,
)
from tests.servers.private import PORTS, free_port


def test_mysql_is_tested_only_where_somebody_names_one() -> None:
    """No Debian package has a MySQL server, so its absence is no gap."""
    assert engine_names({}) == ["sqlite", "mariadb", "postgres"]
    assert engine_names({"TEST_MYSQL_URL": "mysql://db"}) == ["sqlite", "mariadb", "postgres", "mysql"]


def test_missing_programs_are_named_by_their_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """scripts/test installs what is printed: a server that a variable names is not in it."""
    monkeypatch.setattr(MariaDBServer, "programs", classmethod(lambda cls: None))
    monkeypatch.setattr(PostgresServer, "programs", classmethod(lambda cls: None))
    monkeypatch.setattr("shutil.which", lambda name: None if name == "node" else f"/usr/bin/{name}")

    assert missing_packages({}) == ["mariadb-server", "postgresql", "nodejs"]
    assert missing_packages({"TEST_MARIADB_URL": "mysql://db"}) == ["postgresql", "nodejs"]


def test_a_program_that_is_not_installed_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a server does."""
    monkeypatch.setattr("shutil.which", lambda name: None)

    with pytest.raises(Unavailable, match="apt-get install nodejs"):
        program("node")


@pytest.mark.parametrize("server", [MariaDBServer, PostgresServer])
def test_a_server_that_is_not_installed_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, server: type[MariaDBServer | PostgresServer]
) -> None:
    """One sentence with the package and the variable, and nothing left to clean up."""
    monkeypatch.setattr(server, "programs", classmethod(lambda cls: None))
    missing = server()

    with pytest.raises(Unavailable, match=f"apt-get install {server.package}.*TEST_.*_URL"):
        missing.start()

    assert missing.directory is None


def test_a_variable_that_holds_no_url_is_named() -> None:
    """The reason says which variable to mend."""
    with pytest.raises(Unavailable, match="TEST_MARIADB_URL is no URL"):
        named_server("mariadb", "localhost")


def test_without_its_database_a_test_is_skipped_on_a_laptop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The skip carries the reason."""
    monkeypatch.delenv("CI", raising=False)

    with pytest.raises(pytest.skip.Exception, match="no server"), or_skip():
        raise Unavailable("no server")


def test_without_its_database_a_test_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipeline that tests one database less must not be green."""
    monkeypatch.setenv("CI", "true")

    with pytest.raises(pytest.fail.Exception, match="no server"), or_skip():
        raise Unavailable("no server")


def test_ports_lie_below_the_ephemeral_range() -> None:
    """A client that calls a server while it is down must not be given the server's port."""
    assert free_port() in PORTS
    assert max(PORTS) < 32768
