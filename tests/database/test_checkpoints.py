"""Checkpoints and progress: written only with a valid claim, and read by the next run."""

from collections.abc import Callable
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import pytest

from mayfly.clock import monotonic
from mayfly.db.database import Database
from mayfly.errors import (
    BadJobState,
    CancelRequested,
    HandlerEnded,
    LeaseGone,
    RefusedInTransaction,
    SliceEnded,
)
from mayfly.job import Job
from mayfly.process.status_page import StatusPage
from mayfly.queue.followups import buffer_job
from mayfly.queue.insert import NewJob
from mayfly.queue.outcome import Outcome, OutcomeKind, Settlement
from mayfly.queue.policy import after_slice
from mayfly.queue.settle import settle
from runner.guard import Guard
from runner.job_runtime import HandlerRuntime
from tests.database.factories import change_job, claim_ids, claim_jobs, make_settler
from tests.factories import get_row, insert_row, insert_rows
from tests.statement_recorder import recorded_statements

Begin = Callable[..., Job]
SLICED = Outcome(OutcomeKind.SLICED, keeps_attempt=True)


@pytest.fixture
def page(tmp_path: Path) -> StatusPage:
    return StatusPage(tmp_path / "worker-1.page")


@pytest.fixture
def begin(database: Database, page: StatusPage) -> Begin:
    """Claim the next job and start it, in a window that ends after this many seconds."""

    def begin(seconds: float = inf, ran: float = 0.0, timeout: float | None = None) -> Job:
        [job] = claim_jobs(database, 1)
        now = monotonic()
        page.start(job.id, now - ran, timeout)
        job.runtime = HandlerRuntime(database, "worker-1", Guard(now + seconds, page))
        return job

    return begin


def test_the_next_run_finds_the_last_checkpoint(database: Database, begin: Begin) -> None:
    """A copy of the value; before the first checkpoint it is None."""
    job_id = insert_row(database)
    first = begin()

    states = [first.state]
    first.checkpoint({"row": 7, "name": "Zoë"})
    first.checkpoint({"row": 8, "name": "Zoë"})
    states.append(first.state)
    states[1]["row"] = 99
    settle_one(database, first, SLICED)

    assert states[0] is None
    assert first.state == {"row": 8, "name": "Zoë"}
    assert get_row(database, job_id).checkpoint == '{"row":8,"name":"Zoë"}'
    assert claim_jobs(database)[0].state == {"row": 8, "name": "Zoë"}


def test_checkpoints_work_on_the_event_loop(database: Database, begin: Begin) -> None:
    """The same statement, through another connection."""
    job_id = insert_row(database)
    job = begin()
    assert isinstance(job.runtime, HandlerRuntime)
    job.runtime = replace(job.runtime, is_on_loop=True)

    job.checkpoint(7)
    job.progress(1)

    row = get_row(database, job_id)
    assert (row.checkpoint, row.progress) == ("7", '{"done":1,"total":null,"text":""}')


def test_each_checkpoint_is_one_statement(database: Database, begin: Begin) -> None:
    """Handlers may call it often."""
    insert_row(database)
    job = begin()

    with recorded_statements() as sent:
        job.checkpoint(1)
        job.progress(1, 2)

    assert [each.partition(" ")[0] for each in sent if each.startswith(("UPDATE", "SELECT"))] == ["UPDATE"] * 2


def test_a_job_that_makes_progress_is_no_suspect(database: Database, begin: Begin) -> None:
    """A changed checkpoint resets the crashes and adds them to the forgiven ones; an equal one does not."""
    accused = {"crashes": 2, "interruptions": 3, "stalled": 5, "checkpoint": "7"}
    job_id = insert_row(database, suspect=1, forgiven=4, **accused)
    job = begin()

    job.checkpoint(7)
    before = get_row(database, job_id)
    job.checkpoint(8)
    after = get_row(database, job_id)

    assert {name: getattr(before, name) for name in accused} == accused
    assert (after.crashes, after.interruptions, after.suspect, after.stalled) == (0, 0, 0, -1)
    assert (before.forgiven, after.forgiven) == (4, 6)
    assert job.has_moved


