"""However many delayed and finished jobs there are, the hot statements read only the rows they need.

60,000 delayed and 60,000 done jobs surround 100 due ones.
"""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from sqlalchemy import bindparam, text

from mayfly.admin import jobs, lanes
from mayfly.admin.actions import CANCEL
from mayfly.admin.filters import JobFilter, Range, past, ranges
from mayfly.admin.health import STILL_DEAD
from mayfly.admin.job import Relative, before_statement, relatives_source
from mayfly.admin.jobs import ALL_STATUSES, aggregates_statement, jobs_with, view_statement
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.db.dialects import Values
from mayfly.queue.claim import due_statement, first_statement
from mayfly.queue.count import (
    FIRST_TIME,
    GROUPS_OF_LANE,
    NEXT_LANE,
    YOUNGEST_LIVE_JOB,
    JobGroup,
    count_statement,
    due_jobs_statement,
    find_lanes,
    interrupted_statement,
    job_groups,
)
from mayfly.queue.insert import finished_statement, holder_statement
from mayfly.queue.prune import finished_jobs
from mayfly.queue.rescue import processing_jobs
from mayfly.schema.column_types import UtcDateTime
from mayfly.schema.tables import NORMAL, PRIORITIES, STATUSES
from tests.database.filled_databases import ENGINES, SEQUENCES, FilledDatabases, analyse, filled_databases
from tests.database.query_plans import QueryPlan, query_plan, raw_plan
from tests.databases import Databases
from tests.factories import insert_rows
from tests.sqlalchemy_engines import run

OTHER_JOBS = 60_000  # with half as many, PostgreSQL estimates that a sort is cheaper
OTHER_JOBS_ON_SQLITE = 10_000  # EXPLAIN does not run the statement there, and its plan does not depend on the number
DUE = 100

# Right after a bulk insert a database has no statistics of the table.
STAGES = [(name, stage) for name in ENGINES for stage in ("without_statistics", "with_statistics")]


@pytest.fixture(scope="module")
def without_statistics(databases: Databases) -> Iterator[FilledDatabases]:
    with filled_databases(databases, fill_all) as opened:
        yield opened


@pytest.fixture(scope="module")
def with_statistics(databases: Databases) -> Iterator[FilledDatabases]:
    def fill_and_analyse(database: Database, engine_name: str) -> None:
        fill_all(database, engine_name)
        analyse(database, engine_name, "mayfly_jobs")

    with filled_databases(databases, fill_and_analyse) as opened:
        yield opened


@pytest.fixture(scope="module", params=STAGES, ids="-".join)
def filled(
    request: pytest.FixtureRequest, without_statistics: FilledDatabases, with_statistics: FilledDatabases
) -> Database:
    """Each stage has its own database: in a random order statistics may come first."""
    engine_name, stage = request.param
    return (with_statistics if stage == "with_statistics" else without_statistics)(engine_name)


def test_a_claim_reads_only_the_rows_it_takes(filled: Database) -> None:
    """A range of the claim index: no sort, and no row beyond the ten."""
    plan = query_plan(filled, due_statement(filled.dialect), next_ten(filled.clock.now()))

    assert plan == QueryPlan(("mayfly_jobs_claim",), scans=(), sorts=False, rows=rows_read(filled, 10))


def test_a_claim_of_a_drained_priority_reads_nothing(filled: Database) -> None:
    """Delayed jobs are not read."""
    long_ago = filled.clock.now() - timedelta(hours=2)

    plan = query_plan(filled, due_statement(filled.dialect), next_ten(long_ago))

    assert plan == QueryPlan(("mayfly_jobs_claim",), scans=(), sorts=False, rows=rows_read(filled, 0))


def test_a_claim_starts_at_the_first_due_job(database: Database) -> None:
    """The range has both bounds, also in a backlog."""
    begins = {"sqlite": "run_at>?", "mysql": '"access_type": "range"', "postgresql": "run_at >="}
    now = database.clock.now()
    insert_rows(database, 3000, run_at=now - timedelta(minutes=1))
    statement = due_statement(database.dialect)
    values = {**next_ten(now), "since": now - timedelta(minutes=1)}

    plan = database.run(lambda connection: raw_plan(connection, statement, values))

    assert begins[database.dialect.name] in json.dumps(plan)


