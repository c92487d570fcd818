"""The outcome of a job is written back to its row, in one transaction, unless the application has changed the row."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import String, text

from mayfly.db.database import Database
from mayfly.log import silent_log
from mayfly.queue.claim import claim, jobs_from
from mayfly.queue.outcome import DONE, RELEASED, Outcome, OutcomeKind, RowChanged, Settlement
from mayfly.queue.policy import skip_outcome
from mayfly.queue.settle import settle
from mayfly.queue.source_outcome import ROW_CHANGED, cancel_rows, reopen_rows
from mayfly.stats.histograms import Count
from runner.job_runtime import JobTransaction
from runner.settle_buffer import SettleBuffer
from tests.database.factories import change_job, claim_jobs, make_claimant, make_page, run_sql
from tests.database.source_factories import CANCELLED, DEAD, LANE, Posts, failed, make_posts
from tests.factories import get_row, insert_row

CHANGES: dict[str, dict[str, Any]] = {
    "set back to pending": {"status": "pending"},
    "withdrawn": {"status": "withdrawn"},
    "status removed": {"status": None},
    "taken by another worker": {"worker_id": "old script"},
}


@pytest.fixture
def posts(database: Database) -> Posts:
    """With one pending row."""
    made = make_posts(database)
    made.insert(1)
    return made


# --- outcomes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "status", "error"),
    [(DONE, "published", None), (DEAD, "failed", "RuntimeError: no"), (CANCELLED, "withdrawn", "no longer wanted")],
)
def test_a_final_outcome_is_written_to_the_row(
    posts: Posts, outcome: Outcome, status: str, error: str | None
) -> None:
    """Status, attempts, error and the time of the end, with the end of the job; the owner stays."""
    job = posts.claim_one()

    posts.settle(job, outcome)

    row, now = posts.row(1), posts.minutes_ago(0)
    assert (row.status, row.retry_count, row.last_error, row.worker_id) == (status, 1, error, "worker-1")
    assert now - timedelta(minutes=1) < row.published_at <= now
    assert get_row(posts.database, job.id).status == outcome.kind


def test_a_row_keeps_the_processing_value_while_a_retry_waits(posts: Posts) -> None:
    """With attempts and error; it has not ended."""
    posts.fail(posts.claim_one())

    row = posts.row(1)
    assert (row.status, row.retry_count, row.last_error, row.published_at) == (
        "processing", 1, "RuntimeError: no", None,
    )  # fmt: skip
    assert posts.count() == 0


def test_a_retry_writes_its_owner_into_the_row(posts: Posts) -> None:
    """It gets the row as it is now, and its success removes the error."""
    posts.fail(posts.claim_one())
    posts.change(1, title="New")

    job = posts.claim_retry("worker-2")
    owner = posts.row(1).worker_id
    posts.settle(job, DONE, "worker-2")

    assert (owner, job.row["title"], job.payload, job.attempt) == ("worker-2", "New", {"title": "New"}, 2)
    row = posts.row(1)
    assert (row.status, row.retry_count, row.last_error) == ("published", 2, None)


def test_a_released_job_has_used_no_attempt(posts: Posts) -> None:
    """Nor has its row; a later runner processes it."""
    posts.settle(posts.claim_one(), RELEASED)

    assert (posts.row(1).status, posts.row(1).retry_count) == ("processing", 0)
    posts.settle(posts.claim_retry(), DONE, "worker-2")
    assert (posts.row(1).status, posts.row(1).retry_count) == ("published", 1)


def test_outcomes_of_a_batch_are_written_together(posts: Posts) -> None:
    """Each row gets its own."""
    posts.insert(2, 3, 4, 5)
    later = posts.database.clock.now()
    outcomes = [DONE, DONE, DEAD, CANCELLED, failed(later)]

    settle(posts.database, posts.settler(), list(map(Settlement, posts.claim(), outcomes)), {})

    assert list(posts.statuses().values()) == ["published", "published", "failed", "withdrawn", "processing"]


def test_without_a_value_for_cancelled_the_row_has_failed(database: Database) -> None:
    """The application has no third final status."""
    posts = make_posts(database, cancelled=None)
    posts.insert(1)

    posts.settle(posts.claim_one(), CANCELLED)

    assert posts.statuses() == {1: "failed"}


def test_an_error_is_cut_to_the_length_of_its_column(database: Database) -> None:
    """Its first line, in characters. SQLite enforces no length, and stores all of it."""
    posts = make_posts(database, {"last_error": String(20)})
    posts.insert(1)

    posts.fail(posts.claim_one(), error="RuntimeError: größer als zwanzig Zeichen\nTraceback …")

    stored = {"sqlite": "RuntimeError: größer als zwanzig Zeichen"}
    assert posts.row(1).last_error == stored.get(database.dialect.name, "RuntimeError: größer")


def test_a_lost_lease_writes_nothing(posts: Posts) -> None:
    """Neither the job nor the row: another runner has both."""
    job = posts.claim_one()
    posts.settle(job, RELEASED)
    posts.claim_retry("worker-2")

    settled = posts.settle(job, DONE)

    assert (list(settled.lost), posts.row(1).status, posts.row(1).worker_id) == ([job], "processing", "worker-2")


def test_settling_twice_changes_nothing(posts: Posts) -> None:
    """After a lost reply to COMMIT a transaction is repeated."""
    job = posts.claim_one()
    posts.settle(job)
    posts.change(1, status="archived")

    posts.settle(job)

    assert posts.statuses() == {1: "archived"}


# --- changes by the application ---------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["set back to pending", "withdrawn", "status removed"])
def test_a_change_while_a_retry_waits_cancels_the_job(posts: Posts, change: str) -> None:
    """With the reason; the row stays as the application left it."""
    posts.fail(posts.claim_one())
    posts.change(1, **CHANGES[change], last_error="mine")

    job = posts.claim_retry()
    outcome = skip_outcome(job, None, posts.database.clock.now())
    assert outcome is not None
    posts.settle(job, outcome, "worker-2")

    row, ended = posts.row(1), get_row(posts.database, job.id)
    assert (row.status, row.last_error, row.worker_id) == (CHANGES[change]["status"], "mine", "worker-1")
    assert (ended.status, ended.last_error.partition(":")[0]) == ("cancelled", "row changed")


def test_another_worker_in_the_row_of_a_retry_cancels_the_job(posts: Posts) -> None:
    """Another program has taken it, although its status is still that of processing."""
    posts.fail(posts.claim_one())
    posts.change(1, worker_id="script")

    job = posts.claim_retry()

    assert job.source_row is not None
    assert (job.source_row.is_changed, posts.row(1).worker_id) == (True, "script")


def test_each_retry_expects_the_worker_before_it(posts: Posts) -> None:
    """Also after a release, and after a claim that could not read the row."""
    posts.fail(posts.claim_one())
    claim_without_row(posts, "worker-2")

    second = posts.claim_retry("worker-3")
    posts.settle(second, RELEASED, "worker-3")
    third = posts.claim_retry("worker-4")

    assert [job.source_row and job.source_row.is_changed for job in (second, third)] == [False, False]
    assert posts.row(1).worker_id == "worker-4"


def claim_without_row(posts: Posts, worker_id: str) -> None:
    """As a runner does that cannot use the source; the job is snoozed."""
    claimant, now = make_claimant(posts.database, worker_id, lane=LANE), posts.database.clock.now()
    [job] = jobs_from(posts.database.run(lambda connection: claim(connection, claimant, 1, now)), LANE)
    posts.settle(job, replace(RELEASED, run_at=now), worker_id)


def test_a_deletion_while_a_retry_waits_cancels_the_job(posts: Posts) -> None:
    """Like any other change."""
    posts.fail(posts.claim_one())
    posts.delete(1)

    outcome = skip_outcome(posts.claim_retry(), None, posts.database.clock.now())

    assert outcome is not None
    assert outcome.kind is OutcomeKind.CANCELLED


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_while_the_handler_runs_wins(posts: Posts, change: str) -> None:
    """The job is done, with a note; the row stays as the application left it."""
    job = posts.claim_one()
    posts.change(1, **CHANGES[change])
    before = posts.row(1)

    settled = posts.settle(job)

    ended = get_row(posts.database, job.id)
    assert (posts.row(1), ended.status, ended.last_error) == (before, "done", ROW_CHANGED)
    assert "has changed or deleted row 1 of posts" in " ".join(map(str, settled.events))


def test_a_deletion_while_the_handler_runs_wins(posts: Posts) -> None:
    """The other row of the batch is written."""
    posts.insert(2)
    jobs = posts.claim()
    posts.delete(1)

    settle(posts.database, posts.settler(), [Settlement(job, DONE) for job in jobs], {})

    notes = [get_row(posts.database, job.id).last_error for job in jobs]
    assert (posts.statuses(), notes) == ({2: "published"}, [ROW_CHANGED, None])


def test_a_failure_of_a_changed_row_changes_nothing(posts: Posts) -> None:
    """The retry then finds the change, and is cancelled."""
    job = posts.claim_one()
    posts.change(1, status="withdrawn")
    before = posts.row(1)

    posts.fail(job)

    assert posts.row(1) == before
    retry = posts.claim_retry().source_row
    assert retry is not None
    assert retry.is_changed


def test_a_change_rolls_back_the_transaction_of_the_job(posts: Posts) -> None:
    """The handler's writes are not committed, nor is the end of its job."""
    run_sql(posts.database, "CREATE TABLE ledger (post_id BIGINT)")
    job = posts.claim_one()
    posts.change(1, status="withdrawn")
    buffer = SettleBuffer(posts.database, posts.settler(), make_page(), silent_log())
    transaction = JobTransaction(posts.database)

    with pytest.raises(RowChanged), transaction.open(job) as connection:  # noqa: PT012 - as a runner does it
        connection.execute(text("INSERT INTO ledger VALUES (1)"))
        buffer.settle_in_transaction(transaction, Settlement(job, DONE))

    assert posts.database.read(lambda connection: connection.execute("SELECT * FROM ledger").all()) == []
    assert (posts.statuses(), get_row(posts.database, job.id).status) == ({1: "withdrawn"}, "processing")