def test_a_slice_continues_at_the_head_of_its_lane(database: Database, begin: Begin) -> None:
    """Counted, without using an attempt, with its old run_at: the next claim takes it before later jobs."""
    job_id, *others = insert_rows(database, 3)
    run_at = get_row(database, job_id).run_at
    job = begin()
    job.checkpoint(1)

    settle_one(database, job, after_slice(job))

    row = get_row(database, job_id)
    assert (row.status, row.attempts, row.slices, row.stalled, row.run_at) == ("pending", 0, 1, 0, run_at)
    assert claim_ids(database, 3) == [job_id, *others]


def test_slices_without_progress_are_counted(database: Database, begin: Begin) -> None:
    """In a row, until one changes the checkpoint."""
    job_id = insert_row(database)
    stalled = []
    for state in (1, 1, 1, 2, 2):
        job = begin()
        job.checkpoint(state)
        settle_one(database, job, after_slice(job))
        stalled.append(get_row(database, job_id).stalled)

    assert (stalled, get_row(database, job_id).slices) == ([0, 1, 2, 0, 1], 5)


def test_progress_of_a_failed_run_does_not_count_for_the_next(database: Database, begin: Begin) -> None:
    """Its row still has it for the dispatcher after a kill; a new claim resets it."""
    insert_row(database)
    job = begin()
    job.checkpoint(1)
    settle_one(database, job, Outcome(OutcomeKind.FAILED))

    [again] = claim_jobs(database)

    assert (again.state, again.has_moved) == (1, False)


def test_jobs_enqueued_before_a_checkpoint_are_written_with_it(database: Database, begin: Begin) -> None:
    """Once: the run that continues does not enqueue them again. Without a valid claim they are dropped."""
    job_id = insert_row(database)
    job = begin()
    buffer_job(job, [NewJob("child", "{}", "children", 5, 1)])

    job.checkpoint(1)
    job.checkpoint(2)
    first = len(claim_ids(database, lane="children"))
    buffer_job(job, [NewJob("child", "{}", "children", 5, 1)])
    change_job(database, job_id, worker_id="worker-2")
    with pytest.raises(LeaseGone):
        job.checkpoint(3)

    assert (first, claim_ids(database, lane="children")) == (1, [])


# --- the end ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "ran", "timeout"),
    [(0.9, 0.0, None), (10.0, 9.5, None), (inf, 8.0, 16.0)],
    ids=["a second before the end", "no time for such a step", "its own limit"],
)
def test_a_handler_is_ended_at_a_checkpoint_near_the_end_of_its_window(
    database: Database, begin: Begin, seconds: float, ran: float, timeout: float | None
) -> None:
    """After the checkpoint is stored."""
    job_id = insert_row(database)
    job = begin(seconds, ran, timeout)

    with pytest.raises(SliceEnded):
        job.checkpoint(7)

    assert get_row(database, job_id).checkpoint == "7"


def test_a_handler_continues_while_there_is_time(database: Database, begin: Begin) -> None:
    """For a step as long as the longest one, and a second."""
    insert_row(database)
    job = begin(seconds=10.0, ran=5.0)

    job.checkpoint(7)
    job.checkpoint(8)


def test_a_stop_ends_a_handler_at_its_next_checkpoint(database: Database, begin: Begin) -> None:
    """So a deploy does not wait for jobs that can continue later."""
    insert_row(database)
    job = begin()
    assert isinstance(job.runtime, HandlerRuntime)
    job.runtime.guard.stopped_by = "SIGTERM"

    with pytest.raises(SliceEnded):
        job.checkpoint(7)


