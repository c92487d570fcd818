"""`mayfly sources`, its check and its draft against live tables of every database."""

from typing import Any

import pytest
from sqlalchemy import DateTime, Enum, Integer, LargeBinary, Text, Uuid, insert, text
from sqlalchemy.dialects import mysql, postgresql

from mayfly.admin.jobs import CappedCount
from mayfly.admin.live_table import ColumnKind, read_table
from mayfly.admin.source_check import SourceCheck, check_source
from mayfly.admin.source_draft import suggest_source
from mayfly.admin.sources import find_problems, list_sources, read_row_state
from mayfly.admin.why import RowState
from mayfly.db.database import Database
from mayfly.errors import SourceUnusable, UnknownName
from mayfly.job import SourceRow
from mayfly.queue.source_table import SourceTable
from mayfly.queue.sources import count_rows
from mayfly.schema.metadata import jobs
from tests.database.application_tables import (
    MINUTE,
    POSTS,
    create_posts,
    insert_companion,
    make_source,
    make_sources,
    posts_table,
    settings_with,
)
from tests.database.factories import mysql_only, rows_of, run_sql
from tests.sqlalchemy_engines import run


def listed(database: Database, *sources: Any) -> list[Any]:
    settings, now = settings_with(*sources), database.clock.now()
    return database.read(lambda connection: list_sources(connection, settings, now))


def check(database: Database, **changes: Any) -> SourceCheck:
    return check_source(database, make_source(**changes))


def problem(database: Database, **changes: Any) -> str:
    [found] = check(database, **changes).problems
    return found


# --- the list ---------------------------------------------------------------------------------------------


def test_a_source_is_listed_with_rows_and_jobs(database: Database) -> None:
    """Due rows of the table; running and dead jobs of its rows, not of other sources in the same lane."""
    now = database.clock.now().replace(tzinfo=None)
    create_posts(database, [{"id": 1}, {"id": 2}, {"id": 3, "run_at": now + MINUTE}, {"id": 4, "status": "failed"}])
    insert_companion(database, 9, status="processing", worker_id="w")
    insert_companion(database, 4, status="dead")
    insert_companion(database, 4, "other_posts", lane=POSTS, status="dead")

    [view] = listed(database, make_source())

    assert (view.source, view.table, view.lane, view.type) == (POSTS, POSTS, POSTS, "publish")
    assert (view.pending, view.running, view.dead) == (CappedCount(2), CappedCount(1), CappedCount(1))
    assert 55 < view.wait_seconds < 600
    assert view.problem is None


def test_a_broken_source_shows_its_problem(database: Database) -> None:
    """The others have their figures."""
    create_posts(database, [{"id": 1}])

    broken, other = listed(database, make_source("broken", table="missing"), make_source("other"))

    assert "the database has no table missing" in broken.problem
    assert (other.pending, other.problem) == (CappedCount(1), None)


def test_a_missing_column_is_named_as_in_the_settings(database: Database) -> None:
    """Statements have an alias for the table, which no user knows."""
    create_posts(database, [{"id": 1}])

    table, now = SourceTable(make_source(run_at="missing_at"), database.dialect), database.clock.now()

    with pytest.raises(SourceUnusable, match="missing_at") as raised:
        database.read(lambda connection: count_rows(connection, table, now, 1))

    assert "source_row" not in str(raised.value)


def test_a_condition_with_an_error_is_a_problem(database: Database) -> None:
    """Only the database can know; the queries that follow still work."""
    create_posts(database, [{"id": 1}])
    settings = settings_with(make_source("broken", where="no_such_column = 1"), make_source("other"))

    found = database.read(lambda connection: find_problems(connection, settings, database.clock.now()))

    assert list(found) == ["broken"]
    assert "no_such_column" in found["broken"]


def test_the_state_of_a_row(database: Database) -> None:
    """For a job that waits: whether its row is still processed."""
    create_posts(database, [{"id": 1, "status": "processing"}, {"id": 2, "status": "on hold"}])
    sources = make_sources(database)

    def state(key: str, source: str = POSTS) -> RowState | None:
        return database.read(lambda connection: read_row_state(connection, sources, SourceRow(source, key)))

    assert state("1") == RowState(True, "processing", True)
    assert state("2") == RowState(True, "on hold", False)
    assert state("3") == RowState(False)
    assert state("1", "removed_source") is None


# --- the check --------------------------------------------------------------------------------------------


