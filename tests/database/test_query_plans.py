"""However many delayed and finished jobs lie around, the hot statements read what they need and nothing else.

60,000 delayed and 60,000 done jobs surround 100 that are due.
"""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from sqlalchemy import bindparam, text

from mayfly.admin import jobs, lanes
from mayfly.admin.actions import CANCEL
from mayfly.admin.filters import JobFilter, Range, past, ranges
from mayfly.admin.job import before_statement, relatives_statement
from mayfly.admin.jobs import ALL_STATUSES
from mayfly.db.database import Database
from mayfly.db.dialects import Values
from mayfly.queue.claim import due_statement, first_statement, from_cursor_statement
from mayfly.queue.count import (
    DUE_PRIORITIES,
    INTERRUPTED_JOBS,
    NEXT_LANE,
    YOUNGEST_LIVE_JOB,
    count_statement,
    find_lanes,
)
from mayfly.queue.insert import finished_statement, holder_statement
from mayfly.queue.prune import finished_jobs
from mayfly.queue.rescue import PROCESSING_JOBS
from mayfly.schema.column_types import UtcDateTime
from mayfly.schema.tables import NORMAL
from tests.database.filled_databases import ENGINES, SEQUENCES, Crowds, analyse, crowds_of
from tests.database.query_plans import Look, explained, plan_of
from tests.databases import Databases
from tests.factories import insert_rows
from tests.sqlalchemy_engines import run

CROWD = 60_000  # with half as many PostgreSQL would guess that a sort is cheaper
CROWD_OF_SQLITE = 10_000  # EXPLAIN does not run the statement there, and its plan does not depend on the number
DUE = 100

# Right after a bulk insert a database can only guess what is in the table; later it has statistics.
STAGES = [(name, stage) for name in ENGINES for stage in ("guessing", "informed")]


@pytest.fixture(scope="module")
def guessing(databases: Databases) -> Iterator[Crowds]:
    with crowds_of(databases, fill_all) as opened:
        yield opened


@pytest.fixture(scope="module")
def informed(databases: Databases) -> Iterator[Crowds]:
    def fill_and_analyse(database: Database, engine_name: str) -> None:
        fill_all(database, engine_name)
        analyse(database, engine_name, "mayfly_jobs")

    with crowds_of(databases, fill_and_analyse) as opened:
        yield opened


@pytest.fixture(scope="module", params=STAGES, ids="-".join)
def crowded(request: pytest.FixtureRequest, guessing: Crowds, informed: Crowds) -> Database:
    """Each stage has a database of its own: in a random order statistics may come first."""
    engine_name, stage = request.param
    return (informed if stage == "informed" else guessing)(engine_name)


def test_a_claim_reads_only_what_it_takes(crowded: Database) -> None:
    """The claim index as a pure range: no sort, and no row beyond the ten."""
    look = explained(crowded, due_statement(crowded.dialect), next_ten(crowded.clock.now()))

    assert look == Look(("mayfly_jobs_claim",), scans=(), sorts=False, rows=told(crowded, 10))


def test_a_claim_of_a_drained_priority_reads_nothing(crowded: Database) -> None:
    """The delayed jobs are not even looked at."""
    long_ago = crowded.clock.now() - timedelta(hours=2)

    look = explained(crowded, due_statement(crowded.dialect), next_ten(long_ago))

    assert look == Look(("mayfly_jobs_claim",), scans=(), sorts=False, rows=told(crowded, 0))


def test_a_claim_from_a_front_begins_there(database: Database) -> None:
    """The range has both ends, also in a backlog."""
    begins = {"sqlite": "run_at>?", "mysql": '"access_type": "range"', "postgresql": "run_at >="}
    now = database.clock.now()
    insert_rows(database, 3000, run_at=now - timedelta(minutes=1))
    statement = from_cursor_statement(database.dialect)
    values = {**next_ten(now), "since": now - timedelta(minutes=1)}

    plan = database.run(lambda connection: plan_of(connection, statement, values))

    assert begins[database.dialect.name] in json.dumps(plan)


