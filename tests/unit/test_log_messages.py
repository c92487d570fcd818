"""The phrases that operators grep for. They are part of the contract: a changed phrase breaks alerting."""

from datetime import timedelta

import pytest

from mayfly import log_messages
from mayfly.log import render_text
from mayfly.log_messages import Level, LogMessage
from tests.factories import NOON

WORKER = "worker-1738435200123-1"


@pytest.mark.parametrize(
    ("event", "phrase"),
    [
        (
            log_messages.cycle_started(NOON, "web-1"),
            "[DISPATCHER] Dispatch cycle started at 2026-05-04T12:00:00+00:00",
        ),
        (log_messages.database_verified("MariaDB 10.11.6"), "Database connection verified"),
        (log_messages.pending_jobs("23"), "Pending jobs: 23"),
        (log_messages.pending_jobs("1000+"), "Pending jobs: 1000+"),
        (
            log_messages.workers_calculated("default", 5, "23", 5, 5, 0, ()),
            "Calculated worker count: 5 (pending=23, batch=5, max=5)",
        ),
        (log_messages.spawning(5), "Spawning 5 workers..."),
        (log_messages.spawning_worker(WORKER, "default"), f"Spawning worker: {WORKER}"),
        (log_messages.nothing_pending(), "No pending jobs, skipping worker spawn"),
        (log_messages.worker_completed(WORKER, 8234), f"Worker {WORKER} completed successfully (8234ms)"),
        (log_messages.worker_failed(WORKER, 1, 12), f"Worker {WORKER} failed with code 1"),
        (log_messages.dispatch_timeout(55.0, 2), "Exceeded 55s timeout"),
    ],
)
def test_the_dispatchers_phrases_are_kept(event: LogMessage, phrase: str) -> None:
    """As the design writes them, in the logged line."""
    assert phrase in render_text(event, "DISPATCHER", NOON)


@pytest.mark.parametrize(
    ("event", "phrase"),
    [
        (log_messages.worker_started("default"), f"[WORKER {WORKER}] Starting ephemeral worker"),
        (log_messages.processing(5), "Processing 5 jobs..."),
        (log_messages.jobs_completed({"done": 4, "failed": 1}), "Completed 4 jobs, 1 retry"),
        (log_messages.lost_lease(7, "mail"), "lost lease"),
        (log_messages.backlog_remains(3), "backlog remains"),
    ],
)
def test_the_runners_phrases_are_kept(event: LogMessage, phrase: str) -> None:
    """As the design writes them, in the logged line."""
    assert phrase in render_text(event, f"WORKER {WORKER}", NOON)


@pytest.mark.parametrize(
    ("outcomes", "text"),
    [
        ({"done": 1, "failed": 1}, "Completed 1 job, 1 retry"),
        ({}, "Completed 0 jobs"),
        ({"done": 5}, "Completed 5 jobs"),
        ({"failed": 2}, "Completed 0 jobs, 2 retries"),
        ({"timed out": 1, "done": 3, "dead": 1, "released": 4}, "Completed 3 jobs, 1 dead, 4 released, 1 timeout"),
    ],
)
def test_a_batch_reports_outcomes_that_are_not_zero(outcomes: dict[str, int], text: str) -> None:
    """Each kind with its number, done first."""
    assert log_messages.jobs_completed(outcomes).text == text


def test_each_cut_is_logged() -> None:
    """With the planned number of runners."""
    event = log_messages.workers_calculated("mail", 2, "50", 5, 5, 1, ("max_workers 5", "pool email 3"))

    assert event.text.endswith("lane=mail running=1; cut by max_workers 5, pool email 3")
    assert event.fields["cuts"] == ("max_workers 5", "pool email 3")


@pytest.mark.parametrize(("offset", "expected"), [(3.04, "-3.0 s"), (-90, "+90.0 s")])
def test_a_skewed_clock_is_logged_with_its_offset(offset: float, expected: str) -> None:
    """A host that must add seconds is behind."""
    event = log_messages.clock_skewed(timedelta(seconds=offset))

    assert f"clock is off by {expected}" in event.text
    assert (event.level, event.fields["offset_seconds"]) == (Level.WARNING, offset)


def test_the_summary_of_a_lane_is_key_value() -> None:
    """One line per cycle and lane, so that scripts can extract every figure."""
    event = log_messages.lane_summary({"cycle": 7, "lane": "mail", "done": 23})

    assert (event.text, event.fields) == ("cycle=7 lane=mail done=23", {"cycle": 7, "lane": "mail", "done": 23})


@pytest.mark.parametrize(
    "event",
    [
        log_messages.worker_failed(WORKER, 1, 12),
        log_messages.worker_timed_out(WORKER, 50_000),
        log_messages.worker_crashed(WORKER, "signal 9", 12),
        log_messages.dispatch_timeout(55, 1),
        log_messages.worker_overdue(WORKER),
        log_messages.worker_too_large(WORKER, 300 << 20, 256 << 20),
        log_messages.cycle_failed("the database is away"),
        log_messages.handler_module_failed("shop.mail", "SyntaxError"),
        log_messages.guard_interrupted(7, "mail", 49.96),
        log_messages.worker_error("the database is away"),
    ],
)
def test_messages_that_set_an_exit_code_are_errors(event: LogMessage) -> None:
    """A grep for ERROR finds every reason why a cycle did not end with 0."""
    assert event.level is Level.ERROR
