"""The next step of a chain is enqueued in the transaction in which the previous step is done."""

from collections.abc import Sequence
from typing import Any

import pytest

import mayfly
from mayfly import batch, chain, step
from mayfly.admin.actions import RETRY, act
from mayfly.admin.auth import Actor
from mayfly.admin.filters import JobFilter
from mayfly.client import App
from mayfly.clock import monotonic, pause
from mayfly.db.database import Database
from mayfly.errors import BadChain, BadField, BadPayload
from mayfly.job import CURRENT_JOB, Job
from mayfly.queue.outcome import DONE, RELEASED, Outcome, OutcomeKind, Settlement
from mayfly.queue.prune import prune
from mayfly.queue.settle import Settled, settle
from mayfly.schema.metadata import chains, jobs
from tests.database.application_connections import as_connection
from tests.database.factories import claim_jobs, make_runtime, make_settler, retention, rows_of, run_sql, servers_only
from tests.database.lossy_proxy import proxied

ENDINGS = [
    Outcome(OutcomeKind.DEAD, error="no", fingerprint="f", attempt_ending=OutcomeKind.DEAD),
    Outcome(OutcomeKind.CANCELLED, error="no"),
]

pytestmark = pytest.mark.usefixtures("app")


def claim_one(app: App, database: Database) -> Job:
    """A job just enqueued is due by the server's clock; the local clock may be slightly behind."""
    until = monotonic() + 60
    while not (claimed := claim_jobs(database, 5)) and monotonic() < until:
        pause(0.001)
    (job,) = claimed
    job.runtime = make_runtime(app.database)
    return job


def settle_one(database: Database, job: Job, outcome: Outcome = DONE) -> Settled:
    return settle(database, make_settler(), [Settlement(job, outcome, 1)], {})


def types(database: Database) -> list[str]:
    return [row.type for row in rows_of(database, jobs)]


def test_each_step_follows_the_previous_one_and_sees_its_result(app: App, database: Database) -> None:
    """One job at a time, all in one group, each the parent of the next; the finished chain leaves no row."""
    first = chain(step("a", {"n": 1}, priority=0), ("b", {"n": 2}), "c")
    seen = []
    for number in range(3):
        job = claim_one(app, database)
        seen.append((job.type, job.payload, job.previous))
        settle_one(database, job, Outcome(OutcomeKind.DONE, result=f'{{"from": {number}}}'))

    assert seen == [("a", {"n": 1}, None), ("b", {"n": 2}, {"from": 0}), ("c", {}, {"from": 1})]
    ids = [row.id for row in rows_of(database, jobs)]
    assert ids[0] == first
    assert [row.parent_id for row in rows_of(database, jobs)] == [None, *ids[:2]]
    assert len({row.group_key for row in rows_of(database, jobs)}) == 1
    assert rows_of(database, chains) == []


@pytest.mark.parametrize("outcome", ENDINGS, ids=lambda outcome: outcome.kind.value)
def test_a_step_that_does_not_succeed_ends_its_chain(app: App, database: Database, outcome: Outcome) -> None:
    """It is reported, and the following steps have no jobs."""
    chain("a", "b", "c")

    settled = settle_one(database, claim_one(app, database), outcome)

    assert [(each.fields["type"], each.fields["steps"]) for each in settled.events] == [("a", 2)]
    assert types(database) == ["a"]


@pytest.mark.parametrize("outcome", ENDINGS, ids=lambda outcome: outcome.kind.value)
def test_retrying_a_step_continues_its_chain(app: App, database: Database, outcome: Outcome) -> None:
    """It sees the previous result again, and the following steps are enqueued."""
    chain("a", "b", "c")
    settle_one(database, claim_one(app, database), Outcome(OutcomeKind.DONE, result="7"))
    broken = claim_one(app, database)
    settle_one(database, broken, outcome)

    act(database, RETRY, JobFilter(ids=(broken.id,)), Actor("ann"))
    again = claim_one(app, database)
    seen = again.previous
    settle_one(database, again)

    assert (again.id, seen, types(database)) == (broken.id, 7, ["a", "b", "c"])


def test_a_step_with_attempts_left_keeps_its_chain(app: App, database: Database) -> None:
    """And the result of the previous step."""
    chain("a", "b")
    settle_one(database, claim_one(app, database), Outcome(OutcomeKind.DONE, result="7"))
    settle_one(database, claim_one(app, database), RELEASED)

    again = claim_one(app, database)

    assert (again.type, again.previous) == ("b", 7)


def test_a_step_with_a_lost_lease_enqueues_no_next_step(app: App, database: Database, rival: Database) -> None:
    """The runner that holds it now does."""
    chain("a", "b")
    job = claim_one(app, database)
    settle_one(rival, job, RELEASED)

    settled = settle_one(database, job)

    assert (len(settled.lost), types(database)) == (1, ["a"])