def test_a_look_for_due_priorities_reads_one_row_of_each(crowded: Database) -> None:
    """From the far end, where nothing was claimed yet."""
    look = explained(crowded, DUE_PRIORITIES, {"lane": "default", "now": crowded.clock.now()})

    assert (set(look.indexes), look.scans, look.sorts) == ({"mayfly_jobs_claim"}, (), False)


def test_a_count_reads_only_what_is_due(crowded: Database) -> None:
    """In both lanes and all priorities, in one statement."""
    look = explained(
        crowded,
        count_statement([1000, 1000]),
        {"lane_0": "default", "lane_1": "mail", "now": crowded.clock.now()},
    )

    assert look == Look(("mayfly_jobs_claim",) * 6, scans=(), sorts=False, rows=told(crowded, DUE + 1))


def test_a_count_stops_at_its_cap(crowded: Database) -> None:
    """One row beyond says that there are more."""
    look = explained(crowded, count_statement([20]), {"lane_0": "default", "now": crowded.clock.now()})

    assert look == Look(("mayfly_jobs_claim",) * 3, scans=(), sorts=False, rows=told(crowded, 21))


@pytest.mark.parametrize("after", ["", "default", "mail"])
def test_a_hop_to_the_next_lane_is_one_probe(crowded: Database, after: str) -> None:
    """However many rows lie between. MariaDB answers from the index before there is anything to read."""
    look = explained(crowded, NEXT_LANE, {"lane": after})

    assert (look.scans, look.sorts) == ((), False)
    assert (look.rows or 0) <= 1


def test_the_lanes_are_found(crowded: Database) -> None:
    """Those that have any rows, in order."""
    assert crowded.read(lambda connection: find_lanes(connection)) == ["default", "mail"]


def test_what_is_being_processed_is_found_without_a_scan(crowded: Database) -> None:
    """Rescue reads the jobs that somebody holds, and no others."""
    look = explained(crowded, PROCESSING_JOBS, {"lane": "default"})

    assert look == Look(("mayfly_jobs_claim",), scans=(), sorts=False, rows=told(crowded, DUE))


def test_the_holder_of_a_key_is_found_without_a_scan(crowded: Database) -> None:
    """The unique key is an index, not a query."""
    if not crowded.dialect.has_insert_returning:
        pytest.skip("here the INSERT itself says who holds the key")

    whose = {"unique_key": "some key", "now": crowded.clock.now()}
    look = explained(crowded, holder_statement(crowded.dialect), whose)

    assert look == Look(("mayfly_jobs_unique",), scans=(), sorts=False, rows=told(crowded, 0))


def test_keys_whose_time_is_over_are_found_without_a_scan(crowded: Database) -> None:
    """However many are asked for at once."""
    keys = {f"key_{number}": f"key {number}" for number in range(100)}

    look = explained(crowded, finished_statement(crowded.dialect, list(keys)), {**keys, "now": crowded.clock.now()})

    assert look == Look(("mayfly_jobs_unique",), scans=(), sorts=False, rows=told(crowded, 0))


def test_the_youngest_live_job_of_a_group_is_found_at_once(crowded: Database) -> None:
    """Backwards along the index of groups: one row, though thousands of the same group have ended before it.

    PostgreSQL without statistics takes groups for small, and reads and sorts this one; no row beyond it.
    """
    look = explained(crowded, YOUNGEST_LIVE_JOB, {"key": "campaign"})

    assert (look.indexes, look.scans) == (("mayfly_jobs_group",), ())
    assert look.rows == told(crowded, DUE + 10_000 if look.sorts else 1)


def test_a_slice_to_prune_is_read_in_order(crowded: Database) -> None:
    """500 of 60,000, the oldest first, along the claim index."""
    search = finished_jobs("default", "done", NORMAL, crowded.clock.now() - timedelta(days=7))

    look = explained(crowded, search.statement, search.values)

    assert look == Look(("mayfly_jobs_claim",), scans=(), sorts=False, rows=told(crowded, 500))


