"""The timeline of a job: events of one moment are in the order in which they happen."""

from datetime import datetime, timedelta
from typing import Any

from mayfly.admin.job import Attempt, timeline
from mayfly.admin.why import JobRow
from tests.factories import NOON

SECOND = timedelta(seconds=1)


def make_attempt(outcome: str = "failed", at: datetime = NOON, duration_ms: int | None = 0) -> Attempt:
    return Attempt(1, "worker-1", outcome, "no", "f", at, duration_ms)


def make_row(status: str = "dead", slices: int = 0) -> JobRow:
    """Claimed, started and ended in one moment, a second after its enqueue."""
    row = JobRow(12, "send_email", "mail", status, 1, NOON, 1, 1)
    times: dict[str, Any] = {"created_at": NOON - SECOND, "locked_at": NOON, "started_at": NOON, "finished_at": NOON}
    return row._replace(**times, worker_id="worker-1", slices=slices)


def test_a_start_precedes_the_failure_of_the_same_moment() -> None:
    """A job that fails within a millisecond starts and fails at the same time."""
    events = timeline(make_row(), [make_attempt()])

    assert [event.kind for event in events] == ["enqueued", "claimed", "started", "attempt", "ended"]


def test_slices_are_numbered_from_the_last() -> None:
    """Rows of the first ones may have been pruned."""
    slices = [make_attempt("sliced", NOON - SECOND / 4, 50_000), make_attempt("sliced", NOON - SECOND / 2, None)]

    events = timeline(make_row("done", slices=3), [], slices)

    texts = [event.text for event in events if event.kind == "sliced"]
    assert texts == ["slice 2 ended (worker-1)", "slice 3 ended after 50 s (worker-1)"]


def test_releases_are_events_with_their_error() -> None:
    """A release is no slice: it has no number."""
    released = make_attempt("released", NOON - SECOND / 2, 1500)
    runs = [make_attempt("sliced", NOON - SECOND / 4, None), released, released._replace(error="", duration_ms=None)]

    events = timeline(make_row("done", slices=1), [], runs)

    assert [(event.kind, event.text) for event in events[1:4]] == [
        ("released", "released after 1.5 s (worker-1): no"),
        ("released", "released (worker-1)"),
        ("sliced", "slice 1 ended (worker-1)"),
    ]
