"""A job with a group costs no more than any other, unless a batch or a chain waits for its end."""

import pytest

import mayfly
from mayfly import batch, chain
from mayfly.db.database import Database
from mayfly.job import Job
from mayfly.queue import followups
from mayfly.queue.outcome import DONE, Settlement
from mayfly.queue.settle import settle
from mayfly.schema.metadata import jobs
from tests.database.factories import make_buffer, make_claims, make_settler, rows_of
from tests.statement_recorder import recorded_statements

pytestmark = pytest.mark.usefixtures("app")


def claim_by_type(database: Database) -> dict[str, Job]:
    return {job.type: job for job in make_claims(database).next()}


def followup_queries(sent: list[str]) -> list[str]:
    return [each for each in sent if "mayfly_batches" in each or "mayfly_chains" in each]


def test_a_claim_marks_jobs_that_a_batch_or_chain_waits_for(database: Database) -> None:
    """Children of open batches, sealed or not, and steps of chains with any group; no other job."""
    with batch("campaign"):
        mayfly.enqueue("child")
        chain("step of the batch", "next")
    chain("step", "next", group_key="customer-7")
    mayfly.enqueue("plain", group_key="customer-7")
    with batch("being filled"):
        mayfly.enqueue("early child")
        claimed = claim_by_type(database)

    assert {name for name, job in claimed.items() if job.awaited} == {
        "child", "step of the batch", "step", "early child",
    }  # fmt: skip


def test_plain_groups_cost_one_query_per_claim_and_none_per_settlement(database: Database) -> None:
    """Even while another batch is open."""
    with batch("campaign"):
        mayfly.enqueue("child", lane="elsewhere")
    mayfly.enqueue_many([{"type": "plain", "group_key": "customer-7"}] * 3)
    claims = make_claims(database)

    with recorded_statements() as claiming:
        claimed = claims.next()
    with recorded_statements() as settling:
        settle(database, make_settler(), [Settlement(job, DONE, 1) for job in claimed], {})

    assert (len(claimed), len(followup_queries(claiming)), followup_queries(settling)) == (3, 1, [])


@pytest.mark.parametrize("group_key", [None, "schedule:nightly"])
def test_jobs_without_a_group_and_those_of_schedules_cost_nothing(database: Database, group_key: str | None) -> None:
    """They need no additional statement, neither when claimed nor when settled."""
    mayfly.enqueue("plain", group_key=group_key)
    claims = make_claims(database)

    with recorded_statements() as sent:
        [job] = claims.next()
        settle(database, make_settler(), [Settlement(job, DONE, 1)], {})

    assert followup_queries(sent) == []


def test_an_immediate_outcome_is_one_statement_in_a_group_too(database: Database) -> None:
    """With ack="each"."""
    mayfly.enqueue("plain", group_key="customer-7")
    outbox = make_buffer(database)
    [job] = make_claims(database).next()

    with recorded_statements() as sent:
        outbox.add(Settlement(job, DONE, 1), commit_now=True)

    assert len(sent) == 1 + (database.dialect.name == "sqlite")  # which begins a transaction for it


def test_with_very_many_open_batches_every_group_may_be_one(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child of a batch that was not listed is still found."""
    monkeypatch.setattr(followups, "MAX_BATCHES", 2)
    monkeypatch.setattr(followups, "AWAITING", followups.AWAITING.replace("LIMIT 100", "LIMIT 2"))
    for name in ("a", "b", "c"):
        with batch(name, on_complete="report"):
            mayfly.enqueue(f"child of {name}")
    claimed = claim_by_type(database)

    settle(database, make_settler(), [Settlement(job, DONE, 1) for job in claimed.values()], {})

    assert [row.type for row in rows_of(database, jobs)].count("report") == 3
