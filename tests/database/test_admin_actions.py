"""The verbs of operators: what each changes, what it leaves alone, and its audit entry."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from mayfly.admin import actions, filters
from mayfly.admin.actions import CANCEL, DELAY, DISCARD, RETRY, BulkResult, Verb, act, count_matching
from mayfly.admin.auth import HTTP, TERMINAL, Actor
from mayfly.admin.filters import JobFilter
from mayfly.admin.jobs import CappedCount
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
from tests.factories import NOON, get_row, insert_row, insert_rows

HOUR = timedelta(hours=1)
ANN = Actor("ann", TERMINAL)


def insert_dead(database: Database, fingerprint: str = "f", **columns: Any) -> int:
    """A dead job with the attempt that has its error."""
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


def test_a_retried_dead_job_gets_all_its_attempts(database: Database) -> None:
    """The same row, due at once; its fencing token and checkpoint are kept."""
    job_id = insert_dead(database, crashes=3, suspect=1, checkpoint='{"at": 7}', worker_id="w", unknown_since=NOON)

    done = act(database, RETRY, JobFilter(ids=(job_id,)), ANN)

    row = get_row(database, job_id)
    assert done == BulkResult(changed=1)
    assert (row.status, row.attempts, row.crashes, row.suspect, row.claims) == ("pending", 0, 0, 0, 5)
    assert (row.worker_id, row.finished_at, row.checkpoint) == (None, None, '{"at": 7}')
    assert row.unknown_since is None
    assert claim_ids(database) == [job_id]
    assert len(rows_of(database, tables.jobs)) == 1


def test_a_cancelled_job_can_be_retried(database: Database) -> None:
    """Its cancellation request and an expiry in the past are cleared."""
    before = database.clock.now() - HOUR
    job_id = insert_row(database, status="cancelled", cancel_reason="a mistake", expires_at=before)

    act(database, RETRY, JobFilter(ids=(job_id,)), ANN)

    row = get_row(database, job_id)
    assert (row.status, row.cancel_reason, row.expires_at) == ("pending", None, None)


def test_a_job_waiting_for_its_next_attempt_is_due_at_once(database: Database) -> None:
    """It keeps its used attempts."""
    job_id = insert_row(database, run_at=database.clock.now() + HOUR, attempts=2, waiting_for="a limit")

    act(database, RETRY, JobFilter(ids=(job_id,)), ANN)

    row = get_row(database, job_id)
    assert (row.status, row.attempts, row.waiting_for) == ("pending", 2, None)
    assert claim_ids(database) == [job_id]


@pytest.mark.parametrize("status", ["done", "processing"])
def test_running_and_done_jobs_are_not_retried(database: Database, status: str) -> None:
    """Nor is a job that is already due."""
    ids = (insert_row(database, status=status), insert_row(database))

    assert act(database, RETRY, JobFilter(ids=ids), ANN) == BulkResult()
    assert statuses(database, *ids) == [status, "pending"]


def test_a_filter_for_retry_means_dead_jobs(database: Database) -> None:
    """Of one type, in every lane; cancelled ones only with status="cancelled"."""
    dead = [insert_dead(database, type="mail", lane=lane) for lane in ("a", "b")]
    cancelled = insert_row(database, type="mail", status="cancelled")

    first = act(database, RETRY, JobFilter(type="mail"), ANN)
    second = act(database, RETRY, JobFilter(type="mail", status="cancelled"), ANN)

    assert (first.changed, second.changed) == (2, 1)
    assert statuses(database, *dead, cancelled) == ["pending"] * 3


def test_jobs_are_found_by_their_last_error(database: Database) -> None:
    """Earlier errors of a job do not count."""
    ours = [insert_dead(database, "aaaa", lane=lane) for lane in ("a", "b")]
    other = insert_dead(database, "aaaa")
    now = database.clock.now()
    insert_table_row(
        database, tables.attempts, job_id=other, attempt=5, worker_id="w", outcome="failed", error="no",
        fingerprint="bbbb", finished_at=now,
    )  # fmt: skip

    counted = count_matching(database, RETRY, JobFilter(error="aaaa"))
    done = act(database, RETRY, JobFilter(error="aaaa"), ANN)

    assert (counted.number, done.changed) == (2, 2)
    assert statuses(database, *ours, other) == ["pending", "pending", "dead"]


def test_a_job_whose_key_is_held_stays_dead(database: Database) -> None:
    """Another job holds the key; of two dead jobs with the same key one is retried."""
    held = insert_dead(database, unique_key="welcome:1")
    insert_row(database, unique_key="welcome:1")
    two = [insert_dead(database, unique_key="welcome:2") for _ in range(2)]
    free = insert_dead(database)

    done = act(database, RETRY, JobFilter(ids=(held, *two, free)), ANN)

    assert done == BulkResult(changed=2, held=2)
    assert statuses(database, held, *two, free) == ["dead", "pending", "dead", "pending"]


def test_jobs_whose_keys_are_held_do_not_block_the_rest(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than a slice of them stays dead, and the jobs after them are reached."""
    monkeypatch.setattr("mayfly.admin.actions.ROWS_PER_SLICE", 2)
    at = database.clock.now() - HOUR
    for number in range(5):
        insert_row(database, unique_key=f"k{number}")
        insert_dead(database, unique_key=f"k{number}", run_at=at)
    free = [insert_dead(database, run_at=at) for _ in range(3)]

    done = act(database, RETRY, JobFilter(type="noop"), ANN)

    assert done == BulkResult(changed=3, held=5)
    assert statuses(database, *free) == ["pending"] * 3


