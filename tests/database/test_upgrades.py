"""Two versions of the code on one database: what a migration of the next release may do while this one runs."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from datetime import timedelta
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, inspect
from sqlalchemy.event import listen
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

from mayfly.db.database import Database
from mayfly.db.dialects import Unit
from mayfly.errors import OldCodeRuns, SchemaMismatch, TablesBusy
from mayfly.fleet.cycles import open_cycle
from mayfly.schema import migrations
from mayfly.schema.migrations import PackageTables, migrate, planned_statements
from mayfly.schema.tables import VERSION, require_version
from tests.database.factories import claim_ids, run_sql
from tests.databases import Databases
from tests.factories import insert_row, insert_rows
from tests.next_release import CONTRACT, EXPAND, number_after, write_migrations
from tests.process.installation import DEADLINE_SECONDS, wait_until
from tests.sqlalchemy_engines import engine_of

FORK = multiprocessing.get_context("fork")
NEWEST = migrations.OWN.versions()[0]
NEXT = f"{number_after(1)}_from_{VERSION}"  # this code can use it
AFTER_NEXT = f"{number_after(2)}_from_{number_after(1)}"  # this code cannot


@pytest.fixture
def url(databases: Databases, engine_name: str) -> Iterator[str]:
    """A database of its own: its tables are changed."""
    with databases.fresh(engine_name, migrate) as made:
        yield made


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    made = Database(url)
    yield made
    made.close()


@pytest.fixture
def expanded(tmp_path: Path) -> PackageTables:
    return write_migrations(tmp_path / "expanded", (NEXT, EXPAND))


@pytest.fixture
def contracted(tmp_path: Path) -> PackageTables:
    return write_migrations(tmp_path / "contracted", (NEXT, EXPAND), (AFTER_NEXT, CONTRACT))


def shape_of(url: str) -> tuple[list[str], list[str]]:
    """The names of columns and indexes of the jobs."""
    inspector = inspect(create_engine(url, poolclass=NullPool))
    columns, indexes = inspector.get_columns("mayfly_jobs"), inspector.get_indexes("mayfly_jobs")
    return [each["name"] for each in columns], sorted(str(each["name"]) for each in indexes)


# --- old code, new tables ---------------------------------------------------------------------------------


def test_code_uses_tables_of_the_next_version_that_names_it(
    url: str, database: Database, expanded: PackageTables
) -> None:
    """Its jobs are enqueued and claimed as before; the new column has its default."""
    assert migrate(url, expanded) == (NEWEST, NEXT)

    database.read(require_version)
    job = insert_row(database)

    assert claim_ids(database) == [job]
    with engine_of(database, Unit.READ).begin() as connection:
        assert connection.exec_driver_sql("SELECT cost FROM mayfly_jobs").scalars().all() == [1]


def test_its_own_migrate_leaves_such_tables_alone(url: str, expanded: PackageTables) -> None:
    """An installation that goes back to the older code may run it as always."""
    migrate(url, expanded)

    assert migrate(url) == (NEXT, NEXT)
    assert planned_statements(url) == []


def test_code_refuses_tables_that_no_longer_name_it(url: str, database: Database, contracted: PackageTables) -> None:
    """By the check of every cycle, and by `mayfly migrate`."""
    migrate(url, contracted)

    refusal = f"version {number_after(2)}, newer than the {VERSION} of this Mayfly. Upgrade Mayfly on this host"
    with pytest.raises(SchemaMismatch, match=refusal):
        database.read(require_version)
    with pytest.raises(SchemaMismatch, match=refusal):
        migrate(url)


# --- contract ---------------------------------------------------------------------------------------------


def record_cycle(database: Database, age: timedelta) -> int:
    """A cycle of this code on the host web1."""
    at = database.clock.now() - age
    cycle_id = round(at.timestamp() * 1000)
    database.run(lambda connection: open_cycle(connection, cycle_id, "web1", at))
    return cycle_id


def test_a_contraction_is_refused_while_older_code_runs(
    url: str, database: Database, contracted: PackageTables
) -> None:
    """Before it changes anything; three minutes after the last cycle it is accepted."""
    record_cycle(database, timedelta(minutes=2))
    before = shape_of(url)

    with pytest.raises(
        OldCodeRuns, match=rf"{number_after(1)} or newer, and older code still runs on web1\. Upgrade"
    ):
        migrate(url, contracted)

    assert shape_of(url) == before
    run_sql(database, "DELETE FROM mayfly_cycles")
    record_cycle(database, timedelta(minutes=4))
    assert migrate(url, contracted) == (NEWEST, AFTER_NEXT)


def test_a_long_runner_of_older_code_is_waited_for(url: str, database: Database, contracted: PackageTables) -> None:
    """However old the cycle is that started it."""
    cycle_id = record_cycle(database, timedelta(hours=2))
    now = database.clock.now()
    row = {
        "worker_id": "w1", "cycle_id": cycle_id, "lane": "import", "host": "web1", "machine": "m", "pid": 1,
        "pid_started": 1, "planned_at": now, "lease_until": now + timedelta(minutes=1),
    }  # fmt: skip
    database.run(lambda connection: connection.execute(connection.dialect.insert("mayfly_runners", row), row))

    with pytest.raises(OldCodeRuns, match="web1"):
        migrate(url, contracted)

    run_sql(database, "UPDATE mayfly_runners SET finished_at = planned_at")
    assert migrate(url, contracted) == (NEWEST, AFTER_NEXT)


def test_an_expansion_is_never_refused(url: str, database: Database, expanded: PackageTables) -> None:
    """Older code goes on."""
    record_cycle(database, timedelta(seconds=1))

    assert migrate(url, expanded) == (NEWEST, NEXT)


# --- killed, delayed, at once ------------------------------------------------------------------------------


def in_process(work: Callable[..., object], *arguments: object) -> BaseProcess:
    child = FORK.Process(target=work, args=arguments)
    child.start()
    return child


def migrate_until(url: str, tables: PackageTables, words: str, after: bool) -> None:
    """Killed before or after the statement that contains these words."""

    def kill(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if words in statement:
            os.kill(os.getpid(), signal.SIGKILL)

    listen(Engine, "after_cursor_execute" if after else "before_cursor_execute", kill)
    migrate(url, tables)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_killed_migration_is_completed_by_the_next(
    url: str, expanded: PackageTables, contracted: PackageTables, after: bool
) -> None:
    """At each of its statements: those that are done are skipped."""
    shapes = [shape_of(url)]
    for tables, words in [(expanded, ("ADD COLUMN", "INDEX")), (contracted, ("INDEX", "DROP COLUMN"))]:
        for statement in (*words, "UPDATE mayfly_version"):
            child = in_process(migrate_until, url, tables, statement, after)
            child.join(DEADLINE_SECONDS)
            assert child.exitcode == -signal.SIGKILL
        migrate(url, tables)
        shapes.append(shape_of(url))

    (columns, indexes), (more_columns, more_indexes), contracted_shape = shapes
    assert more_columns == [*columns, "cost"]
    assert more_indexes == sorted([*indexes, "mayfly_jobs_cost"])
    assert contracted_shape == (columns, indexes)


@pytest.mark.parametrize("engine_name", ["postgres"], indirect=True)
def test_an_index_whose_build_was_killed_is_built_again(
    url: str, database: Database, expanded: PackageTables
) -> None:
    """PostgreSQL keeps it, invalid; the other databases have no half of an index."""
    insert_rows(database, 2, type="noop")
    with create_engine(url, isolation_level="AUTOCOMMIT", poolclass=NullPool).connect() as connection:
        connection.exec_driver_sql("CREATE INDEX mayfly_jobs_cost ON mayfly_jobs (type)")
        connection.exec_driver_sql(
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'mayfly_jobs_cost'::regclass"
        )

    migrate(url, expanded)

    with create_engine(url, poolclass=NullPool).connect() as connection:
        built = "SELECT pg_get_indexdef(indexrelid), indisvalid FROM pg_index WHERE indexrelid = '{}'::regclass"
        definition, is_valid = connection.exec_driver_sql(built.format("mayfly_jobs_cost")).one()
    assert definition.endswith("(cost, id)")
    assert is_valid


def test_hosts_migrate_at_once(url: str, expanded: PackageTables) -> None:
    """One after the other, also where an index is built outside of a transaction."""
    hosts = [in_process(migrate, url, expanded) for _ in range(3)]

    for host in hosts:
        host.join(DEADLINE_SECONDS)
        host.kill()

    assert [host.exitcode for host in hosts] == [0, 0, 0]


@pytest.mark.parametrize("engine_name", ["mariadb", "postgres"], indirect=True)
def test_jobs_go_on_while_a_migration_waits_for_a_lock(
    engine_name: str, url: str, database: Database, expanded: PackageTables
) -> None:
    """A long transaction of another program keeps the lock of the table: the migration does not let jobs wait for it.

    A reader of SQLite delays no migration. On Galera no migration waits: it ends the other transaction.
    """
    ends_others = is_galera(database)
    with create_engine(url, poolclass=NullPool).connect() as backup:
        backup.exec_driver_sql("SELECT COUNT(*) FROM mayfly_jobs")
        migration = in_process(migrate, url, expanded)
        if ends_others:
            migration.join(DEADLINE_SECONDS)
        else:
            wait_until(lambda: waits_for_lock(database, engine_name), "the migration waits")

        job = insert_row(database)
        claimed = claim_ids(database)

        assert migration.is_alive() != ends_others
        assert claimed == [job]
        if ends_others:
            with pytest.raises(OperationalError, match="1213"):
                backup.exec_driver_sql("SELECT COUNT(*) FROM mayfly_jobs")
    migration.join(DEADLINE_SECONDS)
    assert migration.exitcode == 0


@pytest.mark.parametrize("engine_name", ["mariadb", "postgres"], indirect=True)
def test_a_migration_that_gets_no_lock_says_what_to_do(
    url: str, database: Database, expanded: PackageTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After ten minutes; here after its first attempt. The next one continues.

    On Galera a migration waits only for a backup that has paused the node.
    """
    monkeypatch.setattr(migrations, "MAX_LOCK_WAIT_SECONDS", 0.0)
    uses_table = "FLUSH TABLES WITH READ LOCK" if is_galera(database) else "SELECT COUNT(*) FROM mayfly_jobs"
    with create_engine(url, poolclass=NullPool).connect() as backup:
        backup.exec_driver_sql(uses_table)

        with pytest.raises(TablesBusy, match=r"waited for a lock .* Run `mayfly migrate` again"):
            migrate(url, expanded)

    assert migrate(url, expanded) == (NEWEST, NEXT)


