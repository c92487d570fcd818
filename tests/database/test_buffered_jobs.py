"""Jobs that a handler enqueues are written in the transaction that settles it as done, or not at all."""

from datetime import timedelta

import pytest

import mayfly
from mayfly.client import App
from mayfly.db.database import Database
from mayfly.errors import BadField, CommitUnknown
from mayfly.job import CURRENT_JOB, Job
from mayfly.queue.followups import buffer_job
from mayfly.queue.insert import NewJob
from mayfly.queue.outcome import DONE, RELEASED, Outcome, OutcomeKind, Settlement
from mayfly.queue.settle import settle, store_checkpoint
from mayfly.schema.metadata import jobs
from runner.job_runtime import HandlerRuntime, JobTransaction
from tests.database.factories import claim_jobs, make_buffer, make_runtime, make_settler, rows_of, servers_only
from tests.database.lossy_proxy import proxied
from tests.factories import insert_rows

CHILD = NewJob("child", "{}", "default", 5, 1)
OTHERS = [
    RELEASED,
    Outcome(OutcomeKind.FAILED, error="no", fingerprint="f", attempt_ending=OutcomeKind.FAILED),
    Outcome(OutcomeKind.SNOOZED, keeps_attempt=True),
    Outcome(OutcomeKind.CANCELLED, error="no"),
    Outcome(OutcomeKind.DEAD, error="no", fingerprint="f", attempt_ending=OutcomeKind.DEAD),
]


def claim_parents(database: Database, count: int) -> list[Job]:
    """Each with one buffered child."""
    insert_rows(database, count)
    parents = claim_jobs(database, count)
    for job in parents:
        buffer_job(job, [CHILD._replace(group_key=f"child of {job.id}")])
    return parents


def children(database: Database) -> list[str]:
    return [row.group_key for row in rows_of(database, jobs) if row.type == "child"]


def test_children_are_inserted_with_their_parents_outcomes(database: Database, rival: Database) -> None:
    """For a whole batch in one transaction; jobs without children are written as usual."""
    insert_rows(database, 1)
    plain = claim_jobs(database, 1)
    parents = claim_parents(database, 3)

    settled = settle(database, make_settler(), [Settlement(job, DONE, 1) for job in [*plain, *parents]], {})

    assert (len(settled.settlements), settled.lost) == (4, ())
    assert children(rival) == [f"child of {job.id}" for job in parents]


@pytest.mark.parametrize("outcome", OTHERS, ids=lambda outcome: outcome.kind.value)
def test_children_of_a_job_that_is_not_done_are_dropped(database: Database, outcome: Outcome) -> None:
    """It will enqueue them again if it runs again."""
    (job,) = claim_parents(database, 1)

    settle(database, make_settler(), [Settlement(job, outcome, 1)], {})

    assert children(database) == []


def test_children_with_keys_never_block_their_parents(database: Database) -> None:
    """One is skipped, one replaces a pending job, one takes a key whose period is over; the parent is done."""
    past = database.clock.now() - timedelta(seconds=1)
    held = insert_rows(database, 1, lane="other", unique_key="held")
    insert_rows(database, 1, lane="other", unique_key="replaced")
    insert_rows(database, 1, lane="other", unique_key="over", unique_scope="time", unique_until=past)
    insert_rows(database, 1)
    [job] = claim_jobs(database, 1)
    ways = {"held": None, "replaced": "replace", "over": None}
    buffer_job(job, [CHILD._replace(unique_key=key, on_conflict=way) for key, way in ways.items()])

    settled = settle(database, make_settler(), [Settlement(job, DONE, 1)], {})

    assert (len(settled.settlements), settled.lost) == (1, ())
    found = {row.unique_key: row.type for row in rows_of(database, jobs) if row.unique_key}
    assert found == {"held": "noop", "replaced": "child", "over": "child"}
    assert held == [row.id for row in rows_of(database, jobs) if row.unique_key == "held"]


@pytest.mark.usefixtures("app")
def test_on_conflict_error_is_refused_for_buffered_jobs(database: Database) -> None:
    """The handler gets the error at once, not the settlement of its job."""
    insert_rows(database, 1)
    [job] = claim_jobs(database, 1)
    job.runtime = make_runtime(database)
    running = CURRENT_JOB.set(job)
    try:
        with pytest.raises(BadField, match=r"^on_conflict='error': must be keep or replace inside a handler"):
            mayfly.enqueue("noop", unique_key="key", on_conflict="error")
    finally:
        CURRENT_JOB.reset(running)

    assert job.buffered_jobs is None


