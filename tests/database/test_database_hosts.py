"""DATABASE_URL with several hosts: the first one that accepts writes is used, and each costs at most 3 s."""

import socket
from collections.abc import Iterator

import pytest
from sqlalchemy import make_url, text

from mayfly.clock import monotonic
from mayfly.db import dialects, hosts
from mayfly.db.database import Database
from mayfly.db.dialects import ErrorKind
from mayfly.errors import DatabaseAway
from mayfly.schema.migrations import migrate
from tests.database.factories import servers_only
from tests.database.lossy_proxy import proxied, unanswered_connections
from tests.servers import PrivateServer

CLOSED = "127.0.0.1:1"
INSERT = "INSERT INTO mayfly_jobs (type, payload) VALUES ('noop', '{}')"
COUNT = "SELECT COUNT(*) FROM mayfly_jobs"


@pytest.fixture(autouse=True)
def _no_host_was_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a new process."""
    monkeypatch.setattr(hosts, "_last_used", {})


@pytest.fixture
def silent_host() -> Iterator[socket.socket]:
    """A host that accepts connections and never answers, like a server that hangs."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def address_of(listener: socket.socket) -> str:
    return f"127.0.0.1:{listener.getsockname()[1]}"


def on_hosts(url: str, *addresses: str) -> str:
    """The URL with these hosts, each an address or a URL, instead of its own."""
    named = [each if "://" not in each else f"{make_url(each).host}:{make_url(each).port}" for each in addresses]
    before, at, rest = url.rpartition("@")
    return f"{before}{at}{','.join(named)}/{rest.partition('/')[2]}"


def insert_and_count(database: Database) -> int:
    database.run(lambda connection: connection.execute(INSERT))
    return int(database.read(lambda connection: connection.execute(COUNT).scalar()))


@servers_only
@pytest.mark.parametrize("order", [(CLOSED, "own"), ("own", CLOSED)])
def test_a_host_that_refuses_connections_is_skipped(migrated_url: str, order: tuple[str, ...]) -> None:
    """Wherever it is in the list."""
    database = Database(on_hosts(migrated_url, *(each.replace("own", migrated_url) for each in order)))

    assert insert_and_count(database) == 1

    database.close()


@servers_only
def test_a_host_that_hangs_costs_one_connect_timeout(
    migrated_url: str, silent_host: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried once per process, and the statements of the next host have their own timeout."""
    monkeypatch.setattr(dialects, "CONNECT_SECONDS", 2)
    url = on_hosts(migrated_url, address_of(silent_host), migrated_url)
    started = monotonic()

    for _ in range(2):
        database = Database(url)
        insert_and_count(database)
        database.close()

    assert 1.5 < monotonic() - started < dialects.STATEMENT_SECONDS
    assert unanswered_connections(silent_host) == 1


@servers_only
def test_if_no_host_can_be_used_each_one_is_named_with_its_reason(migrated_url: str) -> None:
    """Without the password."""
    wrong = make_url(migrated_url).set(password="hunter2").render_as_string(hide_password=False)
    database = Database(on_hosts(wrong, CLOSED, wrong))

    with pytest.raises(DatabaseAway) as caught:
        database.connect()

    message, own = str(caught.value), on_hosts("@/", wrong).strip("@/")
    assert "can't be reached: no host accepts connections and writes: 127.0.0.1:1: " in message
    assert f"; {own}: " in message
    assert "denied" in message or "authentication failed" in message
    assert "hunter2" not in message


def test_when_the_connected_host_dies_the_next_one_is_used(restartable_url: str) -> None:
    """Without an error: the transaction is repeated there."""
    with proxied(restartable_url) as (proxy, first):
        database = Database(on_hosts(restartable_url, first, restartable_url))
        insert_and_count(database)
        proxy.close()
        proxy.lose_next(b".")  # the connection that is open

        assert insert_and_count(database) >= 2

    database.close()


@pytest.mark.parametrize("module_server", ["postgres"], indirect=True)
def test_a_primary_that_became_a_standby_is_left(restartable_url: str) -> None:
    """Its error is not one of a lost connection: the session would stay usable, for reads only."""
    with proxied(restartable_url) as (_proxy, second):
        database = Database(on_hosts(restartable_url, restartable_url, second))
        database.read(lambda connection: connection.execute("SET default_transaction_read_only = on"))

        assert insert_and_count(database) == 1

    assert database.repeats == 1
    database.close()


@pytest.mark.parametrize("module_server", ["postgres"], indirect=True)
def test_a_statement_that_must_not_run_twice_is_repeated_after_a_standby_refused_it(restartable_url: str) -> None:
    """An INSERT of enqueue(): a standby has executed nothing, so its outcome is known."""
    with proxied(restartable_url) as (_proxy, second):
        database = Database(on_hosts(restartable_url, restartable_url, second))
        database.read(lambda connection: connection.execute("SET default_transaction_read_only = on"))

        inserted = database.once(lambda connection: connection.execute(INSERT).rowcount, repeatable=False)

    assert (inserted, database.repeats) == (1, 1)
    database.close()


def test_a_read_only_host_is_skipped_and_named(restartable_url: str, restartable_server: PrivateServer) -> None:
    """`mayfly doctor` shows it too."""
    set_read_only(restartable_server, restartable_url, "ON")
    try:
        database = Database(on_hosts(restartable_url, restartable_url, CLOSED))
        with pytest.raises(DatabaseAway) as caught:
            database.connect()
        checked = [kind for _name, kind, _reason in database.hosts.check()]
    finally:
        set_read_only(restartable_server, restartable_url, "OFF")

    assert "read-only" in str(caught.value)
    assert checked == [ErrorKind.STANDBY, ErrorKind.AWAY]
    assert insert_and_count(database) == 1
    database.close()


def set_read_only(server: PrivateServer, url: str, value: str) -> None:
    name = make_url(url).database
    server.execute(
        f"ALTER DATABASE {name} SET default_transaction_read_only = {value}"
        if server.is_postgres
        else f"SET GLOBAL read_only = {value}"
    )


@servers_only
def test_migrations_and_sqlalchemy_of_handlers_use_the_same_host(database_url: str) -> None:
    """Neither is given the list, which SQLAlchemy does not understand."""
    url = on_hosts(database_url, CLOSED, database_url)

    migrate(url)
    database = Database(url)
    counted = database.run_sqlalchemy(lambda connection: connection.execute(text(COUNT)).scalar_one())

    assert counted == 0
    database.close()