def test_what_comes_before_a_job_is_counted_along_the_claim_index(crowded: Database) -> None:
    """`mayfly why` reads what a claim would take first, and nothing that is delayed."""
    values = {**next_ten(crowded.clock.now()), "id": 0}

    look = explained(crowded, before_statement(own=True), values)

    assert look == Look(("mayfly_jobs_claim",), scans=(), sorts=False, rows=told(crowded, 10))


def test_interrupted_jobs_are_looked_for_along_the_claim_index(crowded: Database) -> None:
    """No further than is asked for."""
    look = explained(crowded, INTERRUPTED_JOBS, next_ten(crowded.clock.now()))

    assert (set(look.indexes), look.scans, look.sorts) == ({"mayfly_jobs_claim"}, (), False)
    assert look.rows == told(crowded, 10)


def test_the_children_of_a_job_are_found_without_a_scan(crowded: Database) -> None:
    """Also where it has none, as most have."""
    look = explained(crowded, relatives_statement("parent_id = :id", "ASC"), {"id": 1, "size": 20})

    assert look == Look(("mayfly_jobs_parent",), scans=(), sorts=False, rows=told(crowded, 0))


def test_a_job_to_begin_with_is_found_by_its_id(crowded: Database) -> None:
    """One row at most: MariaDB looks it up before there is a plan to tell of."""
    wanted = {"id": 7, "lane": "default", "now": crowded.clock.now() + timedelta(days=1)}

    look = explained(crowded, first_statement(crowded.dialect), wanted)

    assert (look.scans, look.sorts) == ((), False)
    assert (look.rows or 0) <= 1


def test_a_slice_to_cancel_is_read_along_the_claim_index(crowded: Database) -> None:
    """A thousand of 60,000 that are delayed."""
    after = between_two(crowded.clock.now() + timedelta(minutes=1))
    [found, *_] = [each for each in ranges_of(crowded, JobFilter(lane="default")) if "priority = 1" in each.where]

    look = explained(crowded, found.statement(continues=True), found.given(1000, (after, 0)))

    assert look == Look(("mayfly_jobs_claim",), scans=(), sorts=False, rows=told(crowded, 1000))


@pytest.mark.parametrize("has_floor", [False, True])
def test_a_page_of_jobs_is_read_backwards_along_the_claim_index(crowded: Database, has_floor: bool) -> None:
    """Fifty of 60,000 that are done, from the middle on: no sort, and no row beyond them."""
    middle = between_two(crowded.clock.now() - timedelta(days=30, seconds=30))
    [found] = [
        each for each in browsed(crowded, JobFilter(lane="default", status="done")) if "priority = 1" in each.where
    ]
    positions = {"after": (middle, 0), "floor": (middle - timedelta(seconds=15), 0) if has_floor else None}

    statement = found.statement(continues=True, newest_first=True, has_floor=has_floor)
    look = explained(crowded, statement, found.given(50, **positions))

    assert look == Look(("mayfly_jobs_claim",), scans=(), sorts=False, rows=told(crowded, 50))


def test_lanes_are_counted_no_further_than_their_caps(crowded: Database) -> None:
    """What is due, what runs and what is dead of two lanes, each by the claim index."""
    values = {"lane_0": "default", "lane_1": "mail", "now": crowded.clock.now()}

    look = explained(crowded, lanes.count_statement(2, 20), values)

    assert (look.indexes, look.scans, look.sorts) == (("mayfly_jobs_claim",) * 10, (), False)
    assert look.rows == told(crowded, 21 + 1 + 21)


def test_statuses_are_counted_no_further_than_their_caps(crowded: Database) -> None:
    """Each by the claim index, none beyond one more than the cap."""
    values = {"lane_0": "default", "lane_1": "mail"}

    look = explained(crowded, jobs.lanes_statement(2, ("pending", "done", "dead")), values)

    assert (look.indexes, look.scans, look.sorts) == (("mayfly_jobs_claim",) * 6, (), False)
    assert look.rows == told(crowded, 2 * (jobs.MAX_STATUS_COUNTED + 1) + 1)


