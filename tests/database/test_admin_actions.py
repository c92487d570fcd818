"""The verbs of operators: what each changes, what it leaves alone, and the one row that says who did it."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from mayfly.admin import actions
from mayfly.admin.actions import CANCEL, DELAY, DISCARD, RETRY, BulkResult, Verb, act, count_matching
from mayfly.admin.audit import HTTP, TERMINAL, Actor
from mayfly.admin.filters import JobFilter
from mayfly.admin.lanes import end_pause, set_max_workers, start_pause
from mayfly.db.database import Database
from mayfly.errors import BadField, NoJobsSelected
from mayfly.fleet.cycles import known_lanes
from mayfly.queue.outcome import Outcome, OutcomeKind, Settlement
from mayfly.queue.pauses import load_pauses
from mayfly.queue.settle import settle
from mayfly.schema import metadata as tables
from tests.database.factories import (
    claim_ids,
    claim_jobs,
    in_threads,
    insert_table_row,
    make_settler,
    rows_of,
    servers_only,
)
from tests.factories import get_row, insert_row, insert_rows

HOUR = timedelta(hours=1)
ANN = Actor("ann", TERMINAL)


def insert_dead(database: Database, fingerprint: str = "f", **columns: Any) -> int:
    """A job that died of an error, with the attempt that says so."""
    now = database.clock.now()
    fields = {"status": "dead", "attempts": 5, "claims": 5, "last_error": "no", "finished_at": now, **columns}
    job_id = insert_row(database, **fields)
    insert_table_row(
        database, tables.attempts, job_id=job_id, attempt=5, worker_id="w", outcome="failed", error="no",
        fingerprint=fingerprint, finished_at=now,
    )  # fmt: skip
    return job_id


def statuses(database: Database, *ids: int) -> list[str]:
    return [get_row(database, each).status for each in ids]


# --- retry ------------------------------------------------------------------------------------------------


def test_a_dead_job_gets_all_its_tries_again(database: Database) -> None:
    """The same row, due at once; its fencing token goes on, what it had reached stays."""
    job_id = insert_dead(database, crashes=3, suspect=1, checkpoint='{"at": 7}', worker_id="w")

    done = act(database, RETRY, JobFilter(ids=(job_id,)), ANN)

    row = get_row(database, job_id)
    assert done == BulkResult(changed=1)
    assert (row.status, row.attempts, row.crashes, row.suspect, row.claims) == ("pending", 0, 0, 0, 5)
    assert (row.worker_id, row.finished_at, row.checkpoint) == (None, None, '{"at": 7}')
    assert claim_ids(database) == [job_id]
    assert len(rows_of(database, tables.jobs)) == 1


def test_a_cancelled_job_can_be_tried_again(database: Database) -> None:
    """It is not told to end any more, and an expiry that is over does not end it again."""
    before = database.clock.now() - HOUR
    job_id = insert_row(database, status="cancelled", cancel_reason="a mistake", expires_at=before)

    act(database, RETRY, JobFilter(ids=(job_id,)), ANN)

    row = get_row(database, job_id)
    assert (row.status, row.cancel_reason, row.expires_at) == ("pending", None, None)


def test_a_job_that_waits_for_its_next_try_has_it_now(database: Database) -> None:
    """And keeps the attempts that it has spent."""
    job_id = insert_row(database, run_at=database.clock.now() + HOUR, attempts=2, waiting_for="a limit")

    act(database, RETRY, JobFilter(ids=(job_id,)), ANN)

    row = get_row(database, job_id)
    assert (row.status, row.attempts, row.waiting_for) == ("pending", 2, None)
    assert claim_ids(database) == [job_id]


@pytest.mark.parametrize("status", ["done", "processing"])
def test_what_runs_or_is_done_is_not_tried_again(database: Database, status: str) -> None:
    """Nor is one that is due already."""
    ids = (insert_row(database, status=status), insert_row(database))

    assert act(database, RETRY, JobFilter(ids=ids), ANN) == BulkResult()
    assert statuses(database, *ids) == [status, "pending"]


def test_a_filter_means_dead_jobs(database: Database) -> None:
    """Of one type, in every lane; the cancelled ones only where that is said."""
    dead = [insert_dead(database, type="mail", lane=lane) for lane in ("a", "b")]
    cancelled = insert_row(database, type="mail", status="cancelled")

    first = act(database, RETRY, JobFilter(type="mail"), ANN)
    second = act(database, RETRY, JobFilter(type="mail", status="cancelled"), ANN)

    assert (first.changed, second.changed) == (2, 1)
    assert statuses(database, *dead, cancelled) == ["pending"] * 3


def test_jobs_are_found_by_their_last_error(database: Database) -> None:
    """One that failed of it once and then died of something else is another matter."""
    ours = [insert_dead(database, "aaaa", lane=lane) for lane in ("a", "b")]
    other = insert_dead(database, "aaaa")
    now = database.clock.now()
    insert_table_row(
        database, tables.attempts, job_id=other, attempt=5, worker_id="w", outcome="failed", error="no",
        fingerprint="bbbb", finished_at=now,
    )  # fmt: skip

    counted = count_matching(database, RETRY, JobFilter(error="aaaa"))
    done = act(database, RETRY, JobFilter(error="aaaa"), ANN)

    assert (counted, done.changed) == (2, 2)
    assert statuses(database, *ours, other) == ["pending", "pending", "dead"]


def test_a_job_whose_key_is_held_stays_dead(database: Database) -> None:
    """Another job does its work by now; of two dead ones with the same key one lives again."""
    held = insert_dead(database, unique_key="welcome:1")
    insert_row(database, unique_key="welcome:1")
    two = [insert_dead(database, unique_key="welcome:2") for _ in range(2)]
    free = insert_dead(database)

    done = act(database, RETRY, JobFilter(ids=(held, *two, free)), ANN)

    assert done == BulkResult(changed=2, held=2)
    assert statuses(database, held, *two, free) == ["dead", "pending", "dead", "pending"]


def test_jobs_whose_keys_are_held_do_not_hold_up_the_rest(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than a slice of them stays dead, and what lies behind them is still reached."""
    monkeypatch.setattr("mayfly.admin.actions.ROWS_PER_SLICE", 2)
    at = database.clock.now() - HOUR
    for number in range(5):
        insert_row(database, unique_key=f"k{number}")
        insert_dead(database, unique_key=f"k{number}", run_at=at)
    free = [insert_dead(database, run_at=at) for _ in range(3)]

    done = act(database, RETRY, JobFilter(type="noop"), ANN)

    assert done == BulkResult(changed=3, held=5)
    assert statuses(database, *free) == ["pending"] * 3