def test_children_of_a_job_with_a_lost_lease_are_dropped(database: Database, rival: Database) -> None:
    """The runner that holds it now enqueues them; children of other jobs are inserted."""
    lost, other = claim_parents(database, 2)
    settle(rival, make_settler(), [Settlement(lost, RELEASED)], {})

    settled = settle(database, make_settler(), [Settlement(job, DONE, 1) for job in (lost, other)], {})

    assert [job.id for job in settled.lost] == [lost.id]
    assert children(database) == [f"child of {other.id}"]


@pytest.mark.parametrize("at_once", [False, True])
def test_an_immediate_outcome_writes_its_children(database: Database, rival: Database, at_once: bool) -> None:
    """With ack="each" the shortcut for plain outcomes is not used."""
    (job,) = claim_parents(database, 1)
    outbox = make_buffer(database)

    outbox.add(Settlement(job, DONE, 1), at_once)
    outbox.flush()

    assert children(rival) == [f"child of {job.id}"]


def test_children_from_before_a_transaction_commit_with_it(database: Database, rival: Database) -> None:
    """Jobs buffered before job.transaction() are written where the job is settled."""
    (job,) = claim_parents(database, 1)
    transaction = JobTransaction(database)
    with transaction.open(job):
        pass

    make_buffer(database).settle_in_transaction(transaction, Settlement(job, DONE, 1))

    assert children(rival) == [f"child of {job.id}"]


@servers_only
def test_a_lost_answer_to_a_commit_inserts_children_once(migrated_url: str, database: Database) -> None:
    """The repeated transaction finds its jobs done and inserts nothing."""
    parents = claim_parents(database, 3)
    with proxied(migrated_url) as (proxy, url):
        remote = Database(url)
        remote.connect()
        proxy.lose_next_commit()

        settlements = [Settlement(job, DONE, 1) for job in parents]
        settled = settle(remote, make_settler(), settlements, {})
        remote.close()

    assert (proxy.lost, settled.lost, len(settled.settlements)) == (1, (), 3)
    assert children(database) == [f"child of {job.id}" for job in parents]


@servers_only
def test_a_lost_answer_to_a_checkpoint_inserts_children_once(migrated_url: str, database: Database) -> None:
    """It is not repeated: the outcome is unknown, and the job does not count as one that lost its lease."""
    (job,) = claim_parents(database, 1)
    with proxied(migrated_url) as (proxy, url):
        remote = Database(url)
        remote.connect()
        proxy.lose_next_commit()

        with pytest.raises(CommitUnknown):
            store_checkpoint(remote, "worker-1", job, "1", moved=True)
        remote.close()

    assert (proxy.lost, children(database)) == (1, [f"child of {job.id}"])


@pytest.fixture
def running(app: App) -> Job:
    """A job whose handler is the test."""
    insert_rows(app.database, 1)
    (job,) = claim_jobs(app.database, 1)
    job.runtime = make_runtime(app.database)
    return job


def test_enqueue_in_a_handler_is_buffered_and_returns_no_id(running: Job, database: Database) -> None:
    """Nothing is written; an invalid job is refused at once and not buffered."""
    token = CURRENT_JOB.set(running)
    try:
        given = mayfly.enqueue("child"), mayfly.enqueue_many([{"type": "child"}] * 3)
        with pytest.raises(BadField):
            mayfly.enqueue("child", priority=7)
        with pytest.raises(BadField):
            mayfly.enqueue_many([{"type": "child"}, {"type": ""}])
    finally:
        CURRENT_JOB.reset(token)

    assert given == (None, 3)
    assert [getattr(each, "parent_id", None) for each in running.buffered_jobs or ()] == [running.id] * 4
    assert children(database) == []


def test_enqueue_in_a_handlers_transaction_is_not_buffered(running: Job, database: Database) -> None:
    """It commits with the job anyway, and returns an id."""
    token = CURRENT_JOB.set(running)
    try:
        with running.transaction():
            job_id = mayfly.enqueue("child")
    finally:
        CURRENT_JOB.reset(token)
    assert isinstance(running.runtime, HandlerRuntime)
    running.runtime.job_transaction.commit()

    assert running.buffered_jobs is None
    found = [(row.id, row.parent_id) for row in rows_of(database, jobs) if row.type == "child"]
    assert found == [(job_id, running.id)]