def test_an_estimate_reads_down_to_its_floor_alone(crowded: Database) -> None:
    """A type that is not there, in a lane of 60,000 that wait: so many rows as are worth it."""
    which = JobFilter(lane="default", type="none")
    [found] = [each for each in ranges_of(crowded, which) if "priority = 1" in each.where and "pending" in each.where]
    floor = crowded.read(lambda connection: found.floor(connection, 500))
    statement = found._rest(past(found.key, ">", "floor", or_equal=True))

    look = explained(crowded, f"SELECT {found.id} {statement}", found.given(1, floor=floor))

    assert (look.indexes, look.scans) == (("mayfly_jobs_claim",), ())
    assert look.rows is None or look.rows <= 500


def test_the_first_and_the_next_of_a_lane_are_one_probe_each(crowded: Database) -> None:
    """For each priority: one that is due, and one that is not yet."""
    look = explained(crowded, lanes.time_statement(1), {"lane_0": "default", "now": crowded.clock.now()})

    # SQLite also calls it a search when the least of the one row is taken that was found.
    assert [each for each in look.indexes if each != "SEARCH"] == ["mayfly_jobs_claim"] * 6
    assert (look.scans, look.sorts, look.rows) == ((), False, told(crowded, 2))


def browsed(database: Database, which: JobFilter) -> list[Range]:
    return database.read(lambda connection: ranges(connection, which, ALL_STATUSES, {}))


def ranges_of(database: Database, which: JobFilter) -> list[Range]:
    return database.read(lambda connection: ranges(connection, which, CANCEL.applies_to, {}))


def next_ten(now: datetime) -> Values:
    return {"lane": "default", "priority": NORMAL, "now": now, "size": 10}


def told(database: Database, rows: int) -> int | None:
    """SQLite does not say how many rows it read; its plan says that it was a range."""
    return None if database.dialect.name == "sqlite" else rows


def whole_milliseconds(at: datetime) -> datetime:
    return at.replace(microsecond=at.microsecond // 1000 * 1000)


def between_two(at: datetime) -> datetime:
    """No job has this time, so none of them has to be looked at twice."""
    return whole_milliseconds(at) + timedelta(microseconds=500)


def fill_all(database: Database, engine_name: str) -> None:
    now = whole_milliseconds(database.clock.now())
    crowd = CROWD_OF_SQLITE if engine_name == "sqlite" else CROWD
    fill(database, engine_name, crowd, "pending", now + timedelta(hours=1))
    fill(database, engine_name, crowd, "done", now - timedelta(days=30))
    fill(database, engine_name, DUE, "pending", now - timedelta(hours=1))
    fill(database, engine_name, DUE, "processing", now - timedelta(hours=1))
    fill(database, engine_name, 1, "pending", now - timedelta(hours=1), lane="mail")
    some = f"status = 'processing' OR id BETWEEN {crowd + 1} AND {crowd + 10_000}"
    group = text(f"UPDATE mayfly_jobs SET group_key = 'campaign' WHERE {some}")
    run(database, lambda connection: connection.execute(group))


def fill(
    database: Database, engine_name: str, count: int, status: str, latest: datetime, lane: str = "default"
) -> None:
    """Many jobs in one statement: a millisecond apart, the last one at the given time."""
    shifted = {
        "sqlite": "strftime('%Y-%m-%d %H:%M:%f000', :latest, '-' || (n / 1000.0) || ' seconds')",
        "mariadb": ":latest - INTERVAL n * 1000 MICROSECOND",
        "postgres": ":latest - n * interval '1 millisecond'",
    }[engine_name].replace("%H:%M:%f", r"%H\:%M\:%f")  # fmt: skip
    statement = text(
        "INSERT INTO mayfly_jobs (type, payload, lane, status, run_at, finished_at)"
        f" SELECT 'noop', '{{}}', :lane, :status, {shifted}, :finished FROM {SEQUENCES[engine_name].format(count)}"
    ).bindparams(bindparam("latest", type_=UtcDateTime()), bindparam("finished", type_=UtcDateTime()))
    values = {"lane": lane, "status": status, "latest": latest, "finished": latest if status == "done" else None}
    run(database, lambda connection: connection.execute(statement, values))
