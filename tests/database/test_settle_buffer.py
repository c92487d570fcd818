"""Outcomes of fast jobs are buffered, or written at once if the handler asks for it."""

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest
from sqlalchemy import update

from mayfly.db.database import Database
from mayfly.errors import LostLease
from mayfly.job import Job
from mayfly.log import Log, silent_log
from mayfly.log_messages import Level
from mayfly.queue.outcome import DONE, RELEASED, Outcome, OutcomeKind, Settlement
from mayfly.queue.settle import settle
from mayfly.schema.metadata import attempts, totals
from mayfly.schema.metadata import jobs as jobs_table
from mayfly.stats.totals import LOST_TOTALS
from runner.batch import BatchRunner
from runner.guard import Guard
from runner.invoke import Invoker, JobResult
from runner.job_runtime import JobTransaction
from runner.settle_buffer import SettleBuffer
from tests.database.factories import claim_jobs, make_buffer, make_page, make_runtime, make_settler, rows_of
from tests.factories import get_row, insert_row, insert_rows
from tests.statement_recorder import recorded_statements


class Lines:
    """A sink that keeps the lines."""

    def __init__(self) -> None:
        self.written: list[str] = []

    def write(self, line: str, _level: Level) -> None:
        self.written.append(line)


def test_fast_outcomes_are_buffered_until_the_flush(database: Database, rival: Database) -> None:
    """Within 50 ms and a thousand jobs nothing is written, so a batch is one statement."""
    insert_rows(database, 2)
    jobs = claim_jobs(database, 2)
    outbox = make_buffer(database)

    outbox.add(Settlement(jobs[0], DONE, 0))
    before = get_row(rival, jobs[0].id).status
    outbox.flush()

    assert (before, get_row(rival, jobs[0].id).status) == ("processing", "done")


def test_the_totals_of_a_single_job_follow_later(database: Database, rival: Database) -> None:
    """Jobs that arrive one by one cost one statement each; the totals are written together."""
    insert_rows(database, 2)
    jobs = claim_jobs(database, 2)
    outbox = make_buffer(database)

    for job in jobs:
        outbox.add(Settlement(job, DONE, 0))
        outbox.write()
    statuses, counted = {get_row(rival, job.id).status for job in jobs}, rows_of(rival, totals)
    outbox.flush()

    assert (statuses, counted) == ({"done"}, [])
    assert [row.jobs for row in rows_of(rival, totals)] == [2]


def test_a_small_batch_is_settled_by_one_statement(database: Database) -> None:
    """Without a transaction of its own: most of the cost of a lane with few jobs. Its totals follow."""
    insert_rows(database, 5)
    outbox = make_buffer(database)
    for job in claim_jobs(database, 5):
        outbox.add(Settlement(job, DONE, 0))

    with recorded_statements() as sent:
        outbox.write()
    outbox.flush()

    assert [each.split()[0] for each in sent if each != "BEGIN IMMEDIATE"] == ["UPDATE"]  # SQLite begins each write
    assert [row.jobs for row in rows_of(database, totals)] == [5]


def test_late_totals_are_written_by_one_statement(database: Database) -> None:
    """Of all lanes that a runner has served: it needs no transaction for them."""
    outbox = make_buffer(database)
    for lane in ("a", "b", "c"):
        insert_row(database, lane=lane)
        [job] = claim_jobs(database, 1, lane=lane)
        outbox.add(Settlement(job, DONE, 0), commit_now=True)

    with recorded_statements() as sent:
        outbox.flush()

    assert [each.split()[0] for each in sent if each != "BEGIN IMMEDIATE"] == ["INSERT"]
    assert sorted(row.lane for row in rows_of(database, totals)) == ["a", "b", "c"]


def test_jobs_of_a_small_batch_keep_their_own_results(database: Database, rival: Database) -> None:
    """Jobs that are done with different results cannot share a statement."""
    insert_rows(database, 3)
    jobs = claim_jobs(database, 3)
    outbox = make_buffer(database)

    for number, job in enumerate(jobs):
        outbox.add(Settlement(job, Outcome(OutcomeKind.DONE, result=str(number)), 0))
    outbox.flush()

    assert [get_row(rival, job.id).result for job in jobs] == ["0", "1", "2"]


def test_a_small_batch_is_settled_without_a_job_that_was_lost(database: Database, rival: Database) -> None:
    """The others are done and counted; the lost one is logged and belongs to its new owner."""
    insert_rows(database, 3)
    jobs = claim_jobs(database, 3)
    settle(rival, make_settler(), [Settlement(jobs[1], RELEASED)], {})
    sink = Lines()
    outbox = make_buffer(database, Log(sink, "WORKER"))

    for job in jobs:
        outbox.add(Settlement(job, DONE, 0))
    outbox.flush()

    assert [get_row(rival, job.id).status for job in jobs] == ["done", "pending", "done"]
    assert [f"Job {jobs[1].id} (noop): lost lease" in line for line in sink.written] == [True]
    assert sorted((row.outcome, row.jobs) for row in rows_of(rival, totals) if row.outcome != "released") == [
        ("done", 2),
        (LOST_TOTALS, 1),
    ]