def is_galera(database: Database) -> bool:
    if database.dialect.name != "mysql":
        return False
    with engine_of(database, Unit.READ).begin() as connection:
        found = connection.exec_driver_sql("SHOW VARIABLES LIKE 'wsrep_on'").all()
    return [value for _name, value in found] == ["ON"]


def waits_for_lock(database: Database, engine_name: str) -> bool:
    waiting = {
        "postgres": "SELECT COUNT(*) FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'",
    }.get(
        engine_name,
        "SELECT COUNT(*) FROM information_schema.processlist WHERE state LIKE 'Waiting for table metadata lock'",
    )
    with engine_of(database, Unit.READ).begin() as connection:
        return bool(connection.exec_driver_sql(waiting).scalar())


# --- dry run ----------------------------------------------------------------------------------------------


def test_a_dry_run_shows_statements_locks_and_rows(
    engine_name: str, url: str, database: Database, expanded: PackageTables
) -> None:
    """And changes nothing."""
    insert_rows(database, 3, type="noop")
    before = shape_of(url)

    column, index, version = planned_statements(url, expanded)

    assert shape_of(url) == before
    assert (column.table, column.rows) == (index.table, index.rows) == ("mayfly_jobs", "3 rows")
    assert (version.table, version.rows) == ("mayfly_version", "1 row")
    assert column.sql.startswith("ALTER TABLE mayfly_jobs ADD COLUMN cost INTEGER ")
    kinds = {
        "sqlite": ("", "mayfly_jobs_cost", "blocks writes of the whole file", "blocks writes of the whole file"),
        "postgres": ("", "CONCURRENTLY", "for a moment", "blocks nothing"),
    }.get(
        engine_name, ("ALGORITHM=INSTANT", "ALGORITHM=INPLACE, LOCK=NONE", "for a moment", "for a moment at its end")
    )
    for found, part in zip((column.sql, index.sql, column.lock, index.lock), kinds, strict=True):
        assert part in found


