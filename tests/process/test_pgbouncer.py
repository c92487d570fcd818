"""Behind a real PgBouncer in transaction mode, configured as docs/reference/settings.md#postgresql says."""

import multiprocessing
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import make_url

from mayfly.db.database import Database
from mayfly.db.dialects.postgres import SESSION_SETTINGS
from mayfly.errors import SessionOptionsRefused
from mayfly.schema.migrations import PackageTables, migrate
from tests.databases import Databases
from tests.docs.consoles import blocks, section_named
from tests.process.installation import DEADLINE_SECONDS, Installation
from tests.servers import PrivateServer

TIMEOUTS = [name for name in SESSION_SETTINGS if name.endswith("_timeout")]
MIGRATION = """
from alembic import op

revision, down_revision = "0001", None


def upgrade():
    op.execute("CREATE TABLE seen AS SELECT name, setting FROM pg_settings WHERE name IN ('{}')")
""".format("', '".join(TIMEOUTS))
FORK = multiprocessing.get_context("fork")
[INI] = blocks(section_named("reference/settings.md", "PostgreSQL"), "ini")
SETTINGS = dict(re.findall(r"^(\w+) = (.+)$", INI, flags=re.MULTILINE))


@pytest.fixture(scope="module")
def pgbouncer(databases: Databases) -> Iterator[PrivateServer]:
    started = databases.pgbouncer(SETTINGS)
    yield started
    started.remove()


def pooled(url: str, pgbouncer: PrivateServer) -> str:
    """The same database through PgBouncer."""
    return pgbouncer.url(str(make_url(url).database))


@pytest.fixture
def installation(pgbouncer: PrivateServer, databases: Databases, tmp_path: Path) -> Iterator[Installation]:
    with databases.fresh("postgres", migrate) as url:
        made = Installation(tmp_path, pooled(url, pgbouncer))
        yield made
        made.end()


def test_jobs_run_once(installation: Installation) -> None:
    """Four runners and their dispatcher share two sessions, also for what a handler writes in its own transaction."""
    installation.execute("CREATE TABLE test_rows (job_id BIGINT PRIMARY KEY)")
    writers = installation.enqueue("insert_and_enqueue", count=40)

    for _ in range(2):  # in the second cycle, in sessions that other clients have used
        installation.enqueue("sleep", '{"seconds": 0.001}', count=100)
        ran = installation.dispatch(MAX_WORKERS="4")
        assert (ran.returncode, ran.stderr) == (0, "")

    assert installation.statuses() == {"done": 2 * 100 + len(writers), "pending": len(writers)}
    assert installation.rows("SELECT DISTINCT claims FROM mayfly_jobs WHERE status = 'done'") == [(1,)]
    assert [each.job_id for each in installation.rows("SELECT job_id FROM test_rows ORDER BY job_id")] == writers


def test_statements_are_prepared_only_without_a_pooler(installation: Installation, databases: Databases) -> None:
    """A prepared statement belongs to a session, and the next transaction may have another one."""
    direct = Database(databases.server("postgres").url(str(make_url(installation.url).database)))

    thresholds = [
        database.read(lambda connection: connection.raw.prepare_threshold)
        for database in (direct, installation.database)
    ]

    direct.close()
    assert thresholds[0] is not None
    assert thresholds[1] is None


def test_doctor_prints_the_missing_settings(
    installation: Installation, databases: Databases, pgbouncer: PrivateServer
) -> None:
    """Its statements are those of the page; once they have been run, it is content."""
    before = installation.run("mayfly", "doctor")
    statements = re.findall(r"ALTER ROLE .+;", before.stdout)
    for statement in statements:
        databases.server("postgres").execute(statement)
    pgbouncer.restart()

    after = installation.run("mayfly", "doctor")

    assert "PgBouncer does not pass on these settings" in before.stdout
    [documented] = blocks(section_named("reference/settings.md", "PostgreSQL"), "sql")
    database = make_url(installation.url).database
    assert [each.replace(str(database), "app") for each in statements] == documented.splitlines()
    assert "PgBouncer" not in after.stdout


def test_a_direct_session_lacks_no_setting(databases: Databases) -> None:
    """The server applies the options of the session."""
    with databases.fresh("postgres") as url:
        database = Database(url)

        missing = database.read(lambda connection: connection.dialect.missing_session_settings(connection))

        database.close()
    assert missing == []


def test_hosts_migrate_at_once(pgbouncer: PrivateServer, databases: Databases) -> None:
    """One after the other; no session keeps the lock, or the next migration would wait for it forever."""
    with databases.fresh("postgres") as url:
        hosts = [FORK.Process(target=migrate, args=(pooled(url, pgbouncer),)) for _ in range(4)]
        for host in hosts:
            host.start()
        for host in hosts:
            host.join(DEADLINE_SECONDS)
            host.kill()
            host.join()
        locks = databases.server("postgres").execute("SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory'")

    assert [host.exitcode for host in hosts] == [0, 0, 0, 0]
    assert locks == [(0,)]


def test_a_migration_has_timeouts_of_its_own(pgbouncer: PrivateServer, databases: Databases, tmp_path: Path) -> None:
    """Whatever those of its role are: altering a large table takes longer; for its lock it must not wait for long."""
    (tmp_path / "v0001.py").write_text(MIGRATION)
    tables = PackageTables("shop", tmp_path, "app_shop_version")
    with databases.fresh("postgres") as url:
        for name in TIMEOUTS:
            role = f"ALTER ROLE {make_url(url).username} IN DATABASE {make_url(url).database}"
            databases.server("postgres").execute(f"{role} SET {name} = '{SESSION_SETTINGS[name]}'")

        migrate(pooled(url, pgbouncer), tables)

        with databases.server("postgres").engine_for(str(make_url(url).database)).connect() as connection:
            during = connection.exec_driver_sql("SELECT name, setting FROM seen").all()
            after = [connection.exec_driver_sql(f"SHOW {name}").scalar_one() for name in TIMEOUTS]

    assert dict(map(tuple, during)) == dict.fromkeys(TIMEOUTS, "0") | {"lock_timeout": "2000"}
    assert after == [SESSION_SETTINGS[name] for name in TIMEOUTS]


def test_refused_options_are_explained(databases: Databases, tmp_path: Path) -> None:
    """Without the line of the page, the error says which one is missing."""
    strict = databases.pgbouncer({"pool_mode": "transaction"})
    database = Database(strict.url("postgres"))

    with pytest.raises(SessionOptionsRefused, match="ignore_startup_parameters"):
        database.connect()

    database.close()
    strict.remove()
