"""However long the history is, the pages of figures read only what they show.

10,000 cycles and totals, 10,000 runners, a week of history, 10,000 attempts of which ten failed.
"""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from sqlalchemy import bindparam, text

from mayfly.admin.charts import COUNTED, DEAD_BY_TYPE, DONE_BY_LANE, PERIODS
from mayfly.admin.filters import newest_failures
from mayfly.admin.fleet import SINCE, RunnerView, ended_source, list_ended
from mayfly.admin.jobs import view_statement
from mayfly.clock import milliseconds
from mayfly.db.database import Database
from mayfly.queue.prune import SPANS
from mayfly.schema.column_types import UtcDateTime
from tests.database.filled_databases import ENGINES, SEQUENCES, FilledDatabases, analyse, filled_databases
from tests.database.query_plans import query_plan
from tests.databases import Databases
from tests.sqlalchemy_engines import run

MINUTES = 10_000


@pytest.fixture(scope="module")
def filled_by_engine(databases: Databases) -> Iterator[FilledDatabases]:
    with filled_databases(databases, fill) as opened:
        yield opened


@pytest.fixture(scope="module", params=ENGINES)
def filled(request: pytest.FixtureRequest, filled_by_engine: FilledDatabases) -> Database:
    return filled_by_engine(request.param)


@pytest.mark.parametrize("name", sorted(PERIODS))
def test_a_chart_reads_only_its_own_points(filled: Database, name: str) -> None:
    """Of its own span, and no totals that are added up."""
    period = PERIODS[name]
    values = {"span": period.span, "since": period.begins(filled.clock.now())[0]}

    plan = query_plan(filled, COUNTED, values)

    assert (plan.scans, plan.sorts) == ((), False)
    assert plan.rows is None or plan.rows <= period.points + 2


def test_the_last_hour_reads_no_older_cycle(filled: Database) -> None:
    """Nor older totals: their ids are times."""
    now = filled.clock.now()
    values = {"since": milliseconds(now - timedelta(hours=1))}

    for statement in (SINCE, DONE_BY_LANE, DEAD_BY_TYPE):
        plan = query_plan(filled, statement, values)

        assert plan.scans == ()
        assert plan.rows is None or plan.rows <= 61


def test_a_page_of_ended_runners_reads_only_its_rows(filled: Database) -> None:
    """The first page, and one in the middle: older rows are not read for a sort."""
    page = filled.read(lambda connection: list_ended(connection, 50))
    last = page[-1]
    values = {"size": 50, "at": last.finished_at, "lane": last.lane, "after": last.worker_id}

    first = query_plan(filled, view_statement(RunnerView, ended_source(is_first=True)), {"size": 50})
    second = query_plan(filled, view_statement(RunnerView, ended_source(is_first=False)), values)

    # MariaDB reads the index from its end and stops, and calls that a scan.
    reads = ("mayfly_runners_live",) if filled.dialect.name != "mysql" else ()
    for plan in (first, second):
        assert plan.indexes[: len(reads)] == reads
        assert plan.rows is None or plan.rows <= 60


def test_a_search_for_failures_reads_no_successes(filled: Database) -> None:
    """However many successful attempts a lane keeps."""
    statement = f"SELECT * FROM {newest_failures('job_id, fingerprint, finished_at', 100)} AS a"

    plan = query_plan(filled, statement, {"since": filled.clock.now() - timedelta(days=30)})

    assert (plan.scans, set(plan.indexes)) == ((), {"mayfly_attempts_age"})
    assert plan.rows is None or plan.rows <= 12


def fill(database: Database, engine_name: str) -> None:
    """One row of each per minute, back to a week ago."""
    now = database.clock.now()
    last, numbers = milliseconds(now), SEQUENCES[engine_name].format(MINUTES)
    minute = f"{last} - n * CAST(60000 AS DECIMAL(9))"
    began = {
        "sqlite": "strftime('%Y-%m-%d %H:%M:%f000', :now, '-' || n || ' minutes')",
        "mariadb": ":now - INTERVAL n MINUTE",
        "postgres": "CAST(:now AS timestamptz) - n * interval '1 minute'",
    }[engine_name]
    runner = "worker_id, cycle_id, lane, host, machine, pid, pid_started, planned_at, lease_until, finished_at"
    statements = [
        f"INSERT INTO mayfly_cycles (id, host, started_at) SELECT {minute}, 'host', {began} FROM {numbers}",
        "INSERT INTO mayfly_totals (cycle_id, lane, type, outcome, worker_id, jobs, durations, waits)"
        f" SELECT {minute}, 'default', 'noop', 'done', '', 1, '{{}}', '{{}}' FROM {numbers}",
        "INSERT INTO mayfly_attempts (job_id, attempt, worker_id, outcome, error, fingerprint, finished_at)"
        f" SELECT n, 1, 'w', CASE WHEN n % 1000 = 0 THEN 'failed' ELSE 'done' END, '', '', {began} FROM {numbers}",
        f"INSERT INTO mayfly_runners ({runner}) SELECT CAST(n AS CHAR(9)), {minute}, 'default', 'h', 'm', 1, 1,"
        f" {began}, {began}, {began} FROM {numbers}",
        *(
            "INSERT INTO mayfly_history (span, begins, outcome, jobs, durations, waits)"
            f" SELECT {span}, {last - last % (span * 1000)} - n * CAST({span * 1000} AS DECIMAL(9)), 'done', 1,"
            f" '{{}}', '{{}}' FROM {SEQUENCES[engine_name].format(1000)}"
            for span in SPANS
        ),
    ]
    given = bindparam("now", now, UtcDateTime())
    for each in statements:
        statement = text(each.replace('":', '"\\:'))
        bound = statement.bindparams(given) if ":now" in each else statement
        run(database, lambda connection, bound=bound: connection.execute(bound))  # type: ignore[misc]
    filled = ("cycles", "totals", "attempts", "runners", "history")
    analyse(database, engine_name, *(f"mayfly_{each}" for each in filled))
