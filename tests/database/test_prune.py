"""Pruning deletes old rows only, in slices, and a limited number per cycle."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import insert

from mayfly.clock import milliseconds
from mayfly.db.database import Database
from mayfly.queue.count import job_groups
from mayfly.queue.prune import SLICE, Search, delete, prune, searches
from mayfly.schema import metadata as tables
from tests.database.factories import change_job, insert_runner, insert_table_row, retention, rows_of
from tests.factories import insert_rows
from tests.sqlalchemy_engines import run

DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("status", "days", "is_deleted"),
    [
        ("done", 6, False),
        ("done", 8, True),
        ("cancelled", 6, False),
        ("cancelled", 8, True),
        ("dead", 4000, False),
        ("pending", 4000, False),
        ("processing", 4000, False),
    ],
)
def test_a_job_is_deleted_when_it_ended_long_enough_ago(
    database: Database, status: str, days: int, is_deleted: bool
) -> None:
    """Done and cancelled ones after a week; dead ones stay, and unfinished ones are never deleted."""
    insert_old_jobs(database, 1, status=status, days=days)

    pruned = prune(database, retention())

    assert (pruned, len(rows_of(database, tables.jobs))) == ((1, 0) if is_deleted else (0, 1))


def test_dead_jobs_are_deleted_if_a_retention_is_set(database: Database) -> None:
    """KEEP_DEAD_DAYS has no default."""
    insert_old_jobs(database, 1, status="dead", days=31)
    insert_old_jobs(database, 1, status="dead", days=29)

    assert prune(database, retention(dead=30)) == 1


def test_every_lane_and_priority_is_pruned(database: Database) -> None:
    """Old jobs are found in all of them."""
    for lane in ("mail", "images"):
        for priority in (0, 1, 2):
            insert_old_jobs(database, 2, status="done", days=8, lane=lane, priority=priority)

    assert prune(database, retention()) == 12


def test_an_old_job_that_has_just_ended_stays(database: Database) -> None:
    """Its age counts from its end, not from its run_at."""
    now = database.clock.now()
    insert_rows(database, 1, status="done", run_at=now - 30 * DAY, finished_at=now)

    assert prune(database, retention()) == 0


def test_the_slices_of_a_cycle_are_limited(database: Database) -> None:
    """The rest is deleted in the following cycles."""
    insert_old_jobs(database, 2 * SLICE + 10, status="done", days=8)

    pruned = [prune(database, retention(), slices=2), prune(database, retention(), slices=2)]

    assert pruned == [2 * SLICE, 10]


def test_a_job_retried_after_the_query_stays(database: Database) -> None:
    """An operator may retry it between the query and the deletion."""
    [job] = insert_old_jobs(database, 1, status="dead", days=31)
    now = database.clock.now()
    groups = database.read(job_groups)
    found = [each for each in searches(groups, retention(dead=30), now) if keys_of(database, each) == [job]]
    change_job(database, job, status="pending", finished_at=None)

    gone = database.run(lambda connection: delete(connection, found[0], [job]))

    assert (gone, len(rows_of(database, tables.jobs))) == (0, 1)


def test_runners_are_deleted_when_they_ended_long_enough_ago(database: Database) -> None:
    """Those without a recorded end stay."""
    now = database.clock.now()
    for number, finished_at in enumerate([None, now - 6 * DAY, now - 8 * DAY]):
        insert_runner(database, f"worker-{number}")
        statement = tables.runners.update().where(tables.runners.c.worker_id == f"worker-{number}")
        run(database, lambda c, s=statement, at=finished_at: c.execute(s.values(finished_at=at)))  # type: ignore[misc]

    assert prune(database, retention()) == 1
    assert [row.worker_id for row in rows_of(database, tables.runners)] == ["worker-0", "worker-1"]


def test_cycles_are_deleted_with_their_attempts_and_totals(database: Database) -> None:
    """After 90 days; the id of a cycle is its time."""
    now = database.clock.now()
    for age in (89 * DAY, 93 * DAY):
        insert_cycle(database, now - age)

    pruned = prune(database, retention())

    left = [len(rows_of(database, table)) for table in (tables.cycles, tables.attempts, tables.totals)]
    assert (pruned, left) == (9, [1, 6, 2])


def test_audit_entries_are_deleted_after_a_year(database: Database) -> None:
    """Or after KEEP_AUDIT_DAYS."""
    for days in (360, 370):
        insert_audit(database, database.clock.now() - days * DAY)

    assert [prune(database, keep) for keep in (retention(audit=400), retention(), retention(audit=30))] == [0, 1, 1]


def test_a_stored_request_is_deleted_after_a_day(database: Database) -> None:
    """A newer one with the same key of another token stays."""
    now = database.clock.now()
    for token, age in (("a", 25 * DAY / 24), ("b", 20 * DAY / 24)):
        insert_table_row(
            database, tables.requests, token_name=token, idempotency_key="k", body_hash="h", created_at=now - age
        )

    assert prune(database, retention()) == 1
    assert [row.token_name for row in rows_of(database, tables.requests)] == ["b"]


def test_an_empty_table_is_pruned_at_once(database: Database) -> None:
    assert prune(database, retention(dead=1)) == 0


def insert_old_jobs(database: Database, count: int, status: str, days: float, **columns: Any) -> list[int]:
    """Jobs that were enqueued and ended this many days ago."""
    at = database.clock.now() - days * DAY
    rows = [{"type": "noop", "payload": "{}", "status": status, "run_at": at, "finished_at": at} | columns] * count
    before = {row.id for row in rows_of(database, tables.jobs)}
    run(database, lambda connection: connection.execute(insert(tables.jobs), rows))
    return sorted({row.id for row in rows_of(database, tables.jobs)} - before)


def insert_audit(database: Database, at: datetime) -> None:
    insert_table_row(
        database, tables.audit, done_at=at, done_by="ann", via="terminal", verb="cancel", subject="1", jobs=1
    )


def insert_cycle(database: Database, at: datetime) -> None:
    """With an attempt of each outcome and two totals."""
    insert_table_row(database, tables.cycles, id=milliseconds(at), host="host", started_at=at)
    for ending in ("failed", "timed out", "crashed", "sliced", "released", "done"):
        insert_table_row(
            database, tables.attempts, job_id=1, attempt=1, worker_id="w", outcome=ending, error="", fingerprint="",
            finished_at=at,
        )  # fmt: skip
    for outcome in ("done", "failed"):
        insert_table_row(
            database, tables.totals, cycle_id=milliseconds(at), lane="l", type="t", outcome=outcome, worker_id="",
            jobs=1, durations="{}", waits="{}",
        )  # fmt: skip


def keys_of(database: Database, search: Search) -> list[int]:
    return [key for (key,) in database.read(lambda c: c.execute(search.statement, search.values).all())]
