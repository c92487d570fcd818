"""Which server this is, by its own words."""

from mayfly.db.connection import Connection
from mayfly.db.database import Database
from tests.database.factories import mysql_only


@mysql_only
def test_a_proxys_greeting_is_not_taken_for_the_servers(database: Database) -> None:
    """What stands between may greet with a version of long ago; the server itself is asked."""

    def work(connection: Connection) -> str:
        connection.raw.server_version = "5.5.30"  # as PyMySQL has read it from the greeting
        connection.dialect.require_skip_locked(connection.raw)
        return str(connection.dialect.server(connection.raw))

    named = database.run(work)
    database.close()

    assert named != "MySQL 5.5.30"
    assert database.run(lambda connection: str(connection.dialect.server(connection.raw))) == named