def test_the_query_for_due_jobs_reads_two_rows_of_each_priority(filled: Database) -> None:
    """Along the claim index, from the cursor if there is one."""
    statement, since = due_jobs_statement(filled.dialect), {f"since_{each}": FIRST_TIME for each in PRIORITIES}

    plan = query_plan(filled, statement, {"lane": "default", "now": filled.clock.now(), **since})

    assert (set(plan.indexes), plan.scans, plan.sorts) == ({"mayfly_jobs_claim"}, (), False)


def test_a_count_reads_only_due_jobs(filled: Database) -> None:
    """Of two lanes, in one statement."""
    plan = query_plan(
        filled,
        count_statement([(NORMAL, 1000), (NORMAL, 1000)]),
        {"lane_0": "default", "lane_1": "mail", "now": filled.clock.now()},
    )

    assert plan == QueryPlan(("mayfly_jobs_claim",) * 2, scans=(), sorts=False, rows=rows_read(filled, DUE + 1))


def test_a_count_stops_at_its_cap(filled: Database) -> None:
    """One row beyond the cap shows that there are more."""
    plan = query_plan(filled, count_statement([(NORMAL, 20)]), {"lane_0": "default", "now": filled.clock.now()})

    assert plan == QueryPlan(("mayfly_jobs_claim",), scans=(), sorts=False, rows=rows_read(filled, 21))


def test_the_newest_dead_jobs_are_read_in_the_order_of_the_index(filled: Database) -> None:
    """No more than asked for. With the status of the many jobs of this database."""
    statement = STILL_DEAD.replace("'dead'", "'done'")
    plan = query_plan(filled, statement, {"lane": "default", "since": filled.clock.now(), "size": 10})

    assert plan == QueryPlan(("mayfly_jobs_claim",) * 3, scans=(), sorts=False, rows=rows_read(filled, 10))


@pytest.mark.parametrize("after", ["", "default", "mail"])
def test_the_next_lane_is_found_by_one_probe(filled: Database, after: str) -> None:
    """However many rows are in between. MariaDB answers from the index during optimisation."""
    plan = query_plan(filled, NEXT_LANE, {"lane": after})

    assert (plan.scans, plan.sorts) == ((), False)
    assert (plan.rows or 0) <= 1


@pytest.mark.parametrize("lane", ["default", "mail", "none"])
def test_the_groups_of_a_lane_are_found_by_one_probe_each(filled: Database, lane: str) -> None:
    """However many jobs a group has."""
    plan = query_plan(filled, GROUPS_OF_LANE, {"lane": lane})

    assert (set(plan.indexes), plan.scans, plan.sorts) == ({"mayfly_jobs_claim"}, (), False)
    assert plan.rows in (None, *range(len(STATUSES) * len(PRIORITIES) + 1))


def test_all_groups_are_found_without_reading_the_index(filled: Database) -> None:
    """Also without statistics, when MariaDB would read all of it: then it is asked for one lane after the other."""
    now = filled.clock.now()

    groups, entries = filled.run(with_entries_read)

    assert {(each.lane, each.status) for each in groups} == {
        ("default", "done"), ("default", "pending"), ("default", "processing"), ("mail", "pending")
    }  # fmt: skip
    assert [each.lane for each in groups if each.is_due(now)] == ["default", "mail"]
    assert entries < 100


def with_entries_read(connection: Connection) -> tuple[list[JobGroup], int]:
    """The groups, and how many index entries were read for them; 0 where the database does not count them."""

    def entries() -> int:
        if connection.dialect.name != "mysql":
            return 0
        counters = connection.execute("SHOW SESSION STATUS LIKE 'Handler_read%'").all()
        return sum(int(value) for name, value in counters if name != "Handler_read_rnd_next")

    before = entries()
    return job_groups(connection), entries() - before


def test_lanes_with_rows_are_found(filled: Database) -> None:
    """In order."""
    assert filled.read(lambda connection: find_lanes(connection)) == ["default", "mail"]


