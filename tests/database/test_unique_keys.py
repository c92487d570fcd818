"""Unique keys: how long a job holds one, and what happens to a second job."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest

import mayfly
from mayfly import json_text
from mayfly.db.database import Database
from mayfly.errors import BadField, EnqueueError, KeyHeld
from mayfly.queue.outcome import DONE, RELEASED, Outcome, OutcomeKind, Settlement
from mayfly.queue.settle import settle
from mayfly.schema.metadata import jobs
from tests.database.application_connections import KINDS, Application, as_connection, opened
from tests.database.factories import (
    change_job,
    claim_jobs,
    in_threads,
    make_settler,
    mysql_only,
    rows_of,
    sqlite_only,
)
from tests.factories import get_row

pytestmark = pytest.mark.usefixtures("app")

FAILED = Outcome(OutcomeKind.FAILED, error="no", fingerprint="f", attempt_ending=OutcomeKind.FAILED)
SCOPES = ("until done", "while pending", "for 1h")
enqueue = partial(mayfly.enqueue, "noop", unique_key="key")


def settle_all(database: Database, outcome: Outcome) -> None:
    """Claim the due jobs and settle them with this outcome."""
    settlements = [Settlement(job, outcome, 1) for job in claim_jobs(database, 100)]
    settled = settle(database, make_settler(), settlements, {})
    assert len(settled.settlements) == len(settlements) > 0


def let_time_pass(database: Database, job_id: int | None) -> None:
    change_job(database, job_id, unique_until=database.clock.now() - timedelta(seconds=1))


def values_of(database: Database) -> list[Any]:
    """The payloads, oldest job first."""
    return [json_text.decode(row.payload).get("n") for row in rows_of(database, jobs)]


# --- how long a key is held -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("unique", "outcome", "held"),
    [
        ("until done", None, True),
        ("until done", FAILED, True),
        ("until done", RELEASED, True),
        ("until done", DONE, False),
        ("while pending", None, False),
        ("while pending", FAILED, False),
        ("while pending", RELEASED, False),
        ("while pending", DONE, False),
        ("for 1h", None, True),
        ("for 1h", FAILED, True),
        ("for 1h", DONE, True),
        (timedelta(minutes=5), DONE, True),
        (90, DONE, True),
    ],
    ids=lambda value: value.kind.value if isinstance(value, Outcome) else str(value),
)
def test_the_scope_decides_how_long_a_key_is_held(
    database: Database, unique: Any, outcome: Outcome | None, held: bool
) -> None:
    """After the claim (None: still running) and after each outcome."""
    first = enqueue(unique=unique)
    claim_jobs(database) if outcome is None else settle_all(database, outcome)

    assert (enqueue(unique=unique) == first) is held


@pytest.mark.parametrize("unique", SCOPES)
@pytest.mark.parametrize("second_unique", SCOPES)
def test_a_pending_job_holds_its_key_against_every_scope(unique: str, second_unique: str) -> None:
    """The scope of the holder counts, not that of the new job."""
    first = enqueue(unique=unique)

    assert enqueue(unique=second_unique) == first


@pytest.mark.parametrize("second_unique", [None, *SCOPES])
def test_a_key_is_free_when_its_period_is_over(database: Database, second_unique: str | None) -> None:
    """Whether or not its job has run; the new job takes the key, the old one stays in the lane."""
    first = enqueue(unique="for 1h")
    let_time_pass(database, first)

    second = enqueue(unique=second_unique)

    assert second != first
    assert [(row.status, row.unique_key) for row in rows_of(database, jobs)] == [
        ("pending", None),
        ("pending", "key"),
    ]


def test_a_time_counts_by_the_databases_clock(database: Database) -> None:
    enqueue(unique="for 2h")

    [row] = rows_of(database, jobs)
    assert row.unique_scope == "time"
    left = row.unique_until - database.clock.now()
    assert timedelta(hours=1, minutes=59) < left <= timedelta(hours=2)


@pytest.mark.parametrize("first", SCOPES)
@pytest.mark.parametrize("second", SCOPES)
@pytest.mark.parametrize("outcome", [FAILED, RELEASED, DONE], ids=lambda outcome: outcome.kind.value)
def test_settling_never_violates_the_constraint(
    database: Database, first: str, second: str, outcome: Outcome
) -> None:
    """A job becomes pending again while others with its key are enqueued, claimed and settled."""
    for unique in (first, second):
        enqueue(unique=unique)
        early = claim_jobs(database, 100, worker_id="worker-1")
        enqueue(unique=unique)
        late = claim_jobs(database, 100, worker_id="worker-2")
        for worker_id, batch in (("worker-1", early), ("worker-2", late)):
            settlements = [Settlement(job, outcome, 1) for job in batch]
            settled = settle(database, make_settler(worker_id), settlements, {})
            assert len(settled.settlements) == len(batch)


# --- the second job ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("unique", SCOPES)
def test_a_pending_job_is_replaced(database: Database, unique: str) -> None:
    """The id stays; everything else is that of the new job, with its defaults."""
    first = enqueue({"n": 1}, unique=unique, delay=3600, group_key="g", priority=2, expires_in=7200)

    second = mayfly.enqueue(
        "sleep", {"seconds": 2}, lane="l", max_attempts=9, unique_key="key", unique=unique, on_conflict="replace"
    )

    row = get_row(database, first)
    assert (second, len(rows_of(database, jobs))) == (first, 1)
    assert (row.type, row.payload, row.lane, row.max_attempts) == ("sleep", '{"seconds":2}', "l", 9)
    assert (row.priority, row.group_key, row.expires_at, row.unique_key) == (1, None, None, "key")
    assert abs(row.run_at - database.clock.now()) < timedelta(seconds=20)


def test_a_replaced_job_has_the_times_of_the_new_one(database: Database) -> None:
    first = enqueue()

    enqueue(delay=60, expires_in=120, group_key="g", priority=0, on_conflict="replace")

    row = get_row(database, first)
    assert (row.group_key, row.priority) == ("g", 0)
    now = database.clock.now()
    assert timedelta(seconds=40) < row.run_at - now <= timedelta(seconds=61)
    assert timedelta(seconds=100) < row.expires_at - now <= timedelta(seconds=121)


@pytest.mark.parametrize("outcome", [None, FAILED], ids=["processing", "to be tried again"])
def test_a_claimed_job_is_not_replaced(database: Database, outcome: Outcome | None) -> None:
    """A runner may have read its payload: it is unchanged, and its id is returned."""
    first = enqueue({"n": 1})
    claim_jobs(database) if outcome is None else settle_all(database, outcome)

    second = enqueue({"n": 2}, on_conflict="replace")

    assert (second, values_of(database)) == (first, [1])


def test_a_job_whose_period_is_over_is_not_replaced(database: Database) -> None:
    """It no longer holds the key."""
    first = enqueue({"n": 1}, unique="for 1h")
    let_time_pass(database, first)

    enqueue({"n": 2}, unique="for 1h", on_conflict="replace")

    assert values_of(database) == [1, 2]


def test_a_debounce_runs_the_last_payload(database: Database) -> None:
    """A pending job is replaced; once it runs, the next one is a new job."""
    for n in (1, 2, 3):
        enqueue({"n": n}, unique="while pending", on_conflict="replace")
    [taken] = claim_jobs(database)
    enqueue({"n": 4}, unique="while pending", on_conflict="replace")

    assert taken.payload == {"n": 3}
    assert values_of(database) == [3, 4]


def test_on_conflict_error_names_the_holder(database: Database) -> None:
    """Nothing is inserted."""
    first = enqueue(on_conflict="error")

    with pytest.raises(KeyHeld, match=f"^unique_key='key' is held by job {first}\\.") as caught:
        enqueue(on_conflict="error")

    assert caught.value.holder_id == first
    assert len(rows_of(database, jobs)) == 1


# --- enqueue_many -----------------------------------------------------------------------------------------


def test_enqueue_many_takes_keys_whose_period_is_over(database: Database) -> None:
    """Among free and held keys, each only once."""
    for key in ("over", "held"):
        mayfly.enqueue("noop", unique_key=key, unique="for 1h")
    let_time_pass(database, rows_of(database, jobs)[0].id)
    keys = ["free", "over", "held", "over"]

    inserted = mayfly.enqueue_many({"type": "noop", "unique_key": key, "unique": "for 1h"} for key in keys)

    assert inserted == 2
    assert [row.unique_key for row in rows_of(database, jobs)] == [None, "held", "free", "over"]


def test_enqueue_many_replaces(database: Database) -> None:
    """Replaced jobs count, skipped ones do not; the last job of a key is kept."""
    taken = enqueue({"n": 0})
    claim_jobs(database)
    new = [("key", 1), ("a", 1), ("a", 2), ("b", 1), ("a", 3)]

    counted = mayfly.enqueue_many(
        {"type": "noop", "payload": {"n": n}, "unique_key": key, "on_conflict": "replace"} for key, n in new
    )

    assert counted == 4
    found = {row.unique_key: json_text.decode(row.payload)["n"] for row in rows_of(database, jobs)}
    assert found == {"key": 0, "a": 3, "b": 1}
    assert get_row(database, taken).status == "processing"


def test_enqueue_many_raises_the_first_conflict(database: Database) -> None:
    """Jobs before it are enqueued."""
    new = [{"type": "noop", "unique_key": key, "on_conflict": "error"} for key in "abac"]

    with pytest.raises(KeyHeld, match="'a'"):
        mayfly.enqueue_many(new)

    assert [row.unique_key for row in rows_of(database, jobs)] == ["a", "b"]


# --- in an application's transaction ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_unique_keys_work_on_an_applications_connection(kind: Any, migrated_url: str, database: Database) -> None:
    """They are committed with its transaction, with any driver and row type."""
    over = enqueue({"n": 1}, unique="for 1h")
    let_time_pass(database, over)
    with opened(kind, migrated_url) as application:
        on = partial(enqueue, connection=application.connection)
        first = on({"n": 2}, unique="for 1h")
        replaced = on({"n": 3}, on_conflict="replace")
        kept = on({"n": 4}, unique="while pending", expires_in=60)
        with pytest.raises(KeyHeld, match=f"job {first}"):
            on({"n": 5}, on_conflict="error")
        many = mayfly.enqueue_many(
            [{"type": "noop", "unique_key": key, "unique": "for 1d"} for key in ("key", "new")],
            connection=application.connection,
        )
        application.commit()

    assert (replaced, kept, many) == (first, first, 1)
    assert first != over
    assert values_of(database) == [1, 3, None]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_enqueue_many_on_an_applications_connection_takes_keys_whose_period_is_over(
    kind: Any, migrated_url: str, database: Database
) -> None:
    over = enqueue(unique="for 1h")
    let_time_pass(database, over)
    with opened(kind, migrated_url) as application:
        inserted = mayfly.enqueue_many([{"type": "noop", "unique_key": "key"}] * 2, connection=application.connection)
        application.commit()

    assert inserted == 1
    assert [row.unique_key for row in rows_of(database, jobs)] == [None, "key"]


@mysql_only
@pytest.mark.parametrize("on_conflict", ["keep", "replace", "error"])
def test_a_holder_newer_than_the_snapshot_is_found(migrated_url: str, database: Database, on_conflict: str) -> None:
    """In REPEATABLE READ a plain query would never see it; also one whose period is over."""
    with opened(as_connection, migrated_url) as application:
        application.run("SELECT id FROM mayfly_jobs")
        held = enqueue({"n": 1})
        let_time_pass(database, mayfly.enqueue("noop", {"n": 2}, unique_key="over", unique="for 1h"))

        returned = enqueue_or_holder(application, {"n": 3}, "key", on_conflict)
        free = enqueue_or_holder(application, {"n": 4}, "over", on_conflict)
        application.commit()

    assert (returned, free) == (held, rows_of(database, jobs)[-1].id)
    assert values_of(database) == [3 if on_conflict == "replace" else 1, 2, 4]


def enqueue_or_holder(application: Application, payload: dict[str, int], key: str, on_conflict: str) -> int | None:
    try:
        return mayfly.enqueue(
            "noop", payload, unique_key=key, on_conflict=on_conflict, connection=application.connection
        )
    except KeyHeld as held:
        return held.holder_id


# --- concurrent calls -------------------------------------------------------------------------------------


@pytest.mark.parametrize("on_conflict", ["keep", "replace"])
@pytest.mark.parametrize("unique", SCOPES)
def test_concurrent_calls_make_one_job(database: Database, unique: str, on_conflict: str) -> None:
    ids = in_threads([partial(enqueue, unique=unique, on_conflict=on_conflict)] * 8)

    assert ids == [row.id for row in rows_of(database, jobs)] * 8


def test_one_of_many_concurrent_calls_succeeds(database: Database) -> None:
    """With on_conflict="error", exactly one."""

    def try_it() -> bool:
        try:
            enqueue(on_conflict="error")
        except KeyHeld:
            return False
        return True

    assert sorted(in_threads([try_it] * 8)) == [False] * 7 + [True]


def test_a_key_whose_period_is_over_is_taken_by_one_of_many_calls(database: Database) -> None:
    """In every round all calls return the same new job."""
    for _ in range(5):
        before = {row.id for row in rows_of(database, jobs)}
        [job] = set(in_threads([partial(enqueue, unique="for 1h")] * 8))
        assert job not in before
        let_time_pass(database, job)


@sqlite_only
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"unique": "until Friday"}, "unique='until Friday': must be 'until done'"),
        ({"unique": "for 1w"}, "unique='for 1w'"),
        ({"unique": "for 0s"}, "unique='for 0s'"),
        ({"unique": "for -1h"}, "unique='for -1h'"),
        ({"unique": "for 999999999d"}, "unique='for 999999999d'"),
        ({"unique": "for 8d"}, "unique='for 8d': must be at most 7 days"),
        ({"unique": timedelta(seconds=-1)}, "unique=datetime.timedelta"),
        ({"unique": float("nan")}, "unique=nan"),
        ({"unique": float("inf")}, "unique=inf"),
        ({"unique": True}, "unique=True"),
        ({"unique": []}, r"unique=\[\]"),
        ({"on_conflict": "merge"}, "on_conflict='merge': must be one of keep, replace, error"),
        ({"on_conflict": 1}, "on_conflict=1"),
    ],
    ids=str,
)
def test_unknown_scopes_and_conflict_rules_are_refused(arguments: dict[str, Any], message: str) -> None:
    """The sentence lists the known ones."""
    with pytest.raises(BadField, match=f"^{message}"):
        enqueue(**arguments)


@sqlite_only
@pytest.mark.parametrize(
    "arguments", [{"unique": "for 1h"}, {"on_conflict": "keep"}, {"unique": "until done"}], ids=str
)
def test_scopes_and_conflict_rules_need_a_key(arguments: dict[str, Any]) -> None:
    with pytest.raises(
        BadField, match=f"^{next(iter(arguments))}=.*: must be omitted without a unique_key"
    ) as caught:
        mayfly.enqueue("noop", **arguments)

    assert isinstance(caught.value, EnqueueError)