def test_a_source_that_fits_is_ok(database: Database) -> None:
    """With an index on status and time there is nothing to report."""
    create_posts(database, [{"id": 1}])
    run_sql(database, "CREATE INDEX post_schedule_due ON post_schedule (status, run_at, id)")

    found = check(database)

    assert (found.problems, found.warnings, found.suggested_index) == ((), (), None)
    assert [(each.statement, each.rows_found) for each in found.plans] == [("count", 1), ("claim", 1)]
    assert all(each.lines for each in found.plans)


def test_missing_tables_and_columns_are_problems(database: Database) -> None:
    """With a suggestion."""
    create_posts(database)

    assert problem(database, table="post_schedules").endswith("Did you mean 'post_schedule'?")
    assert problem(database, error="last_eror").endswith("Did you mean 'last_error'?")


def test_a_table_of_another_database_is_a_problem(database: Database) -> None:
    """That this connection does not reach: in the check, in the list, and before a claim."""
    create_posts(database)
    elsewhere = make_source(table=f"elsewhere.{POSTS}")

    [view] = listed(database, elsewhere)

    assert problem(database, table=elsewhere.table) == f"The database has no table elsewhere.{POSTS}."
    assert view.problem.startswith(f"The source {POSTS} cannot be used: ")
    assert "elsewhere" in view.problem


def test_a_view_is_a_problem(database: Database) -> None:
    """Its rows cannot be locked."""
    create_posts(database)
    run_sql(database, "CREATE VIEW due_posts AS SELECT * FROM post_schedule")
    try:
        found = problem(database, table="due_posts")
    finally:
        run_sql(database, "DROP VIEW due_posts")

    assert found.startswith("due_posts is a view")


def test_a_table_without_a_primary_key_is_a_problem(database: Database) -> None:
    """A row could not be found again."""
    run_sql(database, "CREATE TABLE post_schedule (id INTEGER, status VARCHAR(20))")
    columns = dict.fromkeys(("run_at", "worker_id", "locked_at", "attempts", "error", "finished_at", "payload"))

    assert problem(database, **columns) == "The table post_schedule has no primary key: add one."


def test_values_of_an_enum_are_known(database: Database, engine_name: str) -> None:
    """ENUM of MySQL, enum types of PostgreSQL; SQLite has none."""
    if engine_name == "sqlite":
        pytest.skip("SQLite has no ENUM")
    create_posts(database, status=Enum("pending", "processing", "done", "failed", "cancelled", name="post_status"))

    found, fitting = problem(database), check(database, done="done")

    assert "'published' of `done` is not in the ENUM" in found
    assert fitting.problems == ()


def test_lengths_are_known_where_they_are_enforced(database: Database, engine_name: str) -> None:
    """SQLite stores any text in any column."""
    create_posts(database)
    long, short = "processing-by-the-new-system", check(database, worker_id="last_error", error="worker_id")

    problems = check(database, processing=long).problems

    assert short.problems == ()
    assert bool(problems) is (engine_name != "sqlite")


def test_the_kinds_of_columns(database: Database, engine_name: str) -> None:
    """As far as the database has different types."""
    zoned = mysql.TIMESTAMP(fsp=3).with_variant(postgresql.TIMESTAMP(timezone=True), "postgresql")
    create_posts(
        database,
        zoned=zoned.with_variant(DateTime(), "sqlite"),
        blob=LargeBinary,
        body=Text,
        key_of=Uuid,
        one=Integer,
    )

    columns = read_table(database, POSTS).columns

    kinds = {name: columns[name].kind for name in ("zoned", "blob", "body", "one", "run_at")}
    is_sqlite = engine_name == "sqlite"
    assert kinds == {
        "zoned": ColumnKind.DATETIME if is_sqlite else ColumnKind.ZONED,
        "blob": ColumnKind.BINARY,
        "body": ColumnKind.TEXT,
        "one": ColumnKind.SMALL_INTEGER,
        "run_at": ColumnKind.DATETIME,
    }
    assert columns["key_of"].kind in (ColumnKind.UUID, ColumnKind.TEXT)


def test_a_zone_of_its_own_is_known(database: Database, engine_name: str) -> None:
    """PostgreSQL's timestamptz and MySQL's TIMESTAMP."""
    if engine_name == "sqlite":
        pytest.skip("SQLite stores no zones")
    zoned = mysql.TIMESTAMP(fsp=3).with_variant(postgresql.TIMESTAMP(timezone=True), "postgresql")
    create_posts(database, run_at=zoned)

    assert "remove `timezone`" in problem(database, timezone="Europe/Berlin")
    assert check(database).problems == ()