def test_processing_jobs_are_found_without_a_scan(filled: Database) -> None:
    """Rescue reads claimed jobs only."""
    plan = query_plan(filled, processing_jobs(filled.dialect, ["lane"]), {"lane": "default"})

    assert plan == QueryPlan(("mayfly_jobs_claim",), scans=(), sorts=False, rows=rows_read(filled, DUE))


@pytest.mark.parametrize("engine_name", ["mariadb"], indirect=True)
def test_processing_jobs_are_found_by_the_index_after_a_drain(database: Database, rival: Database) -> None:
    """Entries of ended jobs that are not purged yet made MariaDB read the whole table for each runner that ended.

    Nothing is purged while a transaction is open that began before.
    """
    ids = insert_rows(database, 3000, lane="mail")
    rival.read(lambda connection: connection.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"))

    def drain(reader: Connection) -> QueryPlan:
        reader.execute("SELECT COUNT(*) FROM mayfly_locks").all()
        for status in ("processing", "done"):
            change = f"UPDATE mayfly_jobs SET status = '{status}' WHERE {{ids of id}}"
            database.run(lambda connection: connection.execute(change, {}, ids))  # noqa: B023 - called at once
        statement = processing_jobs(database.dialect, ["lane_0", "lane_1"])
        return query_plan(database, statement, {"lane_0": "mail", "lane_1": "other"})

    plan = rival.run(drain)

    assert (plan.indexes, plan.scans, plan.rows) == (("mayfly_jobs_claim",), (), 0)


def test_the_holder_of_a_key_is_found_without_a_scan(filled: Database) -> None:
    """By the index of the unique key."""
    if not filled.dialect.has_insert_returning:
        pytest.skip("here the INSERT itself returns the holder of the key")

    whose = {"unique_key": "some key", "now": filled.clock.now()}
    plan = query_plan(filled, holder_statement(filled.dialect), whose)

    assert plan == QueryPlan(("mayfly_jobs_unique",), scans=(), sorts=False, rows=rows_read(filled, 0))


def test_keys_whose_period_is_over_are_found_without_a_scan(filled: Database) -> None:
    """However many are asked for at once."""
    keys = {f"key_{number}": f"key {number}" for number in range(100)}

    plan = query_plan(filled, finished_statement(filled.dialect, list(keys)), {**keys, "now": filled.clock.now()})

    assert plan == QueryPlan(("mayfly_jobs_unique",), scans=(), sorts=False, rows=rows_read(filled, 0))


def test_the_youngest_live_job_of_a_group_is_found_by_the_index(filled: Database) -> None:
    """Backwards along the index of groups: one row, though thousands of the group have ended.

    PostgreSQL without statistics expects small groups, and reads and sorts this one, but no other row.
    """
    plan = query_plan(filled, YOUNGEST_LIVE_JOB, {"key": "campaign"})

    assert (plan.indexes, plan.scans) == (("mayfly_jobs_group",), ())
    assert plan.rows == rows_read(filled, DUE + 10_000 if plan.sorts else 1)


def test_a_slice_to_prune_is_read_in_order(filled: Database) -> None:
    """500 of 60,000, the oldest first, along the claim index."""
    search = finished_jobs("default", "done", NORMAL, filled.clock.now() - timedelta(days=7))

    plan = query_plan(filled, search.statement, search.values)

    assert plan == QueryPlan(("mayfly_jobs_claim",), scans=(), sorts=False, rows=rows_read(filled, 500))


def test_jobs_before_a_job_are_counted_along_the_claim_index(filled: Database) -> None:
    """`mayfly why` reads the jobs that a claim would take first, and no delayed ones."""
    values = {**next_ten(filled.clock.now()), "id": 0}

    plan = query_plan(filled, before_statement(own=True), values)

    assert plan == QueryPlan(("mayfly_jobs_claim",), scans=(), sorts=False, rows=rows_read(filled, 10))


def test_interrupted_jobs_are_found_along_the_claim_index(filled: Database) -> None:
    """Of several lanes in one statement."""
    values = {"lane_0": "default", "lane_1": "mail", "now": filled.clock.now()}

    plan = query_plan(filled, interrupted_statement(2), values)

    assert (set(plan.indexes), plan.scans, plan.sorts) == ({"mayfly_jobs_claim"}, (), False)
    assert plan.rows == rows_read(filled, DUE + 1)


def test_the_children_of_a_job_are_found_without_a_scan(filled: Database) -> None:
    """Also if there are none, as for most jobs."""
    plan = query_plan(
        filled, view_statement(Relative, relatives_source("parent_id = :id", "ASC")), {"id": 1, "size": 20}
    )

    assert plan == QueryPlan(("mayfly_jobs_parent",), scans=(), sorts=False, rows=rows_read(filled, 0))


def test_the_first_job_of_a_runner_is_found_by_its_id(filled: Database) -> None:
    """At most one row: MariaDB reads it during optimisation, so there is no plan."""
    wanted = {"id": 7, "lane": "default", "now": filled.clock.now() + timedelta(days=1)}

    plan = query_plan(filled, first_statement(filled.dialect), wanted)

    assert (plan.scans, plan.sorts) == ((), False)
    assert (plan.rows or 0) <= 1


def test_a_slice_to_cancel_is_read_along_the_claim_index(filled: Database) -> None:
    """A thousand of 60,000 delayed jobs."""
    after = between_two(filled.clock.now() + timedelta(minutes=1))
    [found, *_] = [each for each in ranges_of(filled, JobFilter(lane="default")) if "priority = 1" in each.where]

    plan = query_plan(filled, found.statement(continues=True), found.given(1000, (after, 0)))

    assert plan == QueryPlan(("mayfly_jobs_claim",), scans=(), sorts=False, rows=rows_read(filled, 1000))


@pytest.mark.parametrize("has_floor", [False, True])
def test_a_page_of_jobs_is_read_backwards_along_the_claim_index(filled: Database, has_floor: bool) -> None:
    """Fifty of 60,000 done jobs, from the middle on: no sort, and no row beyond them."""
    middle = between_two(filled.clock.now() - timedelta(days=30, seconds=30))
    [found] = [
        each for each in list_ranges(filled, JobFilter(lane="default", status="done")) if "priority = 1" in each.where
    ]
    positions = {"after": (middle, 0), "floor": (middle - timedelta(seconds=15), 0) if has_floor else None}

    statement = found.statement(continues=True, newest_first=True, has_floor=has_floor)
    plan = query_plan(filled, statement, found.given(50, **positions))

    assert plan == QueryPlan(("mayfly_jobs_claim",), scans=(), sorts=False, rows=rows_read(filled, 50))


def test_counts_of_lanes_stop_at_their_caps(filled: Database) -> None:
    """Due, running and dead jobs of two lanes, each by the claim index."""
    now = filled.clock.now()
    groups = [
        JobGroup(lane, status, NORMAL, now)
        for lane in ("default", "mail")
        for status in ("pending", "processing", "dead")
    ]
    queries = [query for _key, query in lanes.count_queries(groups, 21)]
    values = {f"lane_{number}": group.lane for number, group in enumerate(groups)} | {"now": now}

    plan = query_plan(filled, aggregates_statement("COUNT(*)", queries), values)

    assert (plan.indexes, plan.scans, plan.sorts) == (("mayfly_jobs_claim",) * 6, (), False)
    assert plan.rows == rows_read(filled, 21 + 1 + 21)


def test_counts_of_statuses_stop_at_their_caps(filled: Database) -> None:
    """Each by the claim index, and at most one row beyond the cap."""
    values = {"lane_0": "default", "lane_1": "mail"}
    named = [(status, lane) for lane in (":lane_0", ":lane_1") for status in ("pending", "done", "dead")]
    queries = [jobs_with(*each, jobs.MAX_STATUS_COUNTED + 1) for each in named]

    plan = query_plan(filled, aggregates_statement("COUNT(*)", queries), values)

    assert (plan.indexes, plan.scans, plan.sorts) == (("mayfly_jobs_claim",) * 6, (), False)
    assert plan.rows == rows_read(filled, 2 * (jobs.MAX_STATUS_COUNTED + 1) + 1)


def test_an_estimate_reads_down_to_its_floor_only(filled: Database) -> None:
    """For a type that does not exist, in a lane of 60,000 pending jobs."""
    job_filter = JobFilter(lane="default", type="none")
    [found] = [
        each for each in ranges_of(filled, job_filter) if "priority = 1" in each.where and "pending" in each.where
    ]
    floor = filled.read(lambda connection: found.floor(connection, 500))
    statement = found._rest(past(found.key, ">", "floor", or_equal=True))

    plan = query_plan(filled, f"SELECT {found.id} {statement}", found.given(1, floor=floor))

    assert (plan.indexes, plan.scans) == (("mayfly_jobs_claim",), ())
    assert plan.rows is None or plan.rows <= 500


def test_the_next_job_of_a_lane_is_found_by_one_probe(filled: Database) -> None:
    """Of a priority that has due jobs, the first delayed one."""
    now = filled.clock.now()
    queries = [query for _key, query in lanes.time_queries([JobGroup("default", "pending", NORMAL, now)])]
    values = {"lane_0": "default", "now": now}

    plan = query_plan(filled, aggregates_statement("MIN(run_at)", queries), values)

    # SQLite also calls it a search when it takes the minimum of the one row found.
    assert [each for each in plan.indexes if each != "SEARCH"] == ["mayfly_jobs_claim"]
    assert (plan.scans, plan.sorts, plan.rows) == ((), False, rows_read(filled, 1))


def list_ranges(database: Database, job_filter: JobFilter) -> list[Range]:
    return database.read(lambda connection: ranges(connection, job_filter, ALL_STATUSES, {}))


def ranges_of(database: Database, job_filter: JobFilter) -> list[Range]:
    return database.read(lambda connection: ranges(connection, job_filter, CANCEL.applies_to, {}))


def next_ten(now: datetime) -> Values:
    return {"lane": "default", "priority": NORMAL, "since": FIRST_TIME, "now": now, "size": 10}


def rows_read(database: Database, rows: int) -> int | None:
    """SQLite does not report how many rows it read; its plan shows a range."""
    return None if database.dialect.name == "sqlite" else rows


def whole_milliseconds(at: datetime) -> datetime:
    return at.replace(microsecond=at.microsecond // 1000 * 1000)


def between_two(at: datetime) -> datetime:
    """No job has this time, so no row is read twice."""
    return whole_milliseconds(at) + timedelta(microseconds=500)


def fill_all(database: Database, engine_name: str) -> None:
    now = whole_milliseconds(database.clock.now())
    others = OTHER_JOBS_ON_SQLITE if engine_name == "sqlite" else OTHER_JOBS
    fill(database, engine_name, others, "pending", now + timedelta(hours=1))
    fill(database, engine_name, others, "done", now - timedelta(days=30), grouped=10_000)
    fill(database, engine_name, DUE, "pending", now - timedelta(hours=1))
    fill(database, engine_name, DUE, "processing", now - timedelta(hours=1), grouped=DUE)
    fill(database, engine_name, 1, "pending", now - timedelta(hours=1), lane="mail")


def fill(
    database: Database,
    engine_name: str,
    count: int,
    status: str,
    latest: datetime,
    lane: str = "default",
    grouped: int = 0,
) -> None:
    """Many jobs in one statement: a millisecond apart, the last one at the given time.

    The first ones are in a group. An UPDATE afterwards would leave old versions, which PostgreSQL may count as read.
    """
    shifted = {
        "sqlite": "strftime('%Y-%m-%d %H:%M:%f000', :latest, '-' || (n / 1000.0) || ' seconds')",
        "mariadb": ":latest - INTERVAL n * 1000 MICROSECOND",
        "postgres": ":latest - n * interval '1 millisecond'",
    }[engine_name].replace("%H:%M:%f", r"%H\:%M\:%f")  # fmt: skip
    statement = text(
        "INSERT INTO mayfly_jobs (type, payload, lane, status, run_at, finished_at, group_key)"
        f" SELECT 'noop', '{{}}', :lane, :status, {shifted}, :finished,"
        f" CASE WHEN n <= {grouped} THEN 'campaign' END FROM {SEQUENCES[engine_name].format(count)}"
    ).bindparams(bindparam("latest", type_=UtcDateTime()), bindparam("finished", type_=UtcDateTime()))
    values = {"lane": lane, "status": status, "latest": latest, "finished": latest if status == "done" else None}
    run(database, lambda connection: connection.execute(statement, values))