def test_two_who_retry_at_once_share_the_jobs(database: Database, rival: Database) -> None:
    """Each dead job lives again once, and one of each key."""
    for number in range(20):
        insert_dead(database, unique_key=f"k{number % 10}")
        insert_dead(database)

    works: list[Callable[[], BulkResult]] = [
        lambda: act(database, RETRY, JobFilter(type="noop"), ANN),
        lambda: act(rival, RETRY, JobFilter(type="noop"), ANN),
    ]
    done = in_threads(works)

    assert sum(each.changed for each in done) == 30
    assert sorted(row.status for row in rows_of(database, tables.jobs)) == ["dead"] * 10 + ["pending"] * 30


# --- discard ----------------------------------------------------------------------------------------------


def test_a_discarded_job_leaves_the_list_with_who_and_why(database: Database) -> None:
    """Cancelled, since now: it is kept as long as others that are. The error it died of stays."""
    job_id = insert_dead(database, finished_at=database.clock.now() - 900 * HOUR)

    done = act(database, DISCARD, JobFilter(ids=(job_id,)), ANN, "nobody needs it")

    row = get_row(database, job_id)
    assert done == BulkResult(changed=1)
    assert (row.status, row.last_error) == ("cancelled", "no")
    assert row.cancel_reason == "discarded by ann: nobody needs it"
    assert database.clock.now() - row.finished_at < HOUR


