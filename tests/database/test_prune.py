"""Pruning takes what is old enough and nothing else, in slices, and never more of them than a cycle may."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import insert

from mayfly.clock import milliseconds
from mayfly.db.database import Database
from mayfly.queue.prune import SLICE, Keep, Search, delete, prune, searches
from mayfly.schema import metadata as tables
from tests.database.factories import change_job, insert_runner, insert_table_row, rows_of
from tests.factories import insert_rows
from tests.sqlalchemy_engines import run

DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("status", "days", "goes"),
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
def test_a_job_goes_when_it_ended_long_enough_ago(database: Database, status: str, days: int, goes: bool) -> None:
    """Done and cancelled after a week; dead ones stay, and what has not ended is no matter of age."""
    insert_old_jobs(database, 1, status=status, days=days)

    pruned = prune(database, Keep())

    assert (pruned, len(rows_of(database, tables.jobs))) == ((1, 0) if goes else (0, 1))


def test_dead_jobs_go_where_somebody_says_when(database: Database) -> None:
    """It is a setting like the others."""
    insert_old_jobs(database, 1, status="dead", days=31)
    insert_old_jobs(database, 1, status="dead", days=29)

    assert prune(database, Keep(dead=30)) == 1


def test_every_lane_and_priority_is_pruned(database: Database) -> None:
    """Wherever an old job lies."""
    for lane in ("mail", "images"):
        for priority in (0, 1, 2):
            insert_old_jobs(database, 2, status="done", days=8, lane=lane, priority=priority)

    assert prune(database, Keep()) == 12


def test_a_job_that_was_due_long_ago_and_has_just_ended_stays(database: Database) -> None:
    """Its age counts from its end, not from when it was to run."""
    now = database.clock.now()
    insert_rows(database, 1, status="done", run_at=now - 30 * DAY, finished_at=now)

    assert prune(database, Keep()) == 0


def test_slices_are_bounded(database: Database) -> None:
    """What is more than a cycle may delete goes in the cycles to come."""
    insert_old_jobs(database, 2 * SLICE + 10, status="done", days=8)

    pruned = [prune(database, Keep(), slices=2), prune(database, Keep(), slices=2)]

    assert pruned == [2 * SLICE, 10]


def test_a_job_that_got_another_try_since_the_look_stays(database: Database) -> None:
    """Between looking and deleting an operator may have brought it back."""
    [job] = insert_old_jobs(database, 1, status="dead", days=31)
    now = database.clock.now()
    found = [each for each in searches(["default"], Keep(dead=30), now) if keys_of(database, each) == [job]]
    change_job(database, job, status="pending", finished_at=None)

    gone = database.run(lambda connection: delete(connection, found[0], [job]))

    assert (gone, len(rows_of(database, tables.jobs))) == (0, 1)


def test_runners_go_when_they_ended_long_enough_ago(database: Database) -> None:
    """Those that nobody has seen end are not for pruning to judge."""
    now = database.clock.now()
    for number, finished_at in enumerate([None, now - 6 * DAY, now - 8 * DAY]):
        insert_runner(database, f"worker-{number}")
        statement = tables.runners.update().where(tables.runners.c.worker_id == f"worker-{number}")
        run(database, lambda c, s=statement, at=finished_at: c.execute(s.values(finished_at=at)))  # type: ignore[misc]

    assert prune(database, Keep()) == 1
    assert [row.worker_id for row in rows_of(database, tables.runners)] == ["worker-0", "worker-1"]


def test_cycles_go_with_their_attempts_and_totals(database: Database) -> None:
    """After 90 days; the number of a cycle tells its age."""
    now = database.clock.now()
    for age in (89 * DAY, 93 * DAY):
        insert_cycle(database, now - age)

    pruned = prune(database, Keep())

    left = [len(rows_of(database, table)) for table in (tables.cycles, tables.attempts, tables.totals)]
    assert (pruned, left) == (4, [1, 1, 2])


def test_what_operators_did_goes_after_a_year(database: Database) -> None:
    """Or when KEEP_AUDIT_DAYS says."""
    for days in (360, 370):
        insert_audit(database, database.clock.now() - days * DAY)

    assert [prune(database, keep) for keep in (Keep(audit=None), Keep(), Keep(audit=30))] == [0, 1, 1]


def test_a_remembered_request_goes_after_a_day(database: Database) -> None:
    """The same key of another token stays while it is young."""
    now = database.clock.now()
    for token, age in (("a", 25 * DAY / 24), ("b", 20 * DAY / 24)):
        insert_table_row(
            database, tables.requests, token_name=token, idempotency_key="k", body_hash="h", created_at=now - age
        )

    assert prune(database, Keep()) == 1
    assert [row.token_name for row in rows_of(database, tables.requests)] == ["b"]


def test_what_is_kept_for_ever_stays(database: Database) -> None:
    """None means never, for each kind by itself."""
    insert_old_jobs(database, 1, status="done", days=4000)
    insert_cycle(database, database.clock.now() - 4000 * DAY)

    assert prune(database, Keep(done=None, cancelled=None, dead=None, cycles=None, runners=None)) == 0


def test_an_empty_table_is_pruned_at_once(database: Database) -> None:
    assert prune(database, Keep(dead=1)) == 0


def insert_old_jobs(database: Database, count: int, status: str, days: float, **columns: Any) -> list[int]:
    """Jobs that came, ended and were forgotten so many days ago."""
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
    """With a failed attempt, and with two totals."""
    insert_table_row(database, tables.cycles, id=milliseconds(at), host="host", started_at=at)
    insert_table_row(
        database, tables.attempts, job_id=1, attempt=1, worker_id="w", outcome="failed", error="", fingerprint="",
        finished_at=at,
    )  # fmt: skip
    for outcome in ("done", "failed"):
        insert_table_row(
            database, tables.totals, cycle_id=milliseconds(at), lane="l", type="t", outcome=outcome, worker_id="",
            jobs=1, durations="{}", waits="{}",
        )  # fmt: skip


def keys_of(database: Database, search: Search) -> list[int]:
    return [key for (key,) in database.read(lambda c: c.execute(search.statement, search.values).all())]
