"""Where the servers of the tests come from, and what happens without them."""

import pytest
from sqlalchemy import make_url

from tests.conftest import or_skip
from tests.servers import (
    MariaDBServer,
    PgBouncer,
    PostgresServer,
    Server,
    Unavailable,
    engine_names,
    missing_packages,
    named_server,
    program,
)
from tests.servers.private import PORTS, free_port


def test_mysql_is_tested_only_if_a_variable_names_a_server() -> None:
    """Debian has no package of MySQL, so its absence is not an error."""
    assert engine_names({}) == ["sqlite", "mariadb", "postgres"]
    assert engine_names({"TEST_MYSQL_URL": "mysql://db"}) == ["sqlite", "mariadb", "postgres", "mysql"]


def test_missing_programs_are_printed_as_their_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """scripts/test installs them; a server that a variable names is not among them."""
    monkeypatch.setattr(MariaDBServer, "programs", classmethod(lambda cls: None))
    monkeypatch.setattr(PostgresServer, "programs", classmethod(lambda cls: None))
    monkeypatch.setattr(PgBouncer, "programs", classmethod(lambda cls: None))
    monkeypatch.setattr("shutil.which", lambda name: None if name == "node" else f"/usr/bin/{name}")

    assert missing_packages({}) == ["mariadb-server", "postgresql", "pgbouncer", "nodejs"]
    assert missing_packages({"TEST_MARIADB_URL": "mysql://db"}) == ["postgresql", "pgbouncer", "nodejs"]


def test_a_missing_program_is_reported_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a missing server is."""
    monkeypatch.setattr("shutil.which", lambda name: None)

    with pytest.raises(Unavailable, match="apt-get install nodejs"):
        program("node")


@pytest.mark.parametrize("server", [MariaDBServer, PostgresServer])
def test_a_missing_server_is_reported_with_its_package(
    monkeypatch: pytest.MonkeyPatch, server: type[MariaDBServer | PostgresServer]
) -> None:
    """One sentence names the package and the variable, and nothing is left to clean up."""
    monkeypatch.setattr(server, "programs", classmethod(lambda cls: None))
    missing = server()

    with pytest.raises(Unavailable, match=f"apt-get install {server.package}.*TEST_.*_URL"):
        missing.start()

    assert missing.directory is None


def test_a_missing_pgbouncer_is_reported_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable can name another one: the tests restart it and change its settings."""
    monkeypatch.setattr(PgBouncer, "programs", classmethod(lambda cls: None))
    behind = Server("postgres", make_url("postgresql+psycopg://mayfly:secret@db.example/postgres"))

    with pytest.raises(Unavailable, match="apt-get install pgbouncer") as missing:
        PgBouncer(behind, {}).start()

    assert "TEST_" not in str(missing.value)


def test_a_variable_without_a_valid_url_is_named() -> None:
    """The reason names the variable to fix."""
    with pytest.raises(Unavailable, match="TEST_MARIADB_URL is no URL"):
        named_server("mariadb", "localhost")


def test_without_its_database_a_test_is_skipped_on_a_laptop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is that of the skip."""
    monkeypatch.delenv("CI", raising=False)

    with pytest.raises(pytest.skip.Exception, match="no server"), or_skip():
        raise Unavailable("no server")


def test_without_its_database_a_test_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CI run that skips a database must not pass."""
    monkeypatch.setenv("CI", "true")

    with pytest.raises(pytest.fail.Exception, match="no server"), or_skip():
        raise Unavailable("no server")


def test_ports_lie_below_the_ephemeral_range() -> None:
    """Otherwise a client that connects while the server is down could get the server's port."""
    assert free_port() in PORTS
    assert max(PORTS) < 32768
