"""Which of the rows that are due may share a claim."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.queue.claim import Claimed, Row, claimable, jobs_from

RUN_AT = datetime(2026, 3, 1, tzinfo=UTC)


def make_row(id: int, suspect: bool = False, crashes: int = 0) -> Row:
    """As a database gives it, in the order of `due_statement`."""
    return (id, int(suspect), "{}", None, 0, 5, 0, crashes, 0, RUN_AT, "noop")


def ids(rows: Sequence[Row]) -> list[int]:
    return [row[0] for row in rows]


rows = st.lists(st.tuples(st.booleans(), st.integers(0, 2)), max_size=12).map(
    lambda facts: [make_row(number, suspect, crashes * suspect) for number, (suspect, crashes) in enumerate(facts)]
)


@pytest.mark.parametrize("fresh", [True, False])
def test_innocent_jobs_are_taken_together(fresh: bool) -> None:
    """All of them, whoever asks."""
    assert ids(claimable([make_row(1), make_row(2), make_row(3)], fresh)) == [1, 2, 3]


@pytest.mark.parametrize("fresh", [True, False])
def test_those_before_a_suspect_are_taken_without_it(fresh: bool) -> None:
    """Its turn comes with the next claim."""
    assert ids(claimable([make_row(1), make_row(2), make_row(3, suspect=True), make_row(4)], fresh)) == [1, 2]


@pytest.mark.parametrize("crashes", [0, 1, 2])
def test_a_fresh_runner_takes_a_suspect_alone(crashes: int) -> None:
    """If it kills its runner, nobody else is harmed, and it is known who did it."""
    due = [make_row(1, suspect=True, crashes=crashes), make_row(2), make_row(3, suspect=True)]

    assert ids(claimable(due, fresh=True)) == [1]


def test_a_suspect_that_killed_nobody_may_follow_other_jobs() -> None:
    """One of a claim whose runner died unseen: alone, but in any runner."""
    assert ids(claimable([make_row(1, suspect=True), make_row(2)], fresh=False)) == [1]


def test_a_job_that_killed_a_runner_waits_for_one_of_its_own() -> None:
    """A runner that has already run something leaves it, and all that lies behind it, to a fresh one."""
    assert ids(claimable([make_row(1, suspect=True, crashes=1), make_row(2)], fresh=False)) == []


@pytest.mark.parametrize("fresh", [True, False])
def test_nothing_due_is_nothing_taken(fresh: bool) -> None:
    """An empty lane."""
    assert ids(claimable([], fresh)) == []


@given(rows, st.booleans())
def test_a_claim_takes_from_the_head_and_a_suspect_only_alone(due: list[Row], fresh: bool) -> None:
    """Nobody is passed over, and nobody shares a claim with a suspect."""
    taken = claimable(due, fresh)

    assert ids(taken) == ids(due[: len(taken)])
    assert len(taken) <= 1 or not any(job.suspect for job in jobs_from(Claimed(taken), "default"))


@given(rows)
def test_a_fresh_runner_always_finds_something(due: list[Row]) -> None:
    """Whatever lies at the head of a lane, a new runner gets on with it."""
    assert bool(claimable(due, fresh=True)) == bool(due)