def test_concurrent_retries_share_the_jobs(database: Database, rival: Database) -> None:
    """Each dead job is retried once, and one of each key."""
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


def test_a_discarded_job_is_cancelled_with_user_and_reason(database: Database) -> None:
    """It ends now, so it is kept as long as other cancelled jobs. Its error stays."""
    job_id = insert_dead(database, finished_at=database.clock.now() - 900 * HOUR)

    done = act(database, DISCARD, JobFilter(ids=(job_id,)), ANN, "not needed")

    row = get_row(database, job_id)
    assert done == BulkResult(changed=1)
    assert (row.status, row.last_error) == ("cancelled", "no")
    assert row.cancel_reason == "discarded by ann: not needed"
    assert database.clock.now() - row.finished_at < HOUR


def test_only_dead_jobs_are_discarded(database: Database) -> None:
    """By id too."""
    ids = tuple(insert_row(database, status=each) for each in ("pending", "processing", "done", "cancelled"))

    assert act(database, DISCARD, JobFilter(ids=ids), ANN) == BulkResult()
    with pytest.raises(BadField, match="status='done': must be one of dead"):
        act(database, DISCARD, JobFilter(lane="a", status="done"), ANN)


# --- delay ------------------------------------------------------------------------------------------------


def test_a_delayed_job_is_not_claimed_before_its_time(database: Database) -> None:
    """Its reason has the user; a job that is due later is unchanged."""
    until = database.clock.now() + HOUR
    soon, later = insert_row(database), insert_row(database, run_at=until + HOUR)

    done = act(database, DELAY, JobFilter(ids=(soon, later)), ANN, "the vendor is down", until)

    row = get_row(database, soon)
    assert done == BulkResult(changed=1)
    assert (row.run_at, row.waiting_for) == (until, "delayed by ann: the vendor is down")
    assert get_row(database, later).run_at == until + HOUR
    assert claim_ids(database) == []