def test_only_dead_jobs_are_discarded(database: Database) -> None:
    """Whatever else has the id."""
    ids = tuple(insert_row(database, status=each) for each in ("pending", "processing", "done", "cancelled"))

    assert act(database, DISCARD, JobFilter(ids=ids), ANN) == BulkResult()
    with pytest.raises(BadField, match="status='done': must be one of dead"):
        act(database, DISCARD, JobFilter(lane="a", status="done"), ANN)


# --- delay ------------------------------------------------------------------------------------------------


def test_a_delayed_job_is_not_claimed_before(database: Database) -> None:
    """It says by whom; one that is due later anyway stays where it is."""
    until = database.clock.now() + HOUR
    soon, later = insert_row(database), insert_row(database, run_at=until + HOUR)

    done = act(database, DELAY, JobFilter(ids=(soon, later)), ANN, "the vendor is down", until)

    row = get_row(database, soon)
    assert done == BulkResult(changed=1)
    assert (row.run_at, row.waiting_for) == (until, "delayed by ann: the vendor is down")
    assert get_row(database, later).run_at == until + HOUR
    assert claim_ids(database) == []


def test_a_lane_is_delayed_in_slices(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was moved is not found again, though it lies further along the same index."""
    monkeypatch.setattr("mayfly.admin.actions.ROWS_PER_SLICE", 3)
    insert_rows(database, 8, lane="mail")
    told: list[int] = []

    done = act(
        database, DELAY, JobFilter(lane="mail"), ANN, until=database.clock.now() + HOUR, on_progress=told.append
    )

    assert (done.changed, told) == (8, [3, 3, 2])


def test_nothing_is_delayed_into_the_past(database: Database) -> None:
    with pytest.raises(BadField, match="must be a time in the future"):
        act(database, DELAY, JobFilter(lane="a"), ANN, until=database.clock.now() - HOUR)


# --- lanes ------------------------------------------------------------------------------------------------


def test_a_lane_is_set_and_set_back(database: Database) -> None:
    """With who and when; what the planner counts of it is not touched."""
    insert_table_row(database, tables.lanes, lane="mail", passed_over=3)

    set_max_workers(database, "mail", 2, ANN)
    as_set = database.read(known_lanes)["mail"]
    set_max_workers(database, "mail", None, ANN)
    as_before = database.read(known_lanes)["mail"]

    assert (as_set.passed_over, as_set.max_workers, as_set.set_by) == (3, 2, "ann")
    assert as_set.set_at is not None
    assert (as_before.passed_over, as_before.max_workers, as_before.set_by) == (3, None, None)
    assert [row.subject for row in rows_of(database, tables.audit)] == [
        "mail max_workers=2",
        "mail max_workers=default",
    ]


@pytest.mark.parametrize("number", [0, -1, 1001, True, "2"])
def test_a_lane_is_set_within_bounds(database: Database, number: Any) -> None:
    with pytest.raises(BadField, match="must be an integer from 1 to 1000"):
        set_max_workers(database, "mail", number, ANN)


def test_pauses_are_deeds(database: Database) -> None:
    """Each of them, and each end; to resume what runs is none."""
    start_pause(database, "type", "noop", ANN, reason="the vendor is down")
    held = database.read(lambda connection: load_pauses(connection, database.clock.now()))
    resumed = [end_pause(database, "type", "noop", ANN) for _ in range(2)]

    assert (held.types["noop"].paused_by, held.types["noop"].reason) == ("ann", "the vendor is down")
    assert [each.was_paused for each in resumed] == [True, False]
    told = [(row.verb, row.subject, row.jobs, row.reason) for row in rows_of(database, tables.audit)]
    assert told == [("pause type", "noop", None, "the vendor is down"), ("resume type", "noop", None, None)]


@pytest.mark.parametrize(("kind", "name"), [("host", "a"), ("lane", ""), ("lane", "x" * 65), ("type", "\x00")])
def test_only_what_can_be_paused_is(database: Database, kind: str, name: str) -> None:
    with pytest.raises(BadField, match="must be"):
        start_pause(database, kind, name, ANN)


# --- the audit --------------------------------------------------------------------------------------------


def test_one_deed_is_one_row(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many slices it takes: who, through which door, what, how many, why."""
    monkeypatch.setattr("mayfly.admin.actions.ROWS_PER_SLICE", 3)
    insert_rows(database, 7, lane="mail")
    before = database.clock.now()

    act(database, CANCEL, JobFilter(lane="mail", type="noop"), Actor("nightly", HTTP), "a mistake")

    [row] = rows_of(database, tables.audit)
    assert (row.done_by, row.via, row.verb, row.subject) == ("nightly", "http", "cancel", "lane=mail type=noop")
    assert (row.jobs, row.reason) == (7, "a mistake")
    assert before <= row.done_at <= database.clock.now()


def test_what_changed_nothing_is_no_deed(database: Database) -> None:
    """Nor is what Mayfly does by itself."""
    insert_row(database, lane="mail")

    act(database, RETRY, JobFilter(lane="mail"), ANN)
    act(database, CANCEL, JobFilter(lane="mail"))

    assert rows_of(database, tables.audit) == []


def test_a_deed_that_is_stopped_half_way_says_how_far_it_came(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs and their number are committed together."""
    monkeypatch.setattr("mayfly.admin.actions.ROWS_PER_SLICE", 3)
    insert_rows(database, 7, lane="mail")

    def stop(_jobs: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        act(database, CANCEL, JobFilter(lane="mail"), ANN, on_progress=stop)

    assert [row.jobs for row in rows_of(database, tables.audit)] == [3]
    assert sorted(row.status for row in rows_of(database, tables.jobs)).count("cancelled") == 3


def test_many_ids_are_told_shortly(database: Database) -> None:
    """A deed's row says which, as far as people read it."""
    ids = insert_rows(database, 30)

    act(database, CANCEL, JobFilter(ids=tuple(ids)), ANN)

    [row] = rows_of(database, tables.audit)
    assert row.subject == f"ids={','.join(map(str, ids[:20]))},… (30)"


@pytest.mark.parametrize("verb", [RETRY, DISCARD])
def test_everything_is_never_meant(database: Database, verb: Verb) -> None:
    """By no verb."""
    with pytest.raises(NoJobsSelected):
        act(database, verb, JobFilter(), ANN)


# --- chains -----------------------------------------------------------------------------------------------


def test_a_settled_retry_is_like_any_other_job(database: Database) -> None:
    """Claimed, failed and dead once more: its attempts count from one again, and its old ones are kept."""
    job_id = insert_dead(database, max_attempts=1)
    act(database, RETRY, JobFilter(ids=(job_id,)), ANN)
    [job] = claim_jobs(database)
    dead = Outcome(OutcomeKind.DEAD, error="again", fingerprint="f", attempt_ending=OutcomeKind.FAILED)

    settle(database, make_settler(), [Settlement(job, dead, 1)], {})

    row = get_row(database, job_id)
    assert (row.status, row.attempts, row.claims, row.last_error) == ("dead", 1, 6, "again")
    assert [each.attempt for each in rows_of(database, tables.attempts)] == [5, 1]


@servers_only
def test_a_key_that_is_taken_between_look_and_change_is_seen(
    database: Database, rival: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database refuses, the slice is done again, and its job stays dead; the others live again."""
    held, free = insert_dead(database, unique_key="welcome:1"), insert_dead(database)
    look = actions._with_free_keys
    thieves = [lambda: insert_row(rival, unique_key="welcome:1")]

    def look_and_be_late(*arguments: Any) -> list[int]:
        found = look(*arguments)
        if thieves:
            thieves.pop()()
        return found

    monkeypatch.setattr(actions, "_with_free_keys", look_and_be_late)

    done = act(database, RETRY, JobFilter(ids=(held, free)), ANN)

    assert (done, thieves) == (BulkResult(changed=1, held=1), [])
    assert statuses(database, held, free) == ["dead", "pending"]
