"""Enqueueing from Python: the job is committed when the call returns, and its unique key is held until it ends."""

from collections import Counter
from datetime import UTC, datetime, timedelta, timezone
from functools import partial

import pytest
from freezegun import freeze_time

import mayfly
from mayfly.client import App, use_app
from mayfly.clock import host_now
from mayfly.db.database import Database
from mayfly.errors import BadField, BadPayload, SchemaMismatch
from mayfly.schema.metadata import jobs
from mayfly.settings import load_settings
from tests.database.factories import change_job, in_threads, rows_of, run_sql, sqlite_only
from tests.factories import get_row

FAR_EAST = timezone(timedelta(hours=14))

pytestmark = pytest.mark.usefixtures("app")


def test_enqueue_returns_the_id(database: Database) -> None:
    """The row is committed and complete."""
    job = mayfly.enqueue("report", {"month": 5}, lane="reports", priority=0, group_key="g", max_attempts=2)

    row = get_row(database, job)
    assert (row.type, row.payload, row.lane, row.priority) == ("report", '{"month":5}', "reports", 0)
    assert (row.group_key, row.max_attempts, row.status, row.unique_key) == ("g", 2, "pending", None)
    assert timedelta(0) <= database.clock.now() - row.run_at < timedelta(seconds=20)


@pytest.mark.parametrize("version", ["0000", "9999"])
def test_tables_of_another_version_are_refused(database: Database, version: str) -> None:
    """By the first call of a process, and by each further one until they are migrated."""
    run_sql(database, f"UPDATE mayfly_version SET version_num = '{version}'")

    for _ in range(2):
        with pytest.raises(SchemaMismatch, match=version):
            mayfly.enqueue("noop")

    assert rows_of(database, jobs) == []


def test_the_options_of_a_handler_are_used(database: Database) -> None:
    """Missing ones come from the settings."""
    job = mayfly.enqueue("sleep", {"seconds": 1})

    row = get_row(database, job)
    assert (row.lane, row.max_attempts, row.priority) == ("default", 5, 1)


def test_run_at_is_stored_to_the_microsecond(database: Database) -> None:
    """From any zone."""
    at = (host_now() + timedelta(days=1)).replace(microsecond=654321).astimezone()

    job = mayfly.enqueue("noop", run_at=at)

    assert get_row(database, job).run_at == at


@pytest.mark.parametrize("at", [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)], ids=str)
def test_every_time_of_python_can_be_stored(database: Database, at: datetime) -> None:
    """The first means "at once", the last "never"."""
    job = mayfly.enqueue("noop", run_at=at)

    assert get_row(database, job).run_at == at


def test_a_delay_counts_from_the_time_of_the_database(migrated_url: str, database: Database) -> None:
    """A producer whose clock is a day ahead delays by a minute, not by a day and a minute."""
    with freeze_time(host_now() + timedelta(days=1)):
        ahead = App(load_settings())
        use_app(ahead)
        job = mayfly.enqueue("noop", delay=60)
        ahead.database.close()

    wait = get_row(database, job).run_at - database.clock.now()
    assert timedelta(seconds=30) < wait <= timedelta(seconds=61)


def test_a_key_is_held_by_one_job() -> None:
    """The second call gets its id."""
    first = mayfly.enqueue("noop", unique_key="report-5")

    second = mayfly.enqueue("noop", unique_key="report-5")

    assert second == first


@pytest.mark.parametrize(
    ("status", "held"),
    [("pending", True), ("processing", True), ("done", False), ("dead", False), ("cancelled", False)],
)
def test_a_key_is_held_until_its_job_has_ended(database: Database, status: str, held: bool) -> None:
    """Done, dead or cancelled jobs free it."""
    first = mayfly.enqueue("noop", unique_key="key")
    change_job(database, first, status=status)

    second = mayfly.enqueue("noop", unique_key="key")

    assert (second == first) is held


def test_finished_jobs_can_share_a_key(database: Database) -> None:
    """A key is not a name: the reports of yesterday and today can both be done."""
    for _ in range(3):
        change_job(database, mayfly.enqueue("noop", unique_key="key"), status="done")

    assert [row.status for row in rows_of(database, jobs)] == ["done"] * 3


