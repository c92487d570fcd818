"""The servers of the tests: databases that are named by a variable, otherwise private ones."""

import shutil
from collections.abc import Mapping

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from tests.servers.dovecot import Dovecot
from tests.servers.mariadb import MariaDBServer
from tests.servers.pgbouncer import PgBouncer
from tests.servers.postfix import Postfix
from tests.servers.postgres import PostgresServer, PostgresStandby
from tests.servers.private import PrivateProcess, PrivateServer
from tests.servers.server import DidNotStart, Server, Unavailable
from tests.servers.slurm import Slurm
from tests.servers.sshd import Sshd

__all__ = [
    "PRIVATE",
    "DidNotStart",
    "Dovecot",
    "MariaDBServer",
    "PgBouncer",
    "Postfix",
    "PostgresServer",
    "PostgresStandby",
    "PrivateProcess",
    "PrivateServer",
    "Server",
    "Slurm",
    "Sshd",
    "Unavailable",
    "engine_names",
    "missing_packages",
    "named_server",
    "program",
    "server_url",
]

PRIVATE: Mapping[str, type[MariaDBServer | PostgresServer]] = {
    "mariadb": MariaDBServer,
    "postgres": PostgresServer,
}
# Some tests run examples of the docs, or compile.
PROGRAMS = {"curl": "curl", "node": "nodejs", "cc": "gcc libc6-dev"}
DRIVERS = {"mariadb": "mysql+pymysql", "mysql": "mysql+pymysql", "postgres": "postgresql+psycopg"}


def engine_names(environ: Mapping[str, str]) -> list[str]:
    """Debian has no MySQL server, so it is tested only if a variable names one."""
    return ["sqlite", *PRIVATE] + (["mysql"] if server_url(environ, "mysql") else [])


def server_url(environ: Mapping[str, str], engine_name: str) -> str | None:
    return environ.get(f"TEST_{engine_name.upper()}_URL") or None


def named_server(engine_name: str, url: str) -> Server:
    """The server at that URL; its driver and database are ignored."""
    try:
        parsed = make_url(url).set(drivername=DRIVERS[engine_name])
        if engine_name == "postgres" and not parsed.database:
            parsed = parsed.set(database="postgres")
        server = Server(engine_name, parsed)
        server.execute("SELECT 1")
    except ArgumentError:
        raise Unavailable(f"TEST_{engine_name.upper()}_URL is no URL.") from None
    except DBAPIError as error:
        raise Unavailable(f"TEST_{engine_name.upper()}_URL does not answer: {error.orig}") from error
    return server


def missing_packages(environ: Mapping[str, str]) -> list[str]:
    """The Debian packages of servers that no variable names and of other programs, if they are missing here."""
    needed = [server for engine_name, server in PRIVATE.items() if not server_url(environ, engine_name)]
    servers = [server.package for server in (*needed, PgBouncer) if server.programs() is None]
    return servers + [package for name, package in PROGRAMS.items() if shutil.which(name) is None]


def program(name: str) -> str:
    """Its path. If it is missing, a test is skipped, and fails in CI, as for a server."""
    found = shutil.which(name)
    if found is None:
        raise Unavailable(f"No {name} is installed: `apt-get install {PROGRAMS[name]}` brings it.")
    return found
