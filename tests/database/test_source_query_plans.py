"""However many done and future rows a table has, a count and a claim of its due rows read only what they need.

60,000 done and 60,000 future rows surround 100 due ones; mayfly_jobs has 20,000 ended jobs of earlier rows.
"""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import DateTime, Integer, String
from sqlalchemy.types import TypeEngine

from mayfly.clock import monotonic
from mayfly.db.database import Database
from mayfly.queue.source_table import SourceTable, Statement
from mayfly.queue.sources import Sources
from tests.database.filled_databases import ENGINES, SEQUENCES, FilledDatabases, analyse, filled_databases
from tests.database.query_plans import QueryPlan, query_plan
from tests.database.source_factories import Posts, make_posts, make_source, posts_table
from tests.databases import Databases

INDEX = "CREATE INDEX posts_due ON posts (status, run_at, id)"
OTHER_ROWS = 60_000
OTHER_ROWS_ON_SQLITE = 10_000  # EXPLAIN does not run the statement there
ROWS_PER_STATEMENT = 100_000  # Galera replicates each statement as a whole
DUE = 100
MANY_DUE = 20_000
OLD_JOBS = 20_000
STAGES = [(name, stage) for name in ENGINES for stage in ("without_statistics", "with_statistics")]


def fill(database: Database, engine_name: str, done: int, future: int) -> None:
    posts = Posts(database, posts_table(), make_source())
    now = database.clock.now().replace(tzinfo=None, microsecond=0)
    ranges = {
        "published": (0, done, now - timedelta(days=30)),
        "pending": (done, future, now + timedelta(days=1)),
    }
    for status, (first, count, run_at) in ranges.items():
        for start in range(first, first + count, ROWS_PER_STATEMENT):
            rows = SEQUENCES[engine_name].format(min(ROWS_PER_STATEMENT, first + count - start))
            values = f"{start} + n, '{status}', '{run_at}', 'A title'"
            run(database, f"INSERT INTO posts (id, status, run_at, title) SELECT {values} FROM {rows}")
    insert_old_jobs(database, engine_name, OLD_JOBS)
    run(database, INDEX)
    posts.insert(*range(done + future + 1, done + future + DUE + 1))


def insert_old_jobs(database: Database, engine_name: str, number: int) -> None:
    """Of rows that were processed. PostgreSQL would scan an empty table instead of its index."""
    dialect, finished_at = database.dialect, database.clock.now().replace(tzinfo=None, microsecond=0)
    run(
        database,
        "INSERT INTO mayfly_jobs (type, payload, lane, status, unique_key, finished_at)"
        f" SELECT 'noop', '{{}}', 'posts', 'done', {dialect.row_key('source:posts:', 'n')}, '{finished_at}'"
        f" FROM {SEQUENCES[engine_name].format(number)}",
    )


def run(database: Database, statement: str) -> None:
    database.run(lambda connection: connection.execute(statement))


def fill_all(database: Database, engine_name: str) -> None:
    others = OTHER_ROWS_ON_SQLITE if engine_name == "sqlite" else OTHER_ROWS
    fill(database, engine_name, others, others)


@pytest.fixture(scope="module")
def without_statistics(databases: Databases) -> Iterator[FilledDatabases]:
    with filled_databases(databases, fill_all) as opened:
        yield opened


@pytest.fixture(scope="module")
def with_statistics(databases: Databases) -> Iterator[FilledDatabases]:
    def fill_and_analyse(database: Database, engine_name: str) -> None:
        fill_all(database, engine_name)
        analyse(database, engine_name, "posts", "mayfly_jobs")

    with filled_databases(databases, fill_and_analyse) as opened:
        yield opened


@pytest.fixture(scope="module", params=STAGES, ids="-".join)
def filled(
    request: pytest.FixtureRequest, without_statistics: FilledDatabases, with_statistics: FilledDatabases
) -> Database:
    engine_name, stage = request.param
    return (with_statistics if stage == "with_statistics" else without_statistics)(engine_name)


def table_in(database: Database) -> SourceTable:
    return SourceTable(make_source(), database.dialect)


def plan_of(database: Database, statement: Statement) -> QueryPlan:
    return query_plan(database, statement.sql, statement.values)


def test_candidates_are_read_in_the_order_of_the_index(filled: Database) -> None:
    """Ten rows, and for each of them one probe for a live job: no sort, no scan."""
    [[statement]] = table_in(filled).candidates(filled.clock.now(), 1, 10)

    plan = plan_of(filled, statement)

    assert (set(plan.indexes), plan.scans, plan.sorts) == ({"posts_due", "mayfly_jobs_unique"}, (), False)
    assert plan.rows in (10, None)


def test_a_count_reads_only_due_rows(filled: Database) -> None:
    """And a probe for each."""
    plan = plan_of(filled, table_in(filled).count(filled.clock.now(), 1000))

    assert (set(plan.indexes), plan.scans) == ({"posts_due", "mayfly_jobs_unique"}, ())
    assert plan.rows in (DUE, None)


def test_a_count_stops_at_its_cap(filled: Database) -> None:
    """An idle check reads one row."""
    plan = plan_of(filled, table_in(filled).count(filled.clock.now(), 1))

    assert (set(plan.indexes), plan.scans) == ({"posts_due", "mayfly_jobs_unique"}, ())
    assert plan.rows in (1, None)


