"""A batch ends with its last job, and its callback is enqueued exactly once."""

from collections.abc import Sequence
from contextlib import closing, suppress
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

import mayfly
from mayfly import batch, json_text, step
from mayfly.admin.actions import abandon_batch
from mayfly.client import App
from mayfly.db.database import Database
from mayfly.errors import BadChain, BadField, BadPayload, BatchClosed, BatchExists
from mayfly.job import CURRENT_JOB, Job
from mayfly.queue.batches import complete_all, seal_batch
from mayfly.queue.count import finished_batches
from mayfly.queue.outcome import DONE, RELEASED, Outcome, OutcomeKind, Settlement
from mayfly.queue.prune import prune
from mayfly.queue.settle import Settled, settle
from mayfly.schema.metadata import batches, jobs
from runner.job_runtime import HandlerRuntime
from tests.database.application_connections import as_connection
from tests.database.factories import (
    change_job,
    claim_jobs,
    in_threads,
    make_buffer,
    make_runtime,
    make_settler,
    retention,
    rows_of,
    run_sql,
    servers_only,
)
from tests.database.lossy_proxy import proxied

DEAD = Outcome(OutcomeKind.DEAD, error="no", fingerprint="f", attempt_ending=OutcomeKind.DEAD)
CANCELLED = Outcome(OutcomeKind.CANCELLED, error="no")
FAILED = Outcome(OutcomeKind.FAILED, error="no", fingerprint="f", attempt_ending=OutcomeKind.FAILED)

pytestmark = pytest.mark.usefixtures("app")


def fill(children: int, name: str = "campaign") -> None:
    with batch(name, on_complete=("report", {"to": "ann"})):
        mayfly.enqueue_many([{"type": "child"}] * children)


def settle_all(
    database: Database, found: Sequence[Job], outcome: Outcome = DONE, worker_id: str = "worker-1"
) -> Settled:
    return settle(database, make_settler(worker_id), [Settlement(job, outcome, 1) for job in found], {})


def callbacks(database: Database) -> list[dict[str, Any]]:
    return [json_text.decode(row.payload) for row in rows_of(database, jobs) if row.type == "report"]


def test_the_callback_is_enqueued_when_the_last_child_has_ended(database: Database) -> None:
    """Done, dead and cancelled children are counted and reported; a retry is no end."""
    fill(4)
    done, dead, cancelled, slow = claim_jobs(database, 4)

    settle_all(database, [done])
    settle_all(database, [dead], DEAD)
    settle_all(database, [cancelled], CANCELLED)
    settle_all(database, [slow], FAILED)
    before = callbacks(database)
    change_job(database, slow.id, run_at=database.clock.now())
    settled = settle_all(database, claim_jobs(database, 1))

    assert before == []
    report = {"batch": "campaign", "done": 2, "dead": 1, "cancelled": 1}
    assert [dict(each.fields) for each in settled.events] == [{**report, "callback": "report"}]
    assert callbacks(database) == [{"to": "ann", "batch": report}]


def test_children_share_their_batchs_name_as_group(database: Database) -> None:
    """A job enqueued before or after the block is no child."""
    mayfly.enqueue("before")
    with batch("campaign") as own:
        mayfly.enqueue("child")
        mayfly.enqueue_many([{"type": "child"}])
    mayfly.enqueue("after")

    groups = {row.type: row.group_key for row in rows_of(database, jobs)}
    assert groups == {"before": None, "child": "campaign", "after": None}
    assert own.key == "campaign"


def test_an_empty_batch_ends_at_once(database: Database) -> None:
    """It has no child whose end could complete it."""
    fill(0)

    assert [each["batch"]["done"] for each in callbacks(database)] == [0]


def test_a_batch_without_a_callback_ends_too(database: Database) -> None:
    """It is only marked."""
    with batch("campaign"):
        mayfly.enqueue("child")

    settled = settle_all(database, claim_jobs(database, 1))

    assert [each.fields["callback"] for each in settled.events] == [None]
    assert [row.completed_at is None for row in rows_of(database, batches)] == [False]


def test_children_that_end_inside_the_block_do_not_end_the_batch(database: Database) -> None:
    """More children may follow; the end of the block checks for completion."""
    with batch("campaign", on_complete="report"):
        mayfly.enqueue("child")
        settle_all(database, claim_jobs(database, 1))
        before = callbacks(database)

    assert (before, len(callbacks(database))) == ([], 1)


def test_two_runners_that_settle_the_last_children_at_once(database: Database, rival: Database) -> None:
    """Neither sees the other's transaction, and there is exactly one callback. Repeated several times."""
    for number in range(8):
        fill(2, f"campaign-{number}")
        first, second = claim_jobs(database, 1), claim_jobs(rival, 1, worker_id="worker-2")
        in_threads([
            partial(settle_all, database, first), partial(settle_all, rival, second, worker_id="worker-2"),
        ])  # fmt: skip

        assert len(callbacks(database)) == number + 1
        change_job(database, rows_of(database, jobs)[-1].id, status="done")