def test_the_transaction_of_a_job_commits_the_status_of_its_row(posts: Posts) -> None:
    """With the handler's writes and the end of its job."""
    run_sql(posts.database, "CREATE TABLE ledger (post_id BIGINT)")
    job = posts.claim_one()
    buffer = SettleBuffer(posts.database, posts.settler(), make_page(), silent_log())
    transaction = JobTransaction(posts.database)

    with transaction.open(job) as connection:
        connection.execute(text("INSERT INTO ledger VALUES (1)"))
        buffer.settle_in_transaction(transaction, Settlement(job, DONE))

    assert posts.database.read(lambda connection: connection.execute("SELECT * FROM ledger").all()) == [(1,)]
    assert (posts.statuses(), get_row(posts.database, job.id).status) == ({1: "published"}, "done")


# --- a source that has become unusable --------------------------------------------------------------------

REFUSING = {
    "sqlite": "CREATE TRIGGER refuse BEFORE UPDATE ON posts WHEN NEW.status = 'published' AND NEW.id = 1"
    " BEGIN SELECT RAISE(ABORT, 'no such status'); END",
    "mysql": "CREATE TRIGGER refuse BEFORE UPDATE ON posts FOR EACH ROW"
    " IF NEW.status = 'published' AND NEW.id = 1 THEN"
    " SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no such status'; END IF",
    "postgresql": "ALTER TABLE posts ADD CONSTRAINT \"no such status\" CHECK (status <> 'published' OR id <> 1)",
}


