"""Why a job is not running: one sentence per reason, and one if there is no reason."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from mayfly.admin.jobs import CappedCount
from mayfly.admin.why import JobDiagnosis, JobRow, LaneState, PoolState, RunnerCause, explain
from mayfly.fleet.runners import JobStart
from mayfly.queue.pauses import Pause
from tests.factories import NOON

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
AN_HOUR_AGO = "2026-05-04 11:00:00 UTC (60 min ago)"


def make_row(**changes: Any) -> JobRow:
    """A due job that was never claimed."""
    return JobRow(12, "send_email", "mail", "pending", 1, NOON - MINUTE, 0, 5)._replace(**changes)


def make_known(lane: LaneState | None = None, **changes: Any) -> JobDiagnosis:
    """No problem: a cycle ran half a minute ago. Changes may name columns of the row."""
    of_row = {name: changes.pop(name) for name in JobRow._fields if name in changes}
    known = JobDiagnosis(make_row(**of_row), lane or LaneState(5), NOON, last_cycle_at=NOON - MINUTE / 2)
    return replace(known, **changes)


def why(known: JobDiagnosis) -> list[str]:
    return [each.text for each in explain(known)]


@pytest.mark.parametrize(("interruptions", "often"), [(1, "once"), (3, "3 times")])
def test_an_interrupted_job_waits_for_a_fresh_runner(interruptions: int, often: str) -> None:
    """The sentence counts the interruptions; a job without any has no such sentence."""
    sentence = f"It was interrupted {often} by the end of a window; a new runner will start with it."

    assert why(make_known(interruptions=interruptions)) == [sentence]
    assert sentence not in why(make_known(claims=2, attempts=1))


def test_a_job_without_an_obstacle_is_next() -> None:
    """The coming cycle or a live runner will run it."""
    assert why(make_known()) == ["It is next: the next cycle will start a runner for it."]
    assert why(make_known(LaneState(5, running=2))) == ["It is next: a live runner of its lane will claim it."]


@pytest.mark.parametrize(
    ("status", "error", "sentence"),
    [
        ("done", "result dropped", f"Done since {AN_HOUR_AGO}."),
        (
            "dead",
            "no such customer\ntrace",
            f"Dead since {AN_HOUR_AGO}: no such customer.",
        ),
        ("dead", "There is no table.\ntrace", f"Dead since {AN_HOUR_AGO}: There is no table."),
        (
            "cancelled",
            "cancelled by ann",
            f"Cancelled since {AN_HOUR_AGO}: cancelled by ann.",
        ),
    ],
)
def test_a_finished_job_has_its_time_and_reason(status: str, error: str, sentence: str) -> None:
    """No other sentence is shown, even if the lane is paused."""
    known = make_known(
        status=status, finished_at=NOON - HOUR, last_error=error, pauses=(Pause("lane", "mail", NOON),)
    )

    assert why(known) == [sentence]


CLAIMED: dict[str, Any] = {
    "status": "processing",
    "worker_id": "worker-1-1",
    "locked_at": NOON - MINUTE / 2,
    "host": "web1",
}


def test_a_running_job_names_its_runner_and_host() -> None:
    """The time is that of its start."""
    known = make_known(**CLAIMED, started_at=NOON - MINUTE / 6, runs=(JobStart(12, NOON - MINUTE / 6),))

    [reason] = explain(known)
    assert reason.name == known.row.state == "running"
    assert reason.text == "It has been running since 2026-05-04 11:59:50 UTC (10 s ago), in worker-1-1 on web1."


@pytest.mark.parametrize(
    ("runs", "rest"),
    [
        ((), "."),
        (
            (JobStart(7, NOON - MINUTE / 3),),
            " and has not started: its runner has been running job 7 since 2026-05-04 11:59:40 UTC (20 s ago).",
        ),
        (
            (JobStart(7, NOON - MINUTE / 3), JobStart(8, NOON), JobStart(9, NOON)),
            " and has not started: its runner has been running job 7 since 2026-05-04 11:59:40 UTC (20 s ago)"
            " and 2 other jobs.",
        ),
    ],
)
def test_a_claimed_job_names_what_its_runner_runs(runs: tuple[JobStart, ...], rest: str) -> None:
    """The time is that of the claim. Before the first figures of the runner nothing is known."""
    known = make_known(**CLAIMED, runs=runs)

    [reason] = explain(known)
    assert reason.name == known.row.state == "claimed"
    assert reason.text == f"It was claimed by worker-1-1 on web1 at 2026-05-04 11:59:30 UTC (30 s ago){rest}"


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"progress": {"done": 1500, "total": 40000, "text": "rows"}, "slices": 3},
         "It is at 1,500 of 40,000 rows, after 3 slices."),
        ({"progress": {"done": 7, "total": None, "text": ""}}, "It is at 7."),
        ({"progress": {"done": 7}}, "It is at 7."),
        ({"progress": {"done": "7"}, "slices": 1}, "It continues from its checkpoint, after 1 slice."),
        ({"slices": 1}, "It continues from its checkpoint, after 1 slice."),
    ],
)  # fmt: skip
@pytest.mark.parametrize("status", ["processing", "pending"])
def test_a_long_job_shows_its_progress(status: str, columns: dict[str, Any], sentence: str) -> None:
    """While it runs, and between two slices."""
    assert why(make_known(status=status, **columns))[-1] == sentence


def test_an_expired_lease_and_a_requested_cancellation_are_shown() -> None:
    """Both are shown for a job that is still running."""
    known = make_known(
        status="processing", worker_id="w", lease_until=NOON - MINUTE, cancel_reason="cancelled by ann"
    )

    assert why(known)[1:] == [
        "Its lease expired 60 s ago: the next cycle releases it.",
        "Cancellation requested; the handler has not noticed yet (cancelled by ann).",
    ]


@pytest.mark.parametrize(
    ("pause", "sentence"),
    [
        (
            Pause("lane", "mail", NOON - HOUR, NOON + HOUR, "ann", "the vendor is down"),
            "The lane mail has been paused since 2026-05-04 11:00:00 UTC (60 min ago) by ann"
            " until 2026-05-04 13:00:00 UTC: the vendor is down.",
        ),
        (
            Pause("type", "send_email", NOON - 3 * HOUR),
            "The type send_email has been paused since 2026-05-04 09:00:00 UTC (3 h ago).",
        ),
    ],
)
def test_a_pause_shows_its_time_user_and_reason(pause: Pause, sentence: str) -> None:
    """Unknown parts are omitted."""
    assert why(make_known(pauses=(pause,))) == [sentence]


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
def test_a_delayed_job_shows_its_run_at(changes: dict[str, Any], sentence: str) -> None:
    """The reason for the delay is shown if it is known; jobs ahead in the lane are not mentioned."""
    known = make_known(
        LaneState(1, running=1, jobs_before=CappedCount(3)), run_at=NOON + 3 * HOUR, last_cycle_at=None, **changes
    )

    assert why(known) == [sentence]


def test_the_reason_of_an_earlier_delay_is_not_shown() -> None:
    """The reason belongs to a run_at that has passed."""
    assert why(make_known(waiting_for="type send_email is paused")) == [
        "It is next: the next cycle will start a runner for it."
    ]


@pytest.mark.parametrize(
    ("known", "sentence"),
    [
        (make_known(last_cycle_at=None), "No cycle has run yet: is cron set up? Run `mayfly cron install`."),
        (make_known(last_cycle_at=NOON - 7 * MINUTE), "No cycle for 7 min: is cron running? See `mayfly doctor`."),
        (make_known(has_handler=False), "No handler for type 'send_email' was found on this host."),
        (
            make_known(
                has_handler=False, handler_hint=" Did you mean 'send_mail'?", broken_modules={"a": "ImportError: b"}
            ),
            "No handler for type 'send_email' was found on this host. Did you mean 'send_mail'? a cannot be imported:"
            " ImportError: b.",
        ),
        (
            make_known(waiting_for="no handler for type 'send_email', and a cannot be imported: ImportError: b"),
            "The last runner could not run it: no handler for type 'send_email', and a cannot be imported:"
            " ImportError: b.",
        ),
        (
            make_known(LaneState(5, pool=PoolState("vendor", 1, running=1))),
            "The pool vendor of the lane mail is at its cap: 1 of 1 runners are alive.",
        ),
        (make_known(crashes=2), "It waits for a runner of its own: it crashed its runner 2 times."),
        (
            make_known(suspect=True),
            "It waits for a runner of its own: its runner crashed and may have been running it.",
        ),
        (
            make_known(suspect=True, last_error="the runner disappeared: node failed"),
            "It waits for a runner of its own: its runner crashed and may have been running it:"
            " the runner disappeared: node failed.",
        ),
        (
            make_known(LaneState(5, external=True)),
            "The lane mail is external: no runners are started, external workers pull its jobs.",
        ),
        (make_known(LaneState(5, running=5)), "The lane mail is at its cap: 5 of 5 runners are alive."),
        (
            make_known(LaneState(5, jobs_before=CappedCount(7))),
            "7 due jobs of the lane mail will be claimed before it.",
        ),
        (
            make_known(LaneState(5, jobs_before=CappedCount(1000, is_more=True))),
            "1,000+ due jobs of the lane mail will be claimed before it.",
        ),
        (
            make_known(LaneState(5, passed_over=4)),
            "The lane mail got no runner in 4 cycles: no slot was free.",
        ),
        (
            make_known(cancel_reason="cancelled by ann"),
            "Cancellation requested; it will not run again (cancelled by ann).",
        ),
        (
            make_known(expires_at=NOON - HOUR),
            "It expired at 2026-05-04 11:00:00 UTC; it will be cancelled when it is claimed.",
        ),
    ],
)
def test_each_obstacle_of_a_due_job_has_its_sentence(known: JobDiagnosis, sentence: str) -> None:
    """The sentence stands alone, without "It is next"."""
    assert why(known) == [sentence]


@pytest.mark.parametrize("status", ["pending", "dead"])
@pytest.mark.parametrize("is_in_error", [True, False])
def test_the_cause_of_an_engine_is_shown_once(status: str, is_in_error: bool) -> None:
    """The error of the job has it if it was known in time."""
    error = "crashed: killed by signal 9: out of memory" if is_in_error else "crashed: killed by signal 9"
    cause = RunnerCause("worker-1-1", "slurm", "out of memory")

    shown = " ".join(why(make_known(status=status, last_error=error, crashes=1, runner_cause=cause)))

    sentence = "Its last runner, worker-1-1 of the launcher slurm, ended: out of memory."
    assert shown.endswith(sentence) != is_in_error


def test_several_reasons_are_all_shown() -> None:
    """Decisions of operators come first, then faults, then full lanes and pools."""
    known = make_known(
        LaneState(1, running=1, jobs_before=CappedCount(2)),
        pauses=(Pause("lane", "mail", NOON),),
        last_cycle_at=NOON - HOUR,
    )

    assert [each.name for each in explain(known)] == ["paused", "no_cycle", "cap", "behind"]


def test_a_future_expiry_is_added() -> None:
    """It is not a reason yet."""
    assert why(make_known(expires_at=NOON + HOUR)) == [
        "It is next: the next cycle will start a runner for it.",
        "It will be cancelled if it has not started by 2026-05-04 13:00:00 UTC.",
    ]