def test_a_child_with_a_lost_lease_does_not_end_the_batch(database: Database, rival: Database) -> None:
    """The runner that holds it now will."""
    fill(1)
    lost = claim_jobs(database, 1)
    settle_all(rival, lost, RELEASED)

    settled = settle_all(database, lost)

    assert (len(settled.lost), callbacks(database)) == (1, [])


@servers_only
@pytest.mark.parametrize("loses", ["settlement", "completion"])
def test_a_lost_answer_to_a_commit_repeats_nothing(migrated_url: str, database: Database, loses: str) -> None:
    """Neither the outcome nor the callback."""
    fill(2)
    children = claim_jobs(database, 2)
    if loses == "completion":
        run_sql(database, "UPDATE mayfly_jobs SET status = 'done'")
    with proxied(migrated_url) as (proxy, url):
        remote = Database(url)
        remote.connect()
        proxy.lose_next_commit()
        if loses == "settlement":
            settle_all(remote, children)
        else:
            complete_all(remote)
        remote.close()

    assert (proxy.lost, len(callbacks(database))) == (1, 1)


def test_a_batch_whose_end_was_missed_is_completed_by_the_next_cycle(database: Database) -> None:
    """The runner was killed after the commit of the last child, or the child was changed by SQL."""
    fill(2)
    fill(2, "still running")
    run_sql(database, "UPDATE mayfly_jobs SET status = 'done' WHERE group_key = 'campaign'")
    before = database.read(lambda connection: finished_batches(connection))

    found = [each.key for each in complete_all(database)]

    assert (before, found) == (["campaign"], ["campaign"])
    assert (complete_all(database), len(callbacks(database))) == ((), 1)


def test_a_remembered_live_child_that_has_ended_is_replaced(database: Database) -> None:
    """The youngest live child is cached; when it ends first, another one is queried."""
    fill(3)
    settler = make_settler()
    for job in reversed(claim_jobs(database, 3)):
        before = len(callbacks(database))
        settle(database, settler, [Settlement(job, DONE, 1)], {})

    assert (before, len(callbacks(database)), settler.known_live_jobs) == (0, 1, {})


def test_a_block_that_raises_abandons_the_batch(database: Database) -> None:
    """Pending children are cancelled with the reason, running ones continue, and there is no callback."""
    running: list[Job] = []

    def fill_in_vain() -> None:
        with batch("campaign", on_complete="report"):
            mayfly.enqueue_many([{"type": "child"}] * 3)
            running.extend(claim_jobs(database, 1))
            raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        fill_in_vain()
    settle_all(database, running)

    ended = [(row.status, row.last_error) for row in rows_of(database, jobs)]
    assert ended[0] == ("done", None)
    assert ended[1:] == [("cancelled", "cancelled: the batch campaign was abandoned: RuntimeError: no more")] * 2
    assert (complete_all(database), callbacks(database)) == ((), [])


def test_a_name_is_used_once(database: Database) -> None:
    """While the batch is open, and afterwards until it is pruned."""
    with batch("campaign"), pytest.raises(BatchExists, match="already a batch 'campaign'"), batch("campaign"):
        raise AssertionError
    with pytest.raises(BatchExists), batch("campaign"):
        raise AssertionError

    assert len(rows_of(database, batches)) == 1


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("",), BadField),
        ((7,), BadField),
        (("x" * 191,), BadField),
        (("chain:x",), BadField),
        (("campaign", 7), BadChain),
        (("campaign", ("report", 7)), BadChain),
        (("campaign", ("report", {"batch": 1})), BadField),
        (("campaign", ("report", {"when": object()})), BadPayload),
        (("campaign", step("report", delay=-1e99)), BadField),
    ],
)
def test_an_invalid_batch_is_an_error(arguments: tuple[Any, ...], error: type[Exception], database: Database) -> None:
    """Before anything is written."""
    name, *rest = arguments
    with pytest.raises(error):
        batch(name, on_complete=rest[0] if rest else None)

    assert rows_of(database, batches) == []


def test_an_invalid_child_is_an_error(migrated_url: str) -> None:
    """Another group, another transaction, or a batch whose block has ended."""
    connection = as_connection(migrated_url)
    with closing(connection), batch("campaign") as own:
        with pytest.raises(BadField, match="omitted in the batch"):
            mayfly.enqueue("child", group_key="other")
        with pytest.raises(BadField, match="which commits its jobs itself"):
            mayfly.enqueue("child", connection=connection)
    with pytest.raises(BatchClosed):
        mayfly.enqueue("child", batch=own)


@pytest.fixture
def handling(app: App, database: Database) -> Job:
    """A child of a batch, whose handler is the test."""
    fill(1)
    (job,) = claim_jobs(database, 1)
    job.runtime = make_runtime(app.database)
    return job


