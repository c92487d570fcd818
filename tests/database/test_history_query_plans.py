"""However long the past is, the pages of figures read no more of it than they show.

10,000 cycles and totals, 10,000 runners, a week of history.
"""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from sqlalchemy import bindparam, text

from mayfly.admin.charts import COUNTED, DEAD_BY_TYPE, DONE_BY_LANE, PERIODS
from mayfly.admin.fleet import SINCE, ended_statement, list_ended
from mayfly.clock import milliseconds
from mayfly.db.database import Database
from mayfly.queue.prune import SPANS
from mayfly.schema.column_types import UtcDateTime
from tests.database.filled_databases import ENGINES, SEQUENCES, Crowds, analyse, crowds_of
from tests.database.query_plans import explained
from tests.databases import Databases
from tests.sqlalchemy_engines import run

PAST = 10_000


@pytest.fixture(scope="module")
def pasts(databases: Databases) -> Iterator[Crowds]:
    with crowds_of(databases, fill) as opened:
        yield opened


@pytest.fixture(scope="module", params=ENGINES)
def aged(request: pytest.FixtureRequest, pasts: Crowds) -> Database:
    return pasts(request.param)


@pytest.mark.parametrize("name", sorted(PERIODS))
def test_a_chart_reads_its_own_points(aged: Database, name: str) -> None:
    """Of its own span, and nothing of the totals that are added up."""
    period = PERIODS[name]
    values = {"span": period.span, "since": period.begins(aged.clock.now())[0]}

    look = explained(aged, COUNTED, values)

    assert (look.scans, look.sorts) == ((), False)
    assert look.rows is None or look.rows <= period.points + 2


def test_the_last_hour_reads_no_older_cycle(aged: Database) -> None:
    """Nor older totals: by their numbers, which are times."""
    now = aged.clock.now()
    values = {"since": milliseconds(now - timedelta(hours=1))}

    for statement in (SINCE, DONE_BY_LANE, DEAD_BY_TYPE):
        look = explained(aged, statement, values)

        assert look.scans == ()
        assert look.rows is None or look.rows <= 61


def test_a_page_of_ended_runners_reads_itself_alone(aged: Database) -> None:
    """The first page, and one in the middle: not all that are older, to sort them."""
    page = aged.read(lambda connection: list_ended(connection, 50))
    last = page[-1]
    values = {"size": 50, "at": last.finished_at, "lane": last.lane, "after": last.worker_id}

    first = explained(aged, ended_statement(is_first=True), {"size": 50})
    second = explained(aged, ended_statement(is_first=False), values)

    # MariaDB goes through the index from its end, and stops: to it that is a scan.
    reads = ("mayfly_runners_live",) if aged.dialect.name != "mysql" else ()
    for look in (first, second):
        assert look.indexes[: len(reads)] == reads
        assert look.rows is None or look.rows <= 60


def fill(database: Database, engine_name: str) -> None:
    """One a minute of each, back to a week ago."""
    now = database.clock.now()
    last, numbers = milliseconds(now), SEQUENCES[engine_name].format(PAST)
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
    analyse(database, engine_name, "mayfly_cycles", "mayfly_totals", "mayfly_runners", "mayfly_history")