def test_concurrent_calls_take_a_key_once(migrated_url: str, database: Database) -> None:
    """Eight threads: one row, and all get its id."""
    ids = in_threads([partial(mayfly.enqueue, "noop", unique_key="key")] * 8)

    assert ids == [row.id for row in rows_of(database, jobs)] * 8


def test_keys_that_are_freed_and_taken_are_never_held_twice(migrated_url: str, database: Database) -> None:
    """While jobs end concurrently, each call returns a job that held the key at that time."""

    def enqueue_and_end() -> list[int | None]:
        ids = []
        for _ in range(10):
            ids.append(mayfly.enqueue("noop", unique_key="key"))
            change_job(database, ids[-1], status="done")
        return ids

    ids = in_threads([enqueue_and_end] * 4)

    assert {each for part in ids for each in part} == {row.id for row in rows_of(database, jobs)}


def test_enqueue_many_returns_the_number_of_inserted_jobs(database: Database) -> None:
    """2,500 jobs in three statements."""
    inserted = mayfly.enqueue_many({"type": "noop", "payload": {"n": number}} for number in range(2500))

    assert inserted == 2500
    assert [row.payload for row in rows_of(database, jobs)] == [f'{{"n":{number}}}' for number in range(2500)]


def test_enqueue_many_skips_held_keys(database: Database) -> None:
    """Held before or by another job of the call; the others are inserted, with and without a key."""
    mayfly.enqueue("noop", unique_key="held")
    keys = ["held", "a", None, "b", "a", None, "held", "c"]

    inserted = mayfly.enqueue_many({"type": "noop", "unique_key": key} for key in keys)

    assert inserted == 5
    found = Counter(row.unique_key for row in rows_of(database, jobs))
    assert found == Counter({"held": 1, "a": 1, "b": 1, "c": 1, None: 2})


def test_enqueue_many_takes_every_option_of_enqueue(database: Database) -> None:
    """Consecutive jobs can have different columns."""
    at = host_now() + timedelta(days=1)

    mayfly.enqueue_many(
        [
            {"type": "noop"},
            {"type": "sleep", "payload": {"seconds": 2}, "lane": "slow", "priority": 2},
            {"type": "noop", "run_at": at, "group_key": "g", "max_attempts": 1},
        ]
    )

    plain, slow, later = rows_of(database, jobs)
    assert (plain.lane, plain.payload, plain.priority) == ("default", "{}", 1)
    assert (slow.lane, slow.payload, slow.priority) == ("slow", '{"seconds":2}', 2)
    assert (later.run_at, later.group_key, later.max_attempts) == (at, "g", 1)


def test_enqueue_many_of_nothing_inserts_nothing() -> None:
    assert mayfly.enqueue_many([]) == 0


def test_a_payload_that_does_not_match_its_model_is_refused(database: Database) -> None:
    """With the field and the reason; nothing is inserted."""
    with pytest.raises(BadPayload, match=r"seconds: Input should be greater than or equal to 0"):
        mayfly.enqueue("sleep", {"seconds": -1})

    assert rows_of(database, jobs) == []


@sqlite_only
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"lane": ""}, "lane=''"),
        ({"lane": "x" * 65}, "lane="),
        ({"type": " "}, "type=' '"),
        ({"type": "a\x00"}, "type="),
        ({"unique_key": ""}, "unique_key=''"),
        ({"unique_key": "\ud800"}, "unique_key="),
        ({"group_key": "x" * 191}, "group_key="),
        ({"priority": 3}, "priority=3"),
        ({"priority": True}, "priority=True"),
        ({"max_attempts": 0}, "max_attempts=0"),
        ({"run_at": host_now().replace(tzinfo=None)}, "run_at="),
        ({"run_at": datetime.min.replace(tzinfo=FAR_EAST)}, "run_at="),
        ({"delay": 1e12}, "delay="),
        ({"delay": float("nan")}, "delay="),
        ({"connection": object()}, "connection='object'"),
    ],
    ids=lambda value: str(next(iter(value.items())))[:30] if isinstance(value, dict) else "",
)
def test_an_argument_that_no_database_can_store_is_refused(arguments: dict[str, object], message: str) -> None:
    """With its name and its bounds, before any statement is sent."""
    with pytest.raises(BadField, match=f"^{message}"):
        mayfly.enqueue(**{"type": "noop"} | arguments)  # type: ignore[arg-type]
