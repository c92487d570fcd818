"""What the answer of an engine means for the row of a runner."""

from datetime import timedelta
from typing import Any

import pytest

from dispatcher.engine_round import EXPLAIN_AGE, LATE_JOB_AGE, UNCHANGED, Verdict, decide
from mayfly.fleet.launchers import EngineJob
from mayfly.fleet.submitted import EngineStep, SubmittedRunner
from tests.factories import NOON

SECOND = timedelta(seconds=1)
PENDING = EngineJob("17", ("PENDING",))
RUNNING = EngineJob("17", ("RUNNING",))
ENDED = EngineJob("17", ("COMPLETED",))
NODE_FAILED = EngineJob("17", ("NODE_FAIL",))


def make_row(step: EngineStep, **values: Any) -> SubmittedRunner:
    return SubmittedRunner("worker-1-1", "import", step)._replace(**values)


@pytest.mark.parametrize("job", [PENDING, RUNNING])
def test_a_runner_without_an_answer_is_found_by_its_name(job: EngineJob) -> None:
    """Its id is stored, and nothing else."""
    assert decide(make_row(EngineStep.FIND, cause="timed out"), job, NOON) == Verdict(is_found=True)


def test_a_submit_is_refused_if_it_failed_and_the_engine_does_not_know_it() -> None:
    """Both are needed."""
    failed, silent = make_row(EngineStep.FIND, cause="no such partition"), make_row(EngineStep.FIND)

    assert decide(failed, None, NOON) == Verdict(ending="refused", cause="no such partition")
    assert decide(silent, None, NOON) == UNCHANGED
    assert decide(failed._replace(has_started=True), None, NOON) == UNCHANGED


def test_an_engine_that_does_not_know_a_runner_any_more_changes_nothing() -> None:
    """Its lease decides whether it is alive."""
    assert decide(make_row(EngineStep.WATCH, has_started=True), None, NOON) == UNCHANGED
    assert decide(make_row(EngineStep.WATCH), None, NOON) == UNCHANGED


def test_a_process_that_ended_before_it_took_over_its_row_is_planned_again() -> None:
    """It holds no jobs, so nothing has to be waited for."""
    verdict = decide(make_row(EngineStep.WATCH, external_id="17"), NODE_FAILED, NOON)

    assert (verdict.ending, verdict.cause) == ("not started", "node failed")
    assert "COMPLETED" in str(decide(make_row(EngineStep.WATCH), ENDED, NOON).cause)


def test_the_end_of_a_runner_that_has_started_is_only_explained() -> None:
    """Its row is closed when its lease has ended."""
    verdict = decide(make_row(EngineStep.WATCH, has_started=True), NODE_FAILED, NOON)

    assert (verdict.ending, verdict.cause, verdict.is_finished) == (None, "node failed", False)


def test_a_closed_runner_is_cancelled_until_it_has_ended() -> None:
    """Cancelling is repeated, and ends when the engine reports the end or forgets it."""
    row = make_row(EngineStep.CANCEL, external_id="17", finished_at=NOON)

    assert decide(row, PENDING, NOON).must_cancel
    assert decide(row, RUNNING, NOON).must_cancel
    assert decide(row, ENDED, NOON) == Verdict(is_found=True, is_finished=True)
    assert decide(row, None, NOON).is_finished


def test_a_late_job_of_a_closed_runner_is_cancelled() -> None:
    """The engine may take in a job after the answer to its submit was lost."""
    row = make_row(EngineStep.CANCEL, finished_at=NOON)

    assert not decide(row, None, NOON + LATE_JOB_AGE).is_finished
    assert decide(row, None, NOON + LATE_JOB_AGE + SECOND).is_finished
    assert decide(row, PENDING, NOON + LATE_JOB_AGE).must_cancel


def test_the_cause_is_waited_for_while_the_engine_has_not_seen_the_end() -> None:
    """For ten minutes: an engine notices the end of a node late."""
    row = make_row(EngineStep.EXPLAIN, external_id="17", finished_at=NOON)

    assert not decide(row, RUNNING, NOON + EXPLAIN_AGE).is_finished
    assert decide(row, RUNNING, NOON + EXPLAIN_AGE + SECOND).is_finished
    assert decide(row, None, NOON).is_finished
    assert decide(row, NODE_FAILED, NOON) == Verdict(is_found=True, cause="node failed", is_finished=True)