def test_a_dry_run_shows_only_what_a_killed_migration_has_left(
    engine_name: str, url: str, expanded: PackageTables
) -> None:
    """MariaDB keeps the column; so does PostgreSQL, which commits before it builds an index."""
    in_process(migrate_until, url, expanded, "mayfly_jobs_cost", False).join(DEADLINE_SECONDS)

    planned = [each.sql for each in planned_statements(url, expanded)]

    assert any("ADD COLUMN" in each for each in planned) == (engine_name == "sqlite")


def test_a_dry_run_creates_no_file(tmp_path: Path) -> None:
    """Nor the tables of a new installation."""
    planned = planned_statements(f"sqlite:///{tmp_path}/mayfly.db")

    assert {"mayfly_jobs", "mayfly_version"} <= {each.table for each in planned}
    assert list(tmp_path.iterdir()) == []


def test_large_tables_are_shown_by_the_statistics_of_the_server(
    engine_name: str, url: str, database: Database, expanded: PackageTables
) -> None:
    """Counting all rows would take too long."""
    insert_rows(database, 10_001, type="noop")
    if engine_name == "postgres":
        with create_engine(url, isolation_level="AUTOCOMMIT", poolclass=NullPool).connect() as connection:
            connection.exec_driver_sql("ANALYZE mayfly_jobs")

    rows = planned_statements(url, expanded)[0].rows

    words = "more than 10,000 rows" if engine_name == "sqlite" else "rows by the server's statistics"
    assert words in str(rows)