def handle(job: Job, work: Any) -> None:
    token = CURRENT_JOB.set(job)
    try:
        work()
    finally:
        CURRENT_JOB.reset(token)


def test_a_child_can_add_siblings(handling: Job, database: Database) -> None:
    """They are buffered until its own outcome, so the batch cannot end in between; with both syntaxes."""

    def add_siblings() -> None:
        assert handling.batch is not None
        with handling.batch:
            mayfly.enqueue("child")
        mayfly.enqueue("child", batch=handling.batch)
        mayfly.enqueue("stranger")

    handle(handling, add_siblings)
    settle_all(database, [handling])
    before = callbacks(database)
    groups = {row.type: row.group_key for row in rows_of(database, jobs)}
    settle_all(database, [job for job in claim_jobs(database, 3) if job.type == "child"])

    assert groups == {"child": "campaign", "stranger": None}
    assert (before, [each["batch"]["done"] for each in callbacks(database)]) == ([], [3])


def test_a_group_that_is_not_a_batch_has_none(app: App, database: Database) -> None:
    """Nor has a job without a group."""
    mayfly.enqueue("child", group_key="a group")
    mayfly.enqueue("child")
    found = claim_jobs(database, 2)
    for job in found:
        job.runtime = make_runtime(app.database)

    assert [job.batch for job in found] == [None, None]


def test_a_batch_opened_by_a_handler_is_written_with_its_job(handling: Job, database: Database) -> None:
    """Complete and sealed, or not at all; jobs of an abandoned block are dropped."""

    def campaign() -> None:
        with batch("inner", on_complete="report"):
            mayfly.enqueue_many([{"type": "grandchild"}] * 2)
        with suppress(RuntimeError), batch("abandoned"):
            mayfly.enqueue("never")
            raise RuntimeError
        with pytest.raises(BatchExists), batch("campaign"):
            raise AssertionError
        with batch("empty", on_complete="report"):
            pass

    handle(handling, campaign)
    before = [row.batch_key for row in rows_of(database, batches)]
    settled = settle_all(database, [handling])
    over = settle_all(database, [job for job in claim_jobs(database, 5) if job.type == "grandchild"])

    assert before == ["campaign"]
    assert {each.fields["batch"] for each in settled.events} == {"campaign", "empty"}
    assert [each.fields["batch"] for each in over.events] == ["inner"]
    assert {row.type for row in rows_of(database, jobs)} == {"child", "grandchild", "report"}


def test_the_transaction_of_a_handler_ends_a_batch_too(handling: Job, database: Database) -> None:
    """Its outcome is committed on another path, which checks for completion as well."""
    assert isinstance(handling.runtime, HandlerRuntime)
    with handling.transaction():
        pass
    outbox = make_buffer(handling.runtime.database)

    outbox.settle_in_transaction(handling.runtime.job_transaction, Settlement(handling, DONE, 1))

    assert len(callbacks(database)) == 1


def test_cancelling_the_last_children_ends_the_batch(database: Database) -> None:
    """By its name, which is their group."""
    fill(3)

    cancelled = mayfly.cancel(group_key="campaign")

    assert cancelled.ended == 3
    assert [each["batch"]["cancelled"] for each in callbacks(database)] == [3]


def test_old_batches_are_pruned(database: Database) -> None:
    """Ended ones after KEEP_DONE_DAYS, and those whose block never ended."""
    for name in ("old", "young", "never sealed", "open"):
        fill(name == "open", name)
    old = database.clock.now() - timedelta(days=9)
    change = "UPDATE mayfly_batches SET created_at = :old, completed_at = :old WHERE batch_key = 'old'"
    run_sql(database, change, old=database.dialect.bound(old))
    change = (
        "UPDATE mayfly_batches SET created_at = :old, sealed_at = NULL, completed_at = NULL WHERE batch_key = :key"
    )
    run_sql(database, change, old=database.dialect.bound(old), key="never sealed")

    prune(database, retention())

    assert [row.batch_key for row in rows_of(database, batches)] == ["open", "young"]


def test_a_producer_whose_batch_was_sealed_or_abandoned_gets_an_error(database: Database) -> None:
    """It was considered dead; jobs it has enqueued since may be missing in the report."""
    for name, end in (("sealed", seal_batch), ("abandoned", partial(abandon_batch, reason="gone"))):
        own = batch(name, on_complete="report")
        own.__enter__()
        mayfly.enqueue("child")
        end(database, name)
        with pytest.raises(BatchClosed, match="was sealed or abandoned elsewhere"):
            own.__exit__(None, None, None)

    assert len(callbacks(database)) == 0
    assert [(row.batch_key, row.completed_at is None) for row in rows_of(database, batches)] == [
        ("abandoned", False), ("sealed", True),
    ]  # fmt: skip