def test_a_lane_is_delayed_in_slices(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A moved job is not found again, though it lies later in the same index."""
    monkeypatch.setattr("mayfly.admin.actions.ROWS_PER_SLICE", 3)
    insert_rows(database, 8, lane="mail")
    reported: list[int] = []

    done = act(
        database, DELAY, JobFilter(lane="mail"), ANN, until=database.clock.now() + HOUR, on_progress=reported.append
    )

    assert (done.changed, reported) == (8, [3, 3, 2])


def test_a_delay_into_the_past_is_refused(database: Database) -> None:
    with pytest.raises(BadField, match="must be a time in the future"):
        act(database, DELAY, JobFilter(lane="a"), ANN, until=database.clock.now() - HOUR)


# --- lanes ------------------------------------------------------------------------------------------------


def test_a_lane_can_be_overridden_and_reset(database: Database) -> None:
    """With user and time; the planner's counts are unchanged."""
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
def test_an_override_of_a_lane_is_bounded(database: Database, number: Any) -> None:
    with pytest.raises(BadField, match="must be an integer from 1 to 1000"):
        set_max_workers(database, "mail", number, ANN)


def test_pauses_are_audited(database: Database) -> None:
    """So is every resume, but not one without a pause."""
    start_pause(database, "type", "noop", ANN, reason="the vendor is down")
    held = database.read(lambda connection: load_pauses(connection, database.clock.now()))
    resumed = [end_pause(database, "type", "noop", ANN) for _ in range(2)]

    assert (held.types["noop"].paused_by, held.types["noop"].reason) == ("ann", "the vendor is down")
    assert [each.was_paused for each in resumed] == [True, False]
    reported = [(row.verb, row.subject, row.jobs, row.reason) for row in rows_of(database, tables.audit)]
    assert reported == [("pause type", "noop", None, "the vendor is down"), ("resume type", "noop", None, None)]


@pytest.mark.parametrize(("kind", "name"), [("host", "a"), ("lane", ""), ("lane", "x" * 65), ("type", "\x00")])
def test_only_lanes_and_types_can_be_paused(database: Database, kind: str, name: str) -> None:
    with pytest.raises(BadField, match="must be"):
        start_pause(database, kind, name, ANN)


# --- the audit --------------------------------------------------------------------------------------------


def test_one_action_is_one_audit_entry(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many slices it takes: user, interface, verb, number, reason."""
    monkeypatch.setattr("mayfly.admin.actions.ROWS_PER_SLICE", 3)
    insert_rows(database, 7, lane="mail")
    before = database.clock.now()

    act(database, CANCEL, JobFilter(lane="mail", type="noop"), Actor("nightly", HTTP), "a mistake")

    [row] = rows_of(database, tables.audit)
    assert (row.done_by, row.via, row.verb, row.subject) == ("nightly", "http", "cancel", "lane=mail type=noop")
    assert (row.jobs, row.reason) == (7, "a mistake")
    assert before <= row.done_at <= database.clock.now()


def test_an_action_without_a_change_is_not_audited(database: Database) -> None:
    """Nor is what Mayfly does by itself."""
    insert_row(database, lane="mail")

    act(database, RETRY, JobFilter(lane="mail"), ANN)
    act(database, CANCEL, JobFilter(lane="mail"))

    assert rows_of(database, tables.audit) == []


def test_an_interrupted_action_is_audited_with_its_number(
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


def test_many_ids_are_abbreviated_in_the_audit(database: Database) -> None:
    """The entry lists only the first ones."""
    ids = insert_rows(database, 30)

    act(database, CANCEL, JobFilter(ids=tuple(ids)), ANN)

    [row] = rows_of(database, tables.audit)
    assert row.subject == f"ids={','.join(map(str, ids[:20]))},… (30)"


@pytest.mark.parametrize("verb", [RETRY, DISCARD])
def test_an_empty_filter_is_refused(database: Database, verb: Verb) -> None:
    """By every verb."""
    with pytest.raises(NoJobsSelected):
        act(database, verb, JobFilter(), ANN)


def test_a_retry_reports_cancelled_jobs_that_match(database: Database) -> None:
    """Without a status it changes dead jobs only; with one, or with ids, nothing is skipped."""
    insert_dead(database)
    cancelled = insert_rows(database, 2, status="cancelled")
    insert_row(database, status="cancelled", type="sleep")

    done = act(database, RETRY, JobFilter(type="noop"), ANN)
    again = act(database, RETRY, JobFilter(type="noop"), ANN)
    named = act(database, RETRY, JobFilter(ids=(cancelled[0],)), ANN)
    by_status = act(database, RETRY, JobFilter(type="noop", status="cancelled"), ANN)

    skipped = "2 cancelled jobs skipped: filter by the status cancelled to retry cancelled jobs."
    assert (done, done.text("due again")) == (BulkResult(changed=1, skipped=2), f"1 job due again. {skipped}")
    assert again.text("due again") == f"No matching jobs; nothing was changed. {skipped}"
    assert (named, by_status) == (BulkResult(changed=1), BulkResult(changed=1))


# --- chains -----------------------------------------------------------------------------------------------


def test_a_retried_job_is_like_any_other_job(database: Database) -> None:
    """Claimed, failed and dead again: its attempts count from one, and the old ones are kept."""
    job_id = insert_dead(database, max_attempts=1)
    act(database, RETRY, JobFilter(ids=(job_id,)), ANN)
    [job] = claim_jobs(database)
    dead = Outcome(OutcomeKind.DEAD, error="again", fingerprint="f", attempt_ending=OutcomeKind.FAILED)

    settle(database, make_settler(), [Settlement(job, dead, 1)], {})

    row = get_row(database, job_id)
    assert (row.status, row.attempts, row.claims, row.last_error) == ("dead", 1, 6, "again")
    assert [each.attempt for each in rows_of(database, tables.attempts)] == [5, 1]


@servers_only
def test_a_key_taken_between_query_and_update_is_detected(
    database: Database, rival: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database refuses, the slice is repeated, and the job stays dead; the others are retried."""
    held, free = insert_dead(database, unique_key="welcome:1"), insert_dead(database)
    free_keys = actions._with_free_keys
    new_holders = [lambda: insert_row(rival, unique_key="welcome:1")]

    def query_and_be_late(*arguments: Any) -> list[int]:
        found = free_keys(*arguments)
        if new_holders:
            new_holders.pop()()
        return found

    monkeypatch.setattr(actions, "_with_free_keys", query_and_be_late)

    done = act(database, RETRY, JobFilter(ids=(held, free)), ANN)

    assert (done, new_holders) == (BulkResult(changed=1, held=1), [])
    assert statuses(database, held, free) == ["dead", "pending"]


# --- searches in contents ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "job_filter",
    [
        JobFilter(text="ANN@"),
        JobFilter(payload=(("order.id", "7"),)),
        JobFilter(text="ann", payload=(("order.id", "7"), ("to", "ann@example.com"))),
        JobFilter(text="ann", lane="mail"),
        JobFilter(text="ann", group_key="g"),
        JobFilter(text="ann", error="f"),
    ],
    ids=str,
)
def test_jobs_are_retried_by_their_contents(
    database: Database, monkeypatch: pytest.MonkeyPatch, job_filter: JobFilter
) -> None:
    """Counted first, then exactly those that match, however many rows and slices the search reads."""
    monkeypatch.setattr(filters, "MAX_ROWS_SEARCHED", 4)
    monkeypatch.setattr(actions, "ROWS_PER_SLICE", 2)
    where = {"lane": "mail", "group_key": "g"}
    others = [insert_dead(database, payload='{"order": {"number": 7}, "id": 8}', **where) for _ in range(9)]
    meant = [
        insert_dead(database, payload='{"order": {"id": 7}, "to": "ann@example.com"}', **where) for _ in range(5)
    ]
    others += [insert_dead(database, payload='{"order": {"id": 70}, "to": "bob"}', **where) for _ in range(9)]
    counted = count_matching(database, RETRY, job_filter)
    progress: list[int] = []

    done = act(database, RETRY, job_filter, ANN, on_progress=progress.append)

    assert (counted.number, counted.is_more, done) == (5, False, BulkResult(changed=5))
    assert set(statuses(database, *meant)) == {"pending"}
    assert set(statuses(database, *others)) == {"dead"}
    assert sum(progress) == 5
    assert max(progress) == 2
    assert 0 in progress, "a search that finds nothing can be stopped too"
    assert [(each.subject, each.jobs) for each in rows_of(database, tables.audit)] == [(str(job_filter), 5)]


def test_a_search_is_estimated_by_its_first_slices(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The count of an estimate is a lower bound; without a limit it is exact."""
    monkeypatch.setattr(filters, "MAX_ROWS_SEARCHED", 4)
    monkeypatch.setattr(actions, "MAX_SLICES_ESTIMATED", 2)
    insert_rows(database, 30, payload='{"to": "bob"}')
    insert_rows(database, 3, payload='{"to": "ann"}')
    wanted = JobFilter(payload=(("to", "ann"),))

    assert count_matching(database, CANCEL, wanted, max_rows=10) == CappedCount(0, is_more=True)
    assert count_matching(database, CANCEL, wanted) == CappedCount(3)


def test_a_stopped_search_keeps_what_it_has_changed(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two slices; the audit has the number of jobs that were changed."""
    monkeypatch.setattr(actions, "ROWS_PER_SLICE", 2)
    ids = insert_rows(database, 6, payload='{"to": "ann"}')

    with pytest.raises(KeyboardInterrupt):
        act(database, CANCEL, JobFilter(text="ann"), ANN, on_progress=stop)

    assert statuses(database, *ids) == ["cancelled"] * 2 + ["pending"] * 4
    assert [each.jobs for each in rows_of(database, tables.audit)] == [2]


def stop(_jobs: int) -> None:
    raise KeyboardInterrupt


def test_masked_fields_cannot_be_searched() -> None:
    """Neither directly nor at the end or in the middle of a path."""
    for name in ("password", "login.Password", "password.value", "x.PASSWORD.y"):
        with pytest.raises(BadField, match="not masked by REDACT"):
            JobFilter(payload=((name, "x"),)).without(("password",))
    assert JobFilter(payload=(("user", "x"),)).without(("password",)).payload == (("user", "x"),)
