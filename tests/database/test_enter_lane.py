"""A runner continues in another lane: its row moves there, if no other runner is there and no host plans."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from sqlalchemy import select

from mayfly import json_text
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.fleet.plan_lock import finish_planning, planning
from mayfly.fleet.runners import MAX_EARLIER_LANES, EndedRunner, Entry, close_runner, enter_lane, live_by_lane
from mayfly.job import Job
from mayfly.schema.metadata import jobs, runners
from tests.database.factories import insert_runner, make_claims, rows_of
from tests.factories import insert_row
from tests.sqlalchemy_engines import run
from tests.statement_recorder import recorded_statements


def test_the_row_of_a_runner_follows_it(database: Database) -> None:
    """Plans count it in its new lane, and the row names the earlier ones."""
    insert_runner(database, lane="mail")

    entry = enter(database, "images", earlier=["mail"])

    assert entry is Entry.ENTERED
    assert database.read(live_by_lane) == {"images": 1}
    assert earlier_lanes(database) == ["mail"]


def test_a_lane_with_a_live_runner_is_not_entered(database: Database) -> None:
    """On any host; the runner stays where it is."""
    insert_runner(database, lane="mail")
    insert_runner(database, "worker-2", lane="images")

    entry = enter(database, "images")

    assert entry is Entry.OCCUPIED
    assert database.read(live_by_lane) == {"images": 1, "mail": 1}


def test_a_lane_whose_runners_have_exited_is_entered(database: Database) -> None:
    """However they ended."""
    insert_runner(database, lane="mail")
    insert_runner(database, "worker-2", lane="images")
    end_runner(database, "worker-2")

    assert enter(database, "images") is Entry.ENTERED


def test_no_lane_is_entered_while_a_host_plans(database: Database) -> None:
    """It has counted the runners of each lane and may start one there; afterwards the lane can be entered."""
    insert_runner(database, lane="mail")

    with plan_in_progress(database):
        during = enter(database, "images")
    after = enter(database, "images")

    assert (during, after) == (Entry.PLANNING, Entry.ENTERED)


def test_a_runner_that_was_declared_dead_enters_no_lane(database: Database) -> None:
    """Its jobs have been rescued."""
    insert_runner(database, lane="mail")
    end_runner(database, "worker-1")

    assert enter(database, "images") is Entry.OCCUPIED


def test_entering_can_be_repeated(database: Database) -> None:
    """If the reply to its COMMIT was lost, the transaction is run again."""
    insert_runner(database, lane="mail")

    entries = [enter(database, "images", earlier=["mail"]) for _ in range(2)]

    assert entries == [Entry.ENTERED, Entry.ENTERED]
    assert earlier_lanes(database) == ["mail"]


def test_a_row_names_a_limited_number_of_lanes(database: Database) -> None:
    """The last ones."""
    insert_runner(database, lane="mail")

    enter(database, "last", earlier=[f"lane-{number}" for number in range(MAX_EARLIER_LANES + 1)])

    names = earlier_lanes(database)
    assert (len(names), names[-1]) == (MAX_EARLIER_LANES, f"lane-{MAX_EARLIER_LANES}")


def test_of_two_runners_one_enters(database: Database) -> None:
    """At the same moment, repeatedly, and whichever is first."""
    both = ["worker-1", "worker-2"]
    for worker_id in both:
        insert_runner(database, worker_id, lane="mail")

    with ThreadPoolExecutor(2) as threads:
        for number in range(20):
            lane = f"lane-{number}"
            entries = list(threads.map(lambda worker_id, lane=lane: enter_alone(database.url, worker_id, lane), both))

            assert sorted(each.name for each in entries) == ["ENTERED", "OCCUPIED"]
            assert database.read(live_by_lane)[lane] == 1


def test_jobs_are_claimed_in_the_new_lane(database: Database) -> None:
    """From then on, by the same runner."""
    claims = make_claims(database)
    first, second = (insert_row(database, lane=lane) for lane in ("default", "mail"))
    assert ids(claims.next()) == [first]

    batch = claims.next_in("mail", None, lambda connection: may_enter(connection, "mail"))

    assert batch is not None
    assert ids(batch) == [second]
    assert database.read(live_by_lane) == {"mail": 1}
    later = insert_row(database, lane="mail")
    assert ids(claims.next()) == [later]


def test_a_refused_runner_stays_in_its_lane(database: Database) -> None:
    """Nothing is claimed where it may not work, and it goes on in its own lane."""
    claims = make_claims(database)
    insert_row(database, lane="mail")

    batch = claims.next_in("mail", None, lambda _connection: False)

    later = insert_row(database)
    assert (batch, ids(claims.next())) == (None, [later])
    assert {each.lane: each.status for each in rows_of(database, jobs)} == {
        "mail": "pending",
        "default": "processing",
    }


def test_an_interrupted_job_is_claimed_first_and_alone(database: Database) -> None:
    """Also by a runner that has run other jobs before."""
    claims = make_claims(database)
    insert_row(database)
    claims.next()
    older, interrupted = insert_row(database, lane="mail"), insert_row(database, lane="mail")

    batch = claims.next_in("mail", interrupted, lambda connection: may_enter(connection, "mail"))

    assert batch is not None
    assert ids(batch) == [interrupted]
    assert ids(claims.next()) == [older]


def test_an_empty_lane_is_not_entered(database: Database) -> None:
    """The runner tries the next one, without a lock."""
    claims = make_claims(database)
    asked = False

    def may_enter_mail(_connection: Connection) -> bool:
        nonlocal asked
        asked = True
        return True

    batch = claims.next_in("mail", None, may_enter_mail)

    assert (batch, asked) == (None, False)
    assert database.read(live_by_lane) == {"default": 1}


def test_a_suspect_is_left_to_a_fresh_runner(database: Database) -> None:
    """A job that crashed a process runs in one that has run nothing else."""
    claims = make_claims(database)
    insert_row(database)
    claims.next()
    insert_row(database, lane="mail", suspect=1, crashes=1)

    batch = claims.next_in("mail", None, lambda connection: may_enter(connection, "mail"))

    assert batch is None
    assert database.read(live_by_lane) == {"default": 1}


@pytest.mark.parametrize("pending", [0, 2])
def test_after_a_claim_that_found_too_few_jobs_the_lane_is_queried(database: Database, pending: int) -> None:
    """Jobs that have arrived since are found."""
    claims = make_claims(database)
    insert_row(database)
    claims.next()
    new = [insert_row(database) for _ in range(pending)]

    assert ids(claims.next()) == new


def test_a_shared_runner_leaves_a_drained_lane_without_another_query(database: Database) -> None:
    """Its exit causes a plan, which finds the jobs that have arrived meanwhile."""
    claims = make_claims(database, leaves_rest=True)
    insert_row(database)
    claims.next()

    with recorded_statements() as sent:
        batch = claims.next()

    assert (batch, sent) == ([], [])


def enter(database: Database, lane: str, earlier: list[str] | None = None, worker_id: str = "worker-1") -> Entry:
    return database.run(lambda connection: enter_lane(connection, worker_id, lane, earlier or []))


def enter_alone(url: str, worker_id: str, lane: str) -> Entry:
    """With a connection of its own, like a process."""
    own = Database(url)
    try:
        return enter(own, lane, worker_id=worker_id)
    finally:
        own.close()


def may_enter(connection: Connection, lane: str) -> bool:
    return enter_lane(connection, "worker-1", lane, ["default"]) is Entry.ENTERED


def earlier_lanes(database: Database) -> list[str]:
    [row] = run(database, lambda connection: connection.execute(select(runners.c.earlier_lanes)).all())
    found = json_text.decode(row.earlier_lanes)
    assert isinstance(found, list)
    return found


def end_runner(database: Database, worker_id: str) -> None:
    now = database.clock.now()
    database.run(lambda connection: close_runner(connection, worker_id, EndedRunner("ok"), now))


@contextmanager
def plan_in_progress(database: Database) -> Iterator[None]:
    with planning(database, "another host") as number:
        yield
        database.run(lambda connection: finish_planning(connection, number))


def ids(batch: list[Job]) -> list[int]:
    return [job.id for job in batch]