def test_the_oldest_due_row_is_one_probe(filled: Database) -> None:
    """The first of the range."""
    [statement] = table_in(filled).oldest(filled.clock.now())

    plan = plan_of(filled, statement)

    assert (set(plan.indexes), plan.scans, plan.sorts) == ({"posts_due", "mayfly_jobs_unique"}, (), False)
    assert plan.rows in (1, None)


@pytest.mark.parametrize("statistics_of", ["no rows", "pages"])
@pytest.mark.parametrize(
    ("kind", "time_type"), [("datetime", DateTime()), ("text", String(40)), ("epoch", Integer())]
)
def test_many_due_rows_are_not_sorted_without_statistics(
    database: Database, engine_name: str, kind: str, time_type: TypeEngine[Any], statistics_of: str
) -> None:
    """As after a large import: a claim and a count read only the first of them.

    An index that is created later gives PostgreSQL the number of rows.
    """
    posts = make_posts(database, {"run_at": time_type}, run_at_format=kind)
    insert_old_jobs(database, engine_name, OLD_JOBS // 10)
    if statistics_of == "no rows":
        run(database, INDEX)
    if database.dialect.name == "postgresql":
        run(database, "ALTER TABLE posts SET (autovacuum_enabled = false)")
    passed = "1" if kind == "epoch" else "'2026-01-01 00:00:00'"
    numbers = SEQUENCES[engine_name]
    run(
        database,
        f"INSERT INTO posts (id, status, run_at) SELECT n, 'pending', {passed} FROM {numbers.format(MANY_DUE)}",
    )
    if statistics_of == "pages":
        run(database, INDEX)
    now = database.clock.now()
    [[claim]] = posts.statements.candidates(now, 1, 10)

    plans = [plan_of(database, each) for each in (claim, posts.statements.count(now, 10))]

    assert [(plan.scans, plan.sorts) for plan in plans] == [((), False)] * 2
    assert all(plan.rows in (10, None) for plan in plans)


def test_rows_are_locked_by_their_keys(filled: Database) -> None:
    """Ten rows of a claim, with the conditions that make them due: no index of these, even without statistics.

    It would read all due rows, and MariaDB locks all rows that it reads.
    """
    table, sources = table_in(filled), Sources([make_source()], filled.dialect)
    columns = filled.read(lambda connection: sources.columns(connection, table))
    newest = filled.read(lambda connection: connection.execute("SELECT MAX(id) FROM posts").scalar())

    plan = plan_of(filled, table.lock(columns, ["title"], range(newest - 9, newest + 1), filled.clock.now()))

    assert (plan.scans, "posts_due" in plan.indexes) == ((), False)
    if filled.dialect.name == "mysql":
        assert (plan.indexes, plan.rows) == (("PRIMARY",), 10)


def test_rows_are_written_by_their_keys(filled: Database) -> None:
    """Ten rows of a batch, guarded by the status that many other rows may have."""
    newest = filled.read(lambda connection: connection.execute("SELECT MAX(id) FROM posts").scalar())
    guard = {"status": "pending", "worker_id": "worker-1"}

    plan = plan_of(filled, table_in(filled).find(range(newest - 9, newest + 1), guard))

    assert (plan.scans, "posts_due" in plan.indexes) == ((), False)


# --- a large table ----------------------------------------------------------------------------------------

CLAIMS = 10
SIZE = DUE // CLAIMS


@pytest.mark.slow
@pytest.mark.parametrize("engine_name", ENGINES)
def test_a_claim_from_a_large_table_takes_at_most_twice_as_long(databases: Databases, engine_name: str) -> None:
    """1,000,000 done and 100,000 future rows around 100 due ones, against 100 due rows alone."""
    with (
        filled_databases(databases, lambda database, name: fill(database, name, 1_000_000, 100_000)) as large,
        filled_databases(databases, lambda database, name: fill(database, name, 0, 0)) as small,
    ):
        opened = {"large": large(engine_name), "small": small(engine_name)}
        posts = {name: Posts(each, posts_table(), make_source()) for name, each in opened.items()}
        counts = {name: seconds_of(each.count, repeated=CLAIMS) for name, each in posts.items()}
        claims: dict[str, list[float]] = {"large": [], "small": []}
        for _ in range(CLAIMS):  # alternating: the load of the machine affects both
            for name, each in posts.items():
                claims[name].append(seconds_of(lambda each=each: each.claim(SIZE)))  # type: ignore[misc]

    fastest = {name: min(seconds) for name, seconds in claims.items()}
    for what, seconds in {f"claim of {SIZE} rows": fastest, "count": counts}.items():
        print(f"{engine_name}, {what}: {seconds['large'] * 1000:.2f} ms, small {seconds['small'] * 1000:.2f} ms")
    assert fastest["large"] <= 2 * fastest["small"]
    assert counts["large"] <= 2 * counts["small"]


def seconds_of(work: Callable[[], object], repeated: int = 1) -> float:
    """The fastest run."""
    seconds = []
    for _ in range(repeated):
        started = monotonic()
        work()
        seconds.append(monotonic() - started)
    return min(seconds)
