"""`expires_at`: a job that was not started by then is cancelled; one that was started no longer expires."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from freezegun import freeze_time

from mayfly import Job, Retry, Snooze, enqueue, enqueue_many, handler
from mayfly.clock import host_now
from mayfly.db.database import Database
from mayfly.errors import BadField, DatabaseFailed
from mayfly.queue.outcome import RELEASED, Settlement
from mayfly.queue.settle import settle
from mayfly.schema.metadata import attempts, jobs, totals
from mayfly.testing import FreshDatabase, drain, pinned_offset, using_database
from tests.database.factories import claim_jobs, make_settler, rows_of, sqlite_only
from tests.factories import NOON, get_row, insert_row

A_MINUTE = timedelta(minutes=1)


@pytest.fixture(autouse=True)
def fresh(migrated_url: str) -> Iterator[FreshDatabase]:
    with using_database(migrated_url) as opened:
        yield opened


@pytest.fixture
def calls() -> list[int]:
    """The attempts of the handlers `stumble`, which fails once, and `doze`, which snoozes once."""
    noted: list[int] = []

    @handler("stumble")
    def stumble(job: Job) -> None:
        noted.append(job.attempt)
        if len(noted) == 1:
            raise Retry(after=3600)

    @handler("doze")
    def doze(job: Job) -> None:
        noted.append(job.attempt)
        if len(noted) == 1:
            raise Snooze(after=3600)

    return noted


def insert_expired(database: Database, **columns: Any) -> int:
    return insert_row(database, expires_at=database.clock.now() - A_MINUTE, **columns)


def test_a_job_that_was_not_started_in_time_is_cancelled(database: Database) -> None:
    """With the reason; no attempt is used or recorded. Other jobs of its lane run."""
    late, other = insert_expired(database), insert_row(database)

    drained = drain()

    row = get_row(database, late)
    assert drained.outcomes == {"cancelled": 1, "done": 1}
    assert (row.status, row.attempts, row.claims, row.started_at) == ("cancelled", 0, 1, None)
    assert row.last_error == f"expired: not started by {row.expires_at:%Y-%m-%d %H:%M:%S} UTC"
    assert row.finished_at is not None
    assert get_row(database, other).status == "done"
    assert rows_of(database, attempts) == []
    assert {each.outcome: each.jobs for each in rows_of(database, totals)} == {"cancelled": 1, "done": 1}


def test_a_job_is_started_before_it_expires(database: Database) -> None:
    job = enqueue("noop", expires_in=3600)

    drain()

    assert get_row(database, job).status == "done"


def test_a_retry_does_not_expire(calls: list[int], database: Database) -> None:
    """It was started in time."""
    job = enqueue("stumble", expires_in=60)

    drained = drain(advance=True)

    assert (calls, drained.outcomes) == ([1, 2], {"failed": 1, "done": 1})
    assert get_row(database, job).status == "done"


def test_a_snoozed_job_does_not_expire(calls: list[int], database: Database) -> None:
    """It has used no attempt, but it was started."""
    job = enqueue("doze", expires_in=60)

    drained = drain(advance=True)

    assert (calls, drained.outcomes) == ([1, 1], {"snoozed": 1, "done": 1})
    assert get_row(database, job).status == "done"


def test_a_job_released_after_its_start_does_not_expire(database: Database) -> None:
    """Started by one runner and released unstarted by the next, it is run by the third."""
    job = insert_expired(database, started_at=database.clock.now() - 2 * A_MINUTE)
    [claimed] = claim_jobs(database)
    settle(database, make_settler(), [Settlement(claimed, RELEASED)], {})

    drain()

    assert get_row(database, job).status == "done"


def test_a_suspect_does_not_expire(database: Database) -> None:
    """Its runner died, so it may have been started."""
    job = insert_expired(database, suspect=1)

    drain()

    assert get_row(database, job).status == "done"


def test_a_job_released_before_its_start_expires(database: Database) -> None:
    """A claim is not a start."""
    job = insert_expired(database)
    [claimed] = claim_jobs(database)
    settle(database, make_settler(), [Settlement(claimed, RELEASED)], {})

    drain()

    assert get_row(database, job).status == "cancelled"


def test_a_claim_returns_the_expiry_of_its_jobs(database: Database) -> None:
    """None for jobs without one."""
    until = database.clock.now() + A_MINUTE
    insert_row(database, expires_at=until)
    insert_row(database)

    timed, plain = claim_jobs(database)

    assert timed.rare_fields is not None
    assert (timed.rare_fields.expires_at, plain.rare_fields) == (until, None)


def test_an_expired_job_frees_its_key(database: Database) -> None:
    job = insert_expired(database, unique_key="key")

    drain()

    assert enqueue("noop", unique_key="key") != job


def test_an_expiry_can_be_tested_with_a_frozen_clock(database: Database) -> None:
    """As with mayfly.testing; the period of a unique key uses the same clock."""
    with freeze_time(NOON) as frozen, pinned_offset():
        job = enqueue("noop", expires_in=60, unique_key="key", unique="for 1h")
        again = enqueue("noop", unique_key="key")
        frozen.tick(61)
        drain()
        held = enqueue("noop", unique_key="key")
        frozen.tick(3600)
        free = enqueue("noop", unique_key="key")

    assert (again, held) == (job, job)
    assert free != job
    assert get_row(database, job).last_error == "expired: not started by 2026-05-04 12:01:00 UTC"


def test_expiry_is_stored_in_utc_by_the_clock_of_the_database(database: Database) -> None:
    """By enqueue and by enqueue_many."""
    at = (host_now() + timedelta(days=1)).replace(microsecond=654321).astimezone()
    enqueue("noop", expires_at=at)
    enqueue_many([{"type": "noop", "expires_at": at}, {"type": "noop", "expires_in": timedelta(hours=1)}])

    first, second, third = (row.expires_at for row in rows_of(database, jobs))
    assert (first, second) == (at, at)
    assert abs(third - database.clock.now() - timedelta(hours=1)) < A_MINUTE


@sqlite_only
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"expires_at": datetime(2020, 1, 1, tzinfo=UTC)},
            "expires_at='2020-01-01 00:00:00 UTC': must be later than now",
        ),
        ({"expires_at": datetime(2099, 1, 1)}, "expires_at=.*: must be a datetime with a time zone"),  # noqa: DTZ001
        ({"expires_at": "tomorrow"}, "expires_at='tomorrow': must be a datetime"),
        ({"expires_in": 0}, "expires_in=0: must be more than 0 seconds"),
        ({"expires_in": -5}, "expires_in=-5"),
        ({"expires_in": 1e12}, "expires_in=1e12|expires_in=1000000000000.0"),
        ({"expires_in": float("nan")}, "expires_in=nan"),
        ({"expires_in": "soon"}, "expires_in='soon'"),
        ({"expires_in": 5, "expires_at": datetime(2099, 1, 1, tzinfo=UTC)}, "expires_in=5: must be omitted"),
        ({"expires_in": 5, "delay": 10}, "expires_at=.*: must be later than the job is due"),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, dict) else "",
)
def test_an_invalid_expiry_is_refused(arguments: dict[str, Any], message: str) -> None:
    """The sentence names the mistake."""
    with pytest.raises(BadField, match=f"^{message}"):
        enqueue("noop", **arguments)


UNREADABLE = {"sqlite": "soon", "mysql": "0000-00-00", "postgresql": "-infinity"}


@pytest.mark.parametrize("column", ["expires_at", "unique_until"])
def test_a_time_that_cannot_be_read_is_refused_by_the_table(database: Database, column: str) -> None:
    """It would stop its whole lane."""
    job = insert_row(database)
    values = {"id": job, "given": UNREADABLE[database.dialect.name]}

    with pytest.raises(DatabaseFailed):
        database.run(lambda c: c.execute(f"UPDATE mayfly_jobs SET {column} = :given WHERE id = :id", values))