@mysql_only
def test_columns_with_on_update_are_warnings(database: Database) -> None:
    """Every write of Mayfly changes them."""
    create_posts(database)
    change = "TIMESTAMP NULL DEFAULT NULL ON UPDATE CURRENT_TIMESTAMP"
    run_sql(database, f"ALTER TABLE post_schedule ADD COLUMN updated_at {change}")

    assert check(database).warnings == (
        "The column updated_at has ON UPDATE: every claim and every outcome of a job sets it.",
    )


@mysql_only
def test_an_engine_without_transactions_is_a_problem(database: Database) -> None:
    """Also in another database of the same server, where InnoDB would be allowed."""
    create_posts(database)
    run_sql(database, "ALTER TABLE post_schedule ENGINE=MyISAM")

    assert "ENGINE=InnoDB" in problem(database)


@mysql_only
def test_uuids_of_mariadb_are_keys(database: Database) -> None:
    """SQLAlchemy does not know the type."""
    run_sql(database, "CREATE TABLE post_schedule (id UUID PRIMARY KEY, status VARCHAR(20))")

    assert read_table(database, POSTS).columns["id"].kind is ColumnKind.UUID


def test_a_due_row_that_cannot_be_claimed_is_a_problem(database: Database) -> None:
    """A CHECK constraint, which only a claim shows; the claim is rolled back."""
    create_posts(database, [{"id": 1}])
    if database.dialect.name == "sqlite":
        run_sql(database, "ALTER TABLE post_schedule ADD COLUMN checked INTEGER CHECK (status <> 'processing')")
    else:
        run_sql(database, "ALTER TABLE post_schedule ADD CONSTRAINT no_work CHECK (status <> 'processing')")

    found = problem(database)
    fitting = check(database, processing="claimed")

    assert found.startswith("A due row cannot be claimed: ")
    assert found.endswith("Correct the settings, or the constraints and triggers of post_schedule.")
    assert fitting.problems == ()
    assert [row.status for row in rows_of(database, posts_table())] == ["pending"]
    assert rows_of(database, jobs) == []


def test_a_table_in_a_schema(database: Database, engine_name: str) -> None:
    """PostgreSQL's schemas, MySQL's databases, SQLite's `main`."""
    create_posts(database, [{"id": 1}])
    schema = {"sqlite": "main", "postgres": "public"}.get(engine_name) or run(
        database, lambda connection: str(connection.execute(text("SELECT DATABASE()")).scalar())
    )

    found = check(database, table=f"{schema}.{POSTS}")

    assert found.problems == ()
    assert found.plans[0].rows_found == 1
    assert found.suggested_index is not None


def test_a_condition_that_the_database_refuses_is_a_problem(database: Database) -> None:
    """With the database's own words."""
    create_posts(database)

    assert "no_such_column" in problem(database, where="no_such_column = 1")


def test_a_scan_is_reported_with_its_figure(database: Database, rival: Database) -> None:
    """Many rows around few due ones: the warning names both numbers, and the index ends it."""
    table = create_posts(database, [{"id": 1}])
    done = [{"id": number, "status": "published"} for number in range(2, 2202)]
    run(database, lambda connection: connection.execute(insert(table), done))

    found = check(database)
    assert found.suggested_index is not None
    run_sql(database, found.suggested_index)
    if database.dialect.name != "sqlite":
        run_sql(database, f"ANALYZE {'TABLE ' * (database.dialect.name == 'mysql')}post_schedule")
    indexed = check(rival)  # sqlite3 caches the statements of a connection, and EXPLAIN its plan

    assert [each for each in found.warnings if "to find 1 due row: create the index below" in each]
    assert "2,201 rows" in found.warnings[0]
    assert (indexed.warnings, indexed.suggested_index) == ((), None)


def test_priorities_are_explained_one_by_one(database: Database) -> None:
    """A claim has one query per priority."""
    create_posts(database, [{"id": 1, "priority": 5}, {"id": 2, "priority": 0}], priority=Integer)

    found = check(database, priority="priority", priorities={"5": 0}, payload=["channel"])

    assert found.problems == ()
    assert [each.rows_found for each in found.plans] == [2, 2]


# --- the draft --------------------------------------------------------------------------------------------


def test_a_draft_reads_the_values_of_the_table(database: Database) -> None:
    """Of its first rows."""
    create_posts(database, [{"id": 1, "status": "queued"}, {"id": 2, "status": "published"}])

    text = suggest_source(database, POSTS)

    assert 'pending = "queued"\n' in text
    assert 'done = "published"\n' in text
    assert 'attempts = "retry_count"\n' in text


def test_a_draft_of_an_unknown_table_has_a_suggestion(database: Database) -> None:
    """The sentence names a table that exists."""
    create_posts(database)

    with pytest.raises(UnknownName, match="Did you mean 'post_schedule'"):
        suggest_source(database, "post_scedule")
