"""Which due rows may share a claim."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.queue.claim import Claimed, Row, claimable, jobs_from

RUN_AT = datetime(2026, 3, 1, tzinfo=UTC)


def make_row(id: int, suspect: bool = False, crashes: int = 0) -> Row:
    """As a database returns it, in the order of `due_statement`."""
    return (id, "noop", "{}", 0, 5, 0, crashes, 0, RUN_AT, None, int(suspect))


def ids(rows: Sequence[Row]) -> list[int]:
    return [row[0] for row in rows]


rows = st.lists(st.tuples(st.booleans(), st.integers(0, 2)), max_size=12).map(
    lambda facts: [make_row(number, suspect, crashes * suspect) for number, (suspect, crashes) in enumerate(facts)]
)


@pytest.mark.parametrize("fresh", [True, False])
def test_jobs_that_are_no_suspects_are_claimed_together(fresh: bool) -> None:
    """By any runner."""
    assert ids(claimable([make_row(1), make_row(2), make_row(3)], fresh)) == [1, 2, 3]


@pytest.mark.parametrize("fresh", [True, False])
def test_jobs_before_a_suspect_are_claimed_without_it(fresh: bool) -> None:
    """The suspect is left for the next claim."""
    assert ids(claimable([make_row(1), make_row(2), make_row(3, suspect=True), make_row(4)], fresh)) == [1, 2]


@pytest.mark.parametrize("crashes", [0, 1, 2])
def test_a_fresh_runner_claims_a_suspect_alone(crashes: int) -> None:
    """If it kills its runner, no other job is affected, and the culprit is known."""
    due = [make_row(1, suspect=True, crashes=crashes), make_row(2), make_row(3, suspect=True)]

    assert ids(claimable(due, fresh=True)) == [1]


def test_a_suspect_without_a_crash_may_follow_other_jobs() -> None:
    """Its runner died unseen with several jobs: it is claimed alone, but by any runner."""
    assert ids(claimable([make_row(1, suspect=True), make_row(2)], fresh=False)) == [1]


def test_a_job_that_crashed_its_runner_waits_for_a_fresh_one() -> None:
    """A runner that has run a job leaves it, and all jobs after it, to a fresh runner."""
    assert ids(claimable([make_row(1, suspect=True, crashes=1), make_row(2)], fresh=False)) == []


@pytest.mark.parametrize("fresh", [True, False])
def test_without_due_jobs_nothing_is_claimed(fresh: bool) -> None:
    """The lane is empty."""
    assert ids(claimable([], fresh)) == []


@given(rows, st.booleans())
def test_a_claim_takes_the_first_jobs_and_a_suspect_only_alone(due: list[Row], fresh: bool) -> None:
    """No job is skipped, and no job shares a claim with a suspect."""
    taken = claimable(due, fresh)

    assert ids(taken) == ids(due[: len(taken)])
    assert len(taken) <= 1 or not any(job.suspect for job in jobs_from(Claimed(taken), "default"))


@given(rows)
def test_a_fresh_runner_always_claims_something(due: list[Row]) -> None:
    """No job at the head of a lane can block a new runner."""
    assert bool(claimable(due, fresh=True)) == bool(due)


def test_a_runner_that_is_not_fresh_claims_the_job_before_one_that_crashed() -> None:
    """Only the job that crashed its runner is left to a fresh one."""
    assert ids(claimable([make_row(1), make_row(2, suspect=True, crashes=1)], fresh=False)) == [1]