def test_an_immediate_outcome_is_committed_before_the_next_job(database: Database, rival: Database) -> None:
    """With ack="each" a crash of the next job cannot repeat it; the totals follow with the flush."""
    insert_rows(database, 2)
    jobs = claim_jobs(database, 2)
    outbox = make_buffer(database)

    outbox.add(Settlement(jobs[0], DONE, 0), commit_now=True)
    status, counted = get_row(rival, jobs[0].id).status, rows_of(rival, totals)
    outbox.add(Settlement(jobs[1], DONE, 0), commit_now=True)
    outbox.flush()

    assert (status, counted) == ("done", [])
    assert [row.jobs for row in rows_of(rival, totals)] == [2]


def test_an_immediate_success_is_recorded_where_successes_are_kept(database: Database, rival: Database) -> None:
    """The attempt is committed together with the outcome."""
    insert_rows(database, 1)
    (job,) = claim_jobs(database, 1)
    settler = replace(make_settler(), success_lanes=["default"])
    outbox = SettleBuffer(database, settler, make_page(), silent_log())

    outbox.add(Settlement(job, DONE, 3), commit_now=True)

    assert get_row(rival, job.id).status == "done"
    assert [(row.job_id, row.outcome) for row in rows_of(rival, attempts)] == [(job.id, "done")]


def test_an_immediate_outcome_with_a_lost_lease_changes_nothing(database: Database, rival: Database) -> None:
    """The shortcut for plain outcomes is fenced too, and the runner detects the loss."""
    insert_rows(database, 1)
    (job,) = claim_jobs(database, 1)
    settle(rival, make_settler(), [Settlement(job, RELEASED)], {})
    sink = Lines()
    outbox = make_buffer(database, Log(sink, "WORKER"))

    outbox.add(Settlement(job, DONE, 0), commit_now=True)
    outbox.flush()

    assert get_row(rival, job.id).status == "pending"
    assert "lost lease" in sink.written[-1]
    assert [row.outcome for row in rows_of(rival, totals)] == [LOST_TOTALS, "released"]


def test_finished_jobs_do_not_wait_for_a_job_that_may_be_slow(database: Database, rival: Database) -> None:
    """Before a type that is not known to be fast, the buffered outcomes are written."""
    insert_rows(database, 2)
    jobs = claim_jobs(database, 2)
    jobs[1].type = "never seen"
    statuses = []

    def run(job: Job) -> JobResult:
        statuses.append([get_row(rival, each.id).status for each in jobs])
        return JobResult(DONE, 0)

    invoker = SimpleNamespace(run=run, runtime=make_runtime(database), page=make_page())
    guard = SimpleNamespace(may_start=True)
    BatchRunner(cast(Invoker, invoker), make_buffer(database), cast(Guard, guard), silent_log()).run(jobs)

    assert statuses == [["processing", "processing"], ["done", "processing"]]


def test_an_outcome_committed_by_a_thread_is_counted_later(database: Database, rival: Database) -> None:
    """A thread commits its job with its own rows; the figures follow with the flush."""
    insert_rows(database, 1)
    (job,) = claim_jobs(database, 1)
    outbox, transaction = make_buffer(database), JobTransaction(rival)
    settlement = Settlement(job, DONE, 3)
    with transaction.open(job):
        pass
    outbox.settle_in_thread(transaction, settlement)
    status, counted = get_row(database, job.id).status, rows_of(database, totals)

    outbox.count_later(settlement)
    outbox.flush()

    assert (status, counted, transaction.connection) == ("done", [], None)
    assert [(row.outcome, row.jobs) for row in rows_of(database, totals)] == [("done", 1)]


def test_a_thread_with_a_lost_lease_commits_nothing(database: Database, rival: Database) -> None:
    """Its transaction is rolled back."""
    insert_rows(database, 2)
    ours, other = claim_jobs(database, 2)
    settle(database, make_settler(), [Settlement(ours, RELEASED)], {})
    transaction = JobTransaction(rival)
    with transaction.open(ours) as connection:
        connection.execute(update(jobs_table).where(jobs_table.c.id == other.id).values(group_key="written"))

    with pytest.raises(LostLease):
        make_buffer(database).settle_in_thread(transaction, Settlement(ours, DONE, 3))

    assert (get_row(database, ours.id).status, get_row(database, other.id).group_key) == ("pending", None)


def test_two_jobs_are_settled_by_one_statement(database: Database) -> None:
    """The smallest batch that shares one."""
    insert_rows(database, 2)
    outbox = make_buffer(database)
    jobs = claim_jobs(database, 2)
    for job in jobs:
        outbox.add(Settlement(job, DONE, 0))

    with recorded_statements() as sent:
        outbox.write()

    assert [each.split()[0] for each in sent if each != "BEGIN IMMEDIATE"] == ["UPDATE"]
    assert {get_row(database, job.id).status for job in jobs} == {"done"}
