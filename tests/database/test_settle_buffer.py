"""Outcomes wait together while jobs are fast, and not at all where a handler asks for that."""

from types import SimpleNamespace
from typing import cast

import pytest
from sqlalchemy import update

from mayfly.db.database import Database
from mayfly.errors import LostLease
from mayfly.job import Job
from mayfly.log import Log, silent_log
from mayfly.log_messages import Level
from mayfly.queue.outcome import DONE, RELEASED, Settlement
from mayfly.queue.settle import settle
from mayfly.schema.metadata import jobs as jobs_table
from mayfly.schema.metadata import totals
from mayfly.stats.totals import LOST_TOTALS
from runner.batch import BatchRunner
from runner.guard import Guard
from runner.invoke import Invoker, JobResult
from runner.job_runtime import JobTransaction
from runner.settle_buffer import SettleBuffer
from tests.database.factories import claim_jobs, make_runtime, make_settler, rows_of
from tests.factories import get_row, insert_rows


class Lines:
    """A sink that keeps what is said."""

    def __init__(self) -> None:
        self.written: list[str] = []

    def write(self, line: str, _level: Level) -> None:
        self.written.append(line)


def make_outbox(database: Database) -> SettleBuffer:
    return SettleBuffer(database, make_settler(), silent_log())


def test_fast_outcomes_wait_until_they_are_flushed(database: Database, rival: Database) -> None:
    """Within 50 ms and a thousand jobs nothing is written, so that a whole batch is one statement."""
    insert_rows(database, 2)
    jobs = claim_jobs(database, 2)
    outbox = make_outbox(database)

    outbox.add(Settlement(jobs[0], DONE, 0))
    before = get_row(rival, jobs[0].id).status
    outbox.flush()

    assert (before, get_row(rival, jobs[0].id).status) == ("processing", "done")


def test_an_outcome_at_once_is_committed_before_the_next_job(database: Database, rival: Database) -> None:
    """ack="each": what a crash of the next job must not repeat is in the table; the totals follow with the flush."""
    insert_rows(database, 2)
    jobs = claim_jobs(database, 2)
    outbox = make_outbox(database)

    outbox.add(Settlement(jobs[0], DONE, 0), commit_now=True)
    status, counted = get_row(rival, jobs[0].id).status, rows_of(rival, totals)
    outbox.add(Settlement(jobs[1], DONE, 0), commit_now=True)
    outbox.flush()

    assert (status, counted) == ("done", [])
    assert [row.jobs for row in rows_of(rival, totals)] == [2]


def test_an_outcome_at_once_of_a_lost_job_changes_nothing(database: Database, rival: Database) -> None:
    """The short way for what is plainly done is fenced as the long one: who lost his lease learns it."""
    insert_rows(database, 1)
    (job,) = claim_jobs(database, 1)
    settle(rival, make_settler(), [Settlement(job, RELEASED)], {})
    sink = Lines()
    outbox = SettleBuffer(database, make_settler(), Log(sink, "WORKER"))

    outbox.add(Settlement(job, DONE, 0), commit_now=True)
    outbox.flush()

    assert get_row(rival, job.id).status == "pending"
    assert "lost lease" in sink.written[-1]
    assert [row.outcome for row in rows_of(rival, totals)] == [LOST_TOTALS, "released"]


def test_what_is_finished_does_not_wait_behind_a_job_that_may_be_slow(database: Database, rival: Database) -> None:
    """A type that is not known to be fast has the outcomes before it written first."""
    insert_rows(database, 2)
    jobs = claim_jobs(database, 2)
    jobs[1].type = "never seen"
    statuses = []

    def run(job: Job) -> JobResult:
        statuses.append([get_row(rival, each.id).status for each in jobs])
        return JobResult(DONE, 0)

    invoker = SimpleNamespace(run=run, runtime=make_runtime(database))
    guard = SimpleNamespace(may_start=True)
    BatchRunner(cast(Invoker, invoker), make_outbox(database), cast(Guard, guard), silent_log()).run(jobs)

    assert statuses == [["processing", "processing"], ["done", "processing"]]


def test_an_outcome_settled_beside_is_counted_later(database: Database, rival: Database) -> None:
    """A thread commits its job with its own rows, and touches nothing of ours: the figures follow with the flush."""
    insert_rows(database, 1)
    (job,) = claim_jobs(database, 1)
    outbox, transaction = make_outbox(database), JobTransaction(rival)
    settlement = Settlement(job, DONE, 3)
    with transaction.open(job):
        pass
    outbox.settle_in_thread(transaction, settlement)
    status, counted = get_row(database, job.id).status, rows_of(database, totals)

    outbox.count_later(settlement)
    outbox.flush()

    assert (status, counted, transaction.connection) == ("done", [], None)
    assert [(row.outcome, row.jobs) for row in rows_of(database, totals)] == [("done", 1)]


def test_nothing_is_settled_beside_for_a_job_that_is_no_longer_ours(database: Database, rival: Database) -> None:
    """What its handler wrote in the transaction is undone."""
    insert_rows(database, 2)
    ours, other = claim_jobs(database, 2)
    settle(database, make_settler(), [Settlement(ours, RELEASED)], {})
    transaction = JobTransaction(rival)
    with transaction.open(ours) as connection:
        connection.execute(update(jobs_table).where(jobs_table.c.id == other.id).values(group_key="written"))

    with pytest.raises(LostLease):
        make_outbox(database).settle_in_thread(transaction, Settlement(ours, DONE, 3))

    assert (get_row(database, ours.id).status, get_row(database, other.id).group_key) == ("pending", None)
