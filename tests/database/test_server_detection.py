"""Detection of the server."""

from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.db.dialects.mysql import begin_session
from tests.database.factories import mysql_only


@mysql_only
def test_the_version_comes_from_the_server_and_not_from_a_proxy(database: Database) -> None:
    """A proxy's handshake may have an old version; the server is queried."""

    def work(connection: Connection) -> str:
        connection.raw.server_version = "5.5.30"  # as PyMySQL has read it from the handshake
        connection.dialect.require_skip_locked(connection.raw)
        return str(connection.dialect.server(connection.raw))

    named = database.run(work)
    database.close()

    assert named != "MySQL 5.5.30"
    assert database.run(lambda connection: str(connection.dialect.server(connection.raw))) == named


@mysql_only
def test_a_session_is_read_committed_whatever_its_handshake_says(database: Database) -> None:
    """The variable has different names in MySQL and MariaDB, and a proxy may hide which of them answers."""

    def isolation(version: str) -> str:
        def work(connection: Connection) -> str:
            connection.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            connection.raw.server_version = version
            begin_session(connection.raw)
            names = "'tx_isolation', 'transaction_isolation'"
            found = connection.execute(f"SHOW SESSION VARIABLES WHERE variable_name IN ({names})").all()
            return str(found[0][1])

        return database.read(work)

    assert [isolation(version) for version in ("5.5.30", "8.4.3", "10.6.1-MariaDB")] == ["READ-COMMITTED"] * 3
