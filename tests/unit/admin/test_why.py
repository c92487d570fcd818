"""Why a job is not running: one sentence for each reason, and one where there is none."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from mayfly.admin.why import JobDiagnosis, JobRow, LaneState, explain
from mayfly.queue.pauses import Pause
from tests.factories import NOON

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
AN_HOUR_AGO = "2026-05-04 11:00:00 UTC (60 min ago)"


def make_row(**changes: Any) -> JobRow:
    """A job that is due and was never claimed."""
    return JobRow(12, "send_email", "mail", "pending", 1, NOON - MINUTE, 0, 5)._replace(**changes)


def make_known(lane: LaneState | None = None, **changes: Any) -> JobDiagnosis:
    """Everything is well: a cycle ran half a minute ago. What is changed may belong to the row."""
    of_row = {name: changes.pop(name) for name in JobRow._fields if name in changes}
    known = JobDiagnosis(make_row(**of_row), lane or LaneState(5), NOON, last_cycle_at=NOON - MINUTE / 2)
    return replace(known, **changes)


def told(known: JobDiagnosis) -> list[str]:
    return [each.text for each in explain(known)]


@pytest.mark.parametrize(("interruptions", "often"), [(1, "once"), (3, "3 times")])
def test_an_interrupted_job_waits_for_a_fresh_runner(interruptions: int, often: str) -> None:
    """It says so, and how often that has happened; a job without an interruption does not."""
    sentence = f"It was interrupted {often} by the end of a window; a fresh runner starts with it."

    assert told(make_known(interruptions=interruptions)) == [sentence]
    assert sentence not in told(make_known(claims=2, attempts=1))


def test_a_job_that_nothing_holds_up_is_next() -> None:
    """By the coming cycle, or by a runner that is alive."""
    assert told(make_known()) == ["It is next: the next cycle will start a runner for it."]
    assert told(make_known(LaneState(5, running=2))) == ["It is next: one of 2 runners of its lane will take it."]


@pytest.mark.parametrize(
    ("status", "error", "sentence"),
    [
        ("done", "result dropped", f"It is done since {AN_HOUR_AGO}."),
        (
            "dead",
            "no such customer\ntrace",
            f"It is dead since {AN_HOUR_AGO}: no such customer.",
        ),
        ("dead", "There is no table.\ntrace", f"It is dead since {AN_HOUR_AGO}: There is no table."),
        (
            "cancelled",
            "cancelled by ann",
            f"It is cancelled since {AN_HOUR_AGO}: cancelled by ann.",
        ),
    ],
)
def test_what_has_ended_says_when_and_why(status: str, error: str, sentence: str) -> None:
    """And nothing else, whatever is paused."""
    known = make_known(
        status=status, finished_at=NOON - HOUR, last_error=error, pauses=(Pause("lane", "mail", NOON),)
    )

    assert told(known) == [sentence]


def test_a_job_that_runs_says_where() -> None:
    """Since its claim."""
    known = make_known(status="processing", worker_id="worker-1-1", locked_at=NOON - MINUTE / 2, host="web1")

    assert told(known) == ["It is being processed by worker-1-1 on web1 since 2026-05-04 11:59:30 UTC (30 s ago)."]


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"progress": {"done": 1500, "total": 40000, "text": "rows"}, "slices": 3},
         "It is at 1,500 of 40,000 rows, after 3 slices."),
        ({"progress": {"done": 7, "total": None, "text": ""}}, "It is at 7."),
        ({"slices": 1}, "It continues from its checkpoint, after 1 slice."),
    ],
)  # fmt: skip
@pytest.mark.parametrize("status", ["processing", "pending"])
def test_a_long_job_says_how_far_it_is(status: str, columns: dict[str, Any], sentence: str) -> None:
    """While it runs, and between two slices."""
    assert told(make_known(status=status, **columns))[-1] == sentence


def test_a_job_that_runs_and_should_not_says_so() -> None:
    """Its lease is over, somebody wants it to end."""
    known = make_known(
        status="processing", worker_id="w", lease_until=NOON - MINUTE, cancel_reason="cancelled by ann"
    )

    assert told(known)[1:] == [
        "Its lease expired 60 s ago: the next cycle releases it.",
        "Cancellation requested; the handler has not noticed yet (cancelled by ann).",
    ]


@pytest.mark.parametrize(
    ("pause", "sentence"),
    [
        (
            Pause("lane", "mail", NOON - HOUR, NOON + HOUR, "ann", "the vendor is down"),
            "The lane mail is paused since 2026-05-04 11:00:00 UTC (60 min ago) by ann"
            " until 2026-05-04 13:00:00 UTC: the vendor is down.",
        ),
        (
            Pause("type", "send_email", NOON - 3 * HOUR),
            "The type send_email is paused since 2026-05-04 09:00:00 UTC (3 h ago).",
        ),
    ],
)
def test_a_pause_says_since_when_by_whom_and_why(pause: Pause, sentence: str) -> None:
    """As far as that is known."""
    assert told(make_known(pauses=(pause,))) == [sentence]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, "It is due in 3 h, at 2026-05-04 15:00:00 UTC."),
        (
            {"waiting_for": "limit smtp:42 opens at 15:00"},
            "It waits: limit smtp:42 opens at 15:00. It is due in 3 h, at 2026-05-04 15:00:00 UTC.",
        ),
        (
            {"attempts": 2, "last_error": "OSError: no route\ntrace"},
            "It will be retried after attempt 2/5: OSError: no route. It is due in 3 h, at 2026-05-04 15:00:00 UTC.",
        ),
    ],
)
def test_a_delayed_job_says_until_when(changes: dict[str, Any], sentence: str) -> None:
    """And what for, where that is known. That others are before it is of no interest yet."""
    known = make_known(LaneState(1, running=1, jobs_before=3), run_at=NOON + 3 * HOUR, last_cycle_at=None, **changes)

    assert told(known) == [sentence]


def test_what_a_due_job_once_waited_for_is_over() -> None:
    """The reason belongs to a run_at that has come."""
    assert told(make_known(waiting_for="type send_email is paused")) == [
        "It is next: the next cycle will start a runner for it."
    ]


@pytest.mark.parametrize(
    ("known", "sentence"),
    [
        (make_known(last_cycle_at=None), "No cycle has run yet: is cron set up? See scripts/install-cron."),
        (make_known(last_cycle_at=NOON - 7 * MINUTE), "No cycle for 7 min: is cron running? See `mayfly doctor`."),
        (make_known(has_handler=False), "No handler for type 'send_email' is known here."),
        (
            make_known(
                has_handler=False, handler_hint=" Did you mean 'send_mail'?", broken_modules={"a": "ImportError: b"}
            ),
            "No handler for type 'send_email' is known here. Did you mean 'send_mail'? a cannot be imported:"
            " ImportError: b.",
        ),
        (make_known(crashes=2), "It waits for a runner of its own: it crashed its runner 2 times."),
        (make_known(suspect=True), "It waits for a runner of its own: its runner died and may have been running it."),
        (
            make_known(LaneState(5, external=True)),
            "The lane mail is external: no cycle serves it, external workers pull from it.",
        ),
        (make_known(LaneState(5, running=5)), "The lane mail is at its cap: 5 of 5 runners are alive."),
        (make_known(LaneState(5, jobs_before=7)), "7 due jobs of the lane mail will be claimed before it."),
        (
            make_known(LaneState(5, jobs_before=1000, is_capped=True)),
            "1,000+ due jobs of the lane mail will be claimed before it.",
        ),
        (
            make_known(LaneState(5, passed_over=4)),
            "The lane mail got no runner in 4 cycles: no slot was free.",
        ),
        (make_known(planner="web2"), "A cycle on web2 is planning now."),
        (
            make_known(cancel_reason="cancelled by ann"),
            "Cancellation requested; it will not run again (cancelled by ann).",
        ),
        (
            make_known(expires_at=NOON - HOUR),
            "It expired at 2026-05-04 11:00:00 UTC: it is cancelled when it is claimed.",
        ),
    ],
)
def test_each_hindrance_of_a_due_job_has_its_sentence(known: JobDiagnosis, sentence: str) -> None:
    """By itself, and without the word that it is next."""
    assert told(known) == [sentence]


def test_several_reasons_are_all_told() -> None:
    """The strongest first: what somebody decided, what is broken, what is merely full."""
    known = make_known(
        LaneState(1, running=1, jobs_before=2), pauses=(Pause("lane", "mail", NOON),), last_cycle_at=NOON - HOUR
    )

    assert [each.name for each in explain(known)] == ["paused", "no_cycle", "cap", "behind"]


def test_an_expiry_that_is_to_come_is_added() -> None:
    """It is no reason yet."""
    assert told(make_known(expires_at=NOON + HOUR)) == [
        "It is next: the next cycle will start a runner for it.",
        "If it has not started by 2026-05-04 13:00:00 UTC it is cancelled.",
    ]
