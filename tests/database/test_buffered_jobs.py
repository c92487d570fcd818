"""What a handler enqueues is written in the transaction that settles its job as done, or not at all."""

from datetime import timedelta

import pytest

import mayfly
from mayfly.client import App
from mayfly.db.database import Database
from mayfly.errors import BadField
from mayfly.job import CURRENT_JOB, Job
from mayfly.log import silent_log
from mayfly.queue.followups import buffer_job
from mayfly.queue.insert import NewJob
from mayfly.queue.outcome import DONE, RELEASED, Outcome, OutcomeKind, Settlement
from mayfly.queue.settle import settle
from mayfly.schema.metadata import jobs
from runner.job_runtime import JobTransaction, MainThreadRuntime
from runner.settle_buffer import SettleBuffer
from tests.database.factories import claim_jobs, make_runtime, make_settler, rows_of, servers_only
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
    """Each holds one child back."""
    insert_rows(database, count)
    parents = claim_jobs(database, count)
    for job in parents:
        buffer_job(job, [CHILD._replace(group_key=f"child of {job.id}")])
    return parents


def children(database: Database) -> list[str]:
    return [row.group_key for row in rows_of(database, jobs) if row.type == "child"]


def test_children_are_inserted_with_their_parents_outcomes(database: Database, rival: Database) -> None:
    """Those of a whole batch in its one transaction; jobs without children are written as ever."""
    insert_rows(database, 1)
    plain = claim_jobs(database, 1)
    parents = claim_parents(database, 3)

    settled = settle(database, make_settler(), [Settlement(job, DONE, 1) for job in [*plain, *parents]], {})

    assert (len(settled.settlements), settled.lost) == (4, ())
    assert children(rival) == [f"child of {job.id}" for job in parents]


@pytest.mark.parametrize("outcome", OTHERS, ids=lambda outcome: outcome.kind.value)
def test_children_of_a_job_that_is_not_done_are_dropped(database: Database, outcome: Outcome) -> None:
    """It will enqueue them when it runs again, or never."""
    (job,) = claim_parents(database, 1)

    settle(database, make_settler(), [Settlement(job, outcome, 1)], {})

    assert children(database) == []


def test_children_with_keys_never_hold_up_their_parents(database: Database) -> None:
    """One is left out, one replaces what waits, one takes a key whose time is over; the parent is done."""
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
def test_an_error_about_a_key_cannot_be_had_from_what_is_held_back(database: Database) -> None:
    """The handler hears of it at once, and not whoever settles its job."""
    insert_rows(database, 1)
    [job] = claim_jobs(database, 1)
    job.runtime = make_runtime(database)
    running = CURRENT_JOB.set(job)
    try:
        with pytest.raises(BadField, match=r"^on_conflict='error': must be keep or replace inside a handler"):
            mayfly.enqueue("noop", unique_key="key", on_conflict="error")
    finally:
        CURRENT_JOB.reset(running)

    assert job.held is None


def test_children_of_a_job_that_is_no_longer_ours_are_dropped(database: Database, rival: Database) -> None:
    """Whoever has it now enqueues them; its batch mates' are inserted."""
    lost, mate = claim_parents(database, 2)
    settle(rival, make_settler(), [Settlement(lost, RELEASED)], {})

    settled = settle(database, make_settler(), [Settlement(job, DONE, 1) for job in (lost, mate)], {})

    assert [job.id for job in settled.lost] == [lost.id]
    assert children(database) == [f"child of {mate.id}"]


@pytest.mark.parametrize("at_once", [False, True])
def test_an_outcome_at_once_takes_its_children_along(database: Database, rival: Database, at_once: bool) -> None:
    """ack="each": the short way for what is plainly done is not theirs."""
    (job,) = claim_parents(database, 1)
    outbox = SettleBuffer(database, make_settler(), silent_log())

    outbox.add(Settlement(job, DONE, 1), at_once)
    outbox.flush()

    assert children(rival) == [f"child of {job.id}"]


def test_children_from_before_a_transaction_commit_with_it(database: Database, rival: Database) -> None:
    """What was held back before job.transaction() began is written where the job is settled."""
    (job,) = claim_parents(database, 1)
    transaction = JobTransaction(database)
    with transaction.open(job):
        pass

    SettleBuffer(database, make_settler(), silent_log()).settle_in_transaction(transaction, Settlement(job, DONE, 1))

    assert children(rival) == [f"child of {job.id}"]


@servers_only
@pytest.mark.parametrize("with_totals", [True, False])
def test_children_are_inserted_once_though_a_commits_answer_was_lost(
    migrated_url: str, database: Database, with_totals: bool
) -> None:
    """The repeat finds its jobs done by itself, and inserts nothing."""
    parents = claim_parents(database, 3)
    with proxied(migrated_url) as (proxy, url):
        remote = Database(url)
        remote.connect()
        proxy.lose_next_commit()

        settlements = [Settlement(job, DONE, 1) for job in parents]
        settled = settle(remote, make_settler(), settlements, {}, with_totals)
        remote.close()

    assert (proxy.lost, settled.lost, len(settled.settlements)) == (1, (), 3)
    assert children(database) == [f"child of {job.id}" for job in parents]


@pytest.fixture
def running(app: App) -> Job:
    """A job whose handler is this test."""
    insert_rows(app.database, 1)
    (job,) = claim_jobs(app.database, 1)
    job.runtime = make_runtime(app.database)
    return job


def test_enqueue_in_a_handler_is_held_back_and_has_no_id(running: Job, database: Database) -> None:
    """Nothing is written by it; what is wrong with it is said at once, and then nothing of it is held."""
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
    assert [getattr(each, "parent_id", None) for each in running.held or ()] == [running.id] * 4
    assert children(database) == []


def test_enqueue_in_a_handlers_transaction_is_not_held_back(running: Job, database: Database) -> None:
    """It commits with the job anyway, and has an id."""
    token = CURRENT_JOB.set(running)
    try:
        with running.transaction():
            job_id = mayfly.enqueue("child")
    finally:
        CURRENT_JOB.reset(token)
    assert isinstance(running.runtime, MainThreadRuntime)
    running.runtime.job_transaction.commit()

    assert running.held is None
    found = [(row.id, row.parent_id) for row in rows_of(database, jobs) if row.type == "child"]
    assert found == [(job_id, running.id)]