def test_a_row_that_cannot_be_written_keeps_no_job_from_ending(posts: Posts) -> None:
    """Its own job is dead with the reason, for an operator to decide; others of the batch end as they are."""
    run_sql(posts.database, REFUSING[posts.database.dialect.name])
    [job] = posts.claim()
    other = insert_row(posts.database)
    [enqueued] = claim_jobs(posts.database)

    settled = settle(posts.database, posts.settler(), [Settlement(job, DONE), Settlement(enqueued, DONE)], {})

    ended = get_row(posts.database, job.id)
    assert (ended.status, "but not written to its row: The source posts" in ended.last_error) == ("dead", True)
    assert (get_row(posts.database, other).status, posts.statuses()) == ("done", {1: "processing"})
    assert "no such status" in " ".join(map(str, settled.events))
    assert sorted(outcome for _lane, _type, outcome in settled.tally) == ["dead", "done"]


def test_a_table_that_was_dropped_keeps_no_job_from_ending(posts: Posts) -> None:
    """A failed attempt waits for its retry, as without the row."""
    job = posts.claim_one()
    run_sql(posts.database, "DROP TABLE posts")

    posts.fail(job)

    assert get_row(posts.database, job.id).status == "pending"


# --- operators --------------------------------------------------------------------------------------------


def test_a_cancelled_retry_ends_its_row(posts: Posts) -> None:
    """A row that the application has changed meanwhile is left alone."""
    posts.insert(2)
    jobs = posts.claim()
    for job in jobs:
        posts.fail(job)
        change_job(posts.database, job.id, status="cancelled")
    posts.change(2, status="archived")

    now, ids = posts.database.clock.now(), [job.id for job in jobs]
    posts.database.run(lambda connection: cancel_rows(connection, posts.sources, ids, now))

    assert posts.statuses() == {1: "withdrawn", 2: "archived"}
    assert posts.row(1).published_at is not None


def test_a_retried_job_reopens_its_row(posts: Posts) -> None:
    """Unless the application has changed it: then its retry is cancelled."""
    posts.insert(2)
    jobs = posts.claim()
    for job in jobs:
        posts.settle(job, DEAD)
    posts.change(2, status="archived")

    posts.database.run(lambda connection: reopen_rows(connection, posts.sources, [job.id for job in jobs]))

    assert posts.statuses() == {1: "processing", 2: "archived"}


def test_totals_are_complete_though_a_row_cannot_be_written(posts: Posts) -> None:
    """With what this process has counted before, and with jobs that it has settled without their totals."""
    job = posts.claim_one()
    run_sql(posts.database, "DROP TABLE posts")
    tally, uncounted = {("a", "noop", "done"): Count(2)}, {("b", "noop", "done"): Count(3)}

    settled = settle(posts.database, posts.settler(), [Settlement(job, DONE)], tally, uncounted)

    assert sorted((lane, counted.jobs) for (lane, *_), counted in settled.tally.items()) == [
        ("a", 2), ("b", 3), (LANE, 1),
    ]  # fmt: skip
