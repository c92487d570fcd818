"""Detection of the server."""

from mayfly.db.connection import Connection
from mayfly.db.database import Database
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