@servers_only
def test_a_lost_answer_to_a_commit_enqueues_no_second_step(app: App, database: Database, migrated_url: str) -> None:
    """The repeated transaction finds the step done by itself."""
    chain("a", "b", "c")
    job = claim_one(app, database)
    with proxied(migrated_url) as (proxy, url):
        remote = Database(url)
        remote.connect()
        proxy.lose_next_commit()
        settle_one(remote, job)
        remote.close()

    assert (proxy.lost, types(database)) == (1, ["a", "b"])


def test_a_chain_in_a_batch_ends_with_its_last_step(app: App, database: Database) -> None:
    """Each step joins the batch in the transaction that settles the previous one."""
    with batch("campaign", on_complete="report"):
        chain("a", "b")

    over = [settle_one(database, claim_one(app, database)).events for _ in range(2)]

    assert [len(each) for each in over] == [0, 1]
    assert [(row.type, row.group_key) for row in rows_of(database, jobs)] == [
        ("a", "campaign"), ("b", "campaign"), ("report", None),
    ]  # fmt: skip


def test_a_chain_enqueued_by_a_handler_is_buffered(app: App, database: Database) -> None:
    """Like every job that it enqueues."""
    mayfly.enqueue("parent")
    parent = claim_one(app, database)
    token = CURRENT_JOB.set(parent)
    given = chain("a", "b")
    CURRENT_JOB.reset(token)
    before = types(database)
    settle_one(database, parent)
    settle_one(database, claim_one(app, database))

    assert (given, before, types(database)) == (None, ["parent"], ["parent", "a", "b"])


def test_a_chain_can_be_part_of_an_applications_transaction(database: Database, migrated_url: str) -> None:
    """It is committed or rolled back with it."""
    connection = as_connection(migrated_url)
    chain("a", "b", connection=connection)
    connection.rollback()
    kept = chain("c", "d", group_key="mine", connection=connection)
    connection.commit()
    connection.close()

    assert [(row.id, row.type, row.group_key) for row in rows_of(database, jobs)] == [(kept, "c", "mine")]
    assert [row.job_id for row in rows_of(database, chains)] == [kept]


def test_the_delay_of_a_step_counts_from_the_end_of_the_previous_one(app: App, database: Database) -> None:
    """Not from when the chain was enqueued."""
    chain("a", step("b", delay=600))
    settle_one(database, claim_one(app, database))

    (_, later) = rows_of(database, jobs)
    assert 590 < (later.run_at - database.clock.now()).total_seconds() <= 600


@pytest.mark.parametrize(
    ("steps", "error", "text"),
    [
        ([], BadChain, "a chain needs at least one step"),
        ([[], [[]]], BadChain, "a chain needs at least one step"),
        ([7], BadChain, "7 is not a step"),
        ([("a", {}, 3)], BadChain, r"\('a', {}, 3\) is not a step"),
        ([("a", "text")], BadChain, r"\('a', 'text'\) is not a step"),
        (["a", None], BadChain, "None is not a step"),
        (["a", ""], BadField, "type=''"),
        (["a", ("b", {"x": object()})], BadPayload, "The payload of b"),
        (["a", step("b", priority=9)], BadField, "priority=9"),
        (["a", step("b", delay=1e99)], BadField, "delay="),
    ],
)
def test_an_invalid_chain_is_an_error(
    steps: Sequence[Any], error: type[Exception], text: str, database: Database
) -> None:
    """Before its first step is enqueued."""
    with pytest.raises(error, match=f"^{text}"):
        chain(*steps)

    assert types(database) == []


def test_lists_of_steps_are_flattened(app: App, database: Database) -> None:
    """Nested lists, and the same list twice."""
    twice = ["a", "b"]
    chain(twice, [twice], "c")
    for _ in range(5):
        settle_one(database, claim_one(app, database))

    assert types(database) == ["a", "b", "a", "b", "c"]


def test_a_chain_that_ended_early_is_pruned_with_its_job(database: Database) -> None:
    """The rows of the remaining steps are deleted."""
    cancelled, _other = chain("a", "b"), chain("a", "b")
    mayfly.cancel(cancelled or 0)
    long_ago = "'2001-01-01 00:00:00'"
    run_sql(database, f"UPDATE mayfly_jobs SET status = 'done', run_at = {long_ago}, finished_at = {long_ago}")

    prune(database, retention())

    assert (types(database), rows_of(database, chains)) == ([], [])


def test_the_group_of_a_schedule_is_not_a_chain(database: Database) -> None:
    """Settling its jobs does not query for steps."""
    with pytest.raises(BadField, match="does not begin with schedule:"):
        chain("a", "b", group_key="schedule:nightly")

    assert rows_of(database, jobs) == []