def test_a_handler_that_lost_its_lease_is_ended_and_writes_nothing(database: Database, begin: Begin) -> None:
    """At a checkpoint and at progress: another runner may be running the job."""
    job_id = insert_row(database)
    late = begin()
    change_job(database, job_id, status="pending", worker_id=None)
    claim_jobs(database, worker_id="worker-2")

    with pytest.raises(LeaseGone):
        late.checkpoint(1)
    with pytest.raises(LeaseGone):
        late.progress(1)

    row = get_row(database, job_id)
    assert (row.checkpoint, row.progress, row.worker_id) == (None, None, "worker-2")


def test_another_claim_of_the_same_runner_invalidates_the_first(database: Database, begin: Begin) -> None:
    """The fencing token is compared, not only the worker_id."""
    job_id = insert_row(database)
    late = begin()
    change_job(database, job_id, status="pending", worker_id=None)
    claim_jobs(database)

    with pytest.raises(LeaseGone):
        late.checkpoint(1)


def test_a_job_with_a_requested_cancellation_ends_at_its_next_checkpoint(database: Database, begin: Begin) -> None:
    """With the reason of the request; its last checkpoint is kept."""
    job_id = insert_row(database)
    job = begin()
    job.checkpoint(1)
    change_job(database, job_id, cancel_reason="the customer left")

    with pytest.raises(CancelRequested) as ended:
        job.checkpoint(2)

    assert (ended.value.reason, get_row(database, job_id).checkpoint) == ("the customer left", "1")


def test_except_exception_does_not_catch_the_end_of_a_slice() -> None:
    """A loop that skips bad rows must not skip its own end."""
    assert not issubclass(HandlerEnded, Exception)


# --- refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (
            object(),
            "The checkpoint of noop is refused: it is not valid JSON (Object of type object is not JSON",
        ),
        (float("nan"), "it is not valid JSON"),
        ("x" * 65_535, "it has 65,537 bytes, the limit is 65,536"),
    ],
    ids=["an object", "no number", "too large"],
)
def test_an_invalid_checkpoint_is_an_error(database: Database, begin: Begin, state: Any, reason: str) -> None:
    """The previous one is kept."""
    job_id = insert_row(database)
    job = begin()
    job.checkpoint("x" * 65_534)

    with pytest.raises(BadJobState, match=r"^The checkpoint of") as refused:
        job.checkpoint(state)

    assert reason in str(refused.value)
    assert len(get_row(database, job_id).checkpoint) == 65_536


def test_a_checkpoint_in_the_jobs_own_transaction_is_refused(database: Database, begin: Begin) -> None:
    """That transaction ends with the job's `done`, so there is nothing to continue."""
    insert_row(database)
    job = begin()

    with pytest.raises(RefusedInTransaction, match="checkpoint"), job.transaction():
        job.checkpoint(1)


@pytest.mark.parametrize("arguments", [("many",), (None,), (True,), (1, "two"), (1, 2, 3), (float("inf"),)])
def test_invalid_progress_is_an_error(database: Database, begin: Begin, arguments: tuple[Any, ...]) -> None:
    """Numbers must be numbers, and the text must be text."""
    insert_row(database)
    job = begin()

    with pytest.raises(BadJobState, match=r"^The progress of"):
        job.progress(*arguments)


# --- progress ---------------------------------------------------------------------------------------------


def test_progress_is_written_once_a_second(database: Database, begin: Begin) -> None:
    """The first at once; a throttled value is written with the next checkpoint or at the end."""
    job_id = insert_row(database)
    job = begin()

    with recorded_statements() as sent:
        for number in range(1000):
            job.progress(number, 1000, "rows")
    seen = [get_row(database, job_id).progress]
    job.checkpoint(1)
    seen.append(get_row(database, job_id).progress)
    job.progress(1000, 1000)
    assert job.progress_state is not None
    job.progress_state.write(job)
    seen.append(get_row(database, job_id).progress)

    assert len(sent) < 10
    assert seen == [
        '{"done":0,"total":1000,"text":"rows"}',
        '{"done":999,"total":1000,"text":"rows"}',
        '{"done":1000,"total":1000,"text":""}',
    ]


def settle_one(database: Database, job: Job, outcome: Outcome) -> None:
    settle(database, make_settler(), [Settlement(job, outcome)], {})
