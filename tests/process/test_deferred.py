"""What would only be interrupted is not started: it waits for a runner with more time, and never for ever."""

from collections.abc import Mapping
from typing import Any

import pytest
from sqlalchemy import select

from mayfly.bootstrap import create_embedded
from tests.factories import insert_runs
from tests.process.installation import Installation, wait_until
from tests.tables import runners

WINDOW: Mapping[str, str] = {
    "HANDLERS": "tests.process.long",
    "BACKOFF_BASE": "0.000001",
    "WORKER_TIMEOUT": "8",
    "DISPATCH_TIMEOUT": "8.5",
    "MAX_WORKERS": "1",
    "CONCURRENCY": "1",
}
NAP = '{"seconds": 1.2}'  # a runner that has run one, or that is started after it, has no whole window
USUAL = 8  # a whole window: of what a runner has left when it has started, it is always more
SHORT_NAP = '{"seconds": 1}'
LONGER_THAN_ANY_WINDOW = 50
WIDE: Mapping[str, str] = {**WINDOW, "WORKER_TIMEOUT": "16", "DISPATCH_TIMEOUT": "18"}
NARROW: Mapping[str, str] = {**WINDOW, "WORKER_TIMEOUT": "3", "DISPATCH_TIMEOUT": "5"}


def teach(installation: Installation, type_name: str, seconds: float, **changes: Any) -> None:
    """As if twenty of that type had taken so long, an hour ago."""
    create_embedded(installation.url)
    insert_runs(installation.database, type_name, seconds, **changes)


def number_of_runners(installation: Installation) -> int:
    return len(installation.rows(select(runners)))


@pytest.mark.parametrize("spawn", ["fork", "exec"])
def test_who_does_not_fit_is_run_by_the_next_cycle(installation: Installation, spawn: str) -> None:
    """Unspent, told and counted. Those behind it are run, and no other runner is started for it."""
    teach(installation, "nap", USUAL)
    [_first, second] = installation.enqueue("nap", NAP, count=2)
    installation.enqueue("noop", count=3)

    cycle = installation.dispatch(**WINDOW, SPAWN=spawn)

    job = installation.job(second)
    assert (cycle.returncode, installation.statuses()) == (0, {"done": 4, "pending": 1})
    assert (job.attempts, job.claims, job.interruptions) == (0, 1, 0)
    assert number_of_runners(installation) == 1
    assert f"Job {second} (nap) not started: its type usually takes up to 8 s," in installation.log
    assert installation.lane_lines()[-1]["deferred"] == "1"
    assert installation.dispatch(**WINDOW, SPAWN=spawn).returncode == 0
    assert (installation.job(second).status, installation.job(second).attempts) == ("done", 1)


@pytest.mark.parametrize("type_name", ["nap_thread", "nap_async"])
def test_wherever_the_handler_runs(embedded: Installation, type_name: str) -> None:
    """In a thread and on the loop: who waits for a slot there has less and less time."""
    teach(embedded, type_name, USUAL)
    second = embedded.enqueue(type_name, NAP, count=2)[-1]
    embedded.enqueue("noop", count=3)

    cycle = embedded.dispatch(**WINDOW)

    assert (cycle.returncode, embedded.statuses()) == (0, {"done": 4, "pending": 1})
    assert (embedded.job(second).attempts, embedded.job(second).claims, number_of_runners(embedded)) == (0, 1, 1)
    embedded.dispatch(**WINDOW)
    assert embedded.statuses() == {"done": 5}


def test_people_are_told(embedded: Installation) -> None:
    """By `why`, and by a dry run."""
    teach(embedded, "nap", USUAL)
    second = embedded.enqueue("nap", NAP, count=2)[-1]
    embedded.dispatch(**WINDOW)

    why = embedded.run("mayfly", "why", str(second), **WINDOW)
    plan = embedded.dispatch("--dry-run", **WINDOW)

    assert "It was released: its type usually takes up to 8 s" in why.stdout
    assert "Not started with less than their usual time left: nap 8 s." in plan.stdout


def test_a_jobs_own_limit_is_all_that_it_needs(embedded: Installation) -> None:
    """However long others of its type took before it had one."""
    teach(embedded, "nap_timed", LONGER_THAN_ANY_WINDOW)
    embedded.enqueue("nap_timed", '{"seconds": 1.8}', count=2)

    embedded.dispatch(**WIDE)

    assert embedded.statuses() == {"done": 2}


def test_what_fits_into_no_window_gets_a_whole_one(embedded: Installation) -> None:
    """One a cycle and runner: the first that it does."""
    teach(embedded, "nap", LONGER_THAN_ANY_WINDOW)
    embedded.enqueue("nap", NAP, count=3)

    done = [embedded.dispatch(**WINDOW) and embedded.statuses().get("done") for _ in range(3)]

    assert done == [1, 2, 3]


def test_what_always_times_out_comes_to_its_end(embedded: Installation) -> None:
    """It is not put off for ever: each attempt has a whole window, and the last one is the last."""
    teach(embedded, "nap", LONGER_THAN_ANY_WINDOW, outcome="timed out")
    spent = {"max_attempts": 2, "interruptions": 3}  # so that each interruption costs an attempt
    job_id = embedded.enqueue("nap", '{"seconds": 60}', **spent)[0]
    embedded.enqueue("errand", SHORT_NAP, priority=0)

    wait_until(lambda: embedded.dispatch(**NARROW) and embedded.job(job_id).status == "dead", "it has ended")

    job = embedded.job(job_id)
    assert (job.status, job.attempts) == ("dead", 2)
    assert "timed out after" in job.last_error


def test_nobody_waits_for_ever_behind_higher_priorities(installation: Installation) -> None:
    """Each cycle brings enough of them to leave too little; the next one begins with the job that was deferred."""
    teach(installation, "nap", USUAL)
    job_id = installation.enqueue("nap", NAP)[0]
    installation.enqueue("errand", SHORT_NAP, count=2, priority=0)
    installation.dispatch(**WINDOW)
    deferred = installation.job(job_id)
    late = installation.enqueue("errand", SHORT_NAP, count=2, priority=0)

    installation.dispatch(**WINDOW)

    assert (deferred.status, deferred.claims) == ("pending", 1)
    job = installation.job(job_id)
    assert (job.status, job.attempts, job.priority) == ("done", 1, deferred.priority)
    assert job.started_at < installation.job(late[0]).started_at


def test_a_runner_that_comes_late_defers_too(embedded: Installation) -> None:
    """It is fresh, and has less than a whole window. In the next cycle the lane is served first."""
    teach(embedded, "nap", LONGER_THAN_ANY_WINDOW, lane="second")
    embedded.enqueue("errand", '{"seconds": 3}', lane="first")
    job_id = embedded.enqueue("nap", SHORT_NAP, lane="second")[0]
    one_slot = {**WIDE, "HOST_MAX_WORKERS": "1"}

    embedded.dispatch(**one_slot)
    first = embedded.job(job_id)
    embedded.dispatch(**one_slot)

    assert (first.status, first.claims, first.attempts) == ("pending", 1, 0)
    assert [line["lane"] for line in embedded.lane_lines() if line.get("deferred")] == ["second"]
    assert embedded.job(job_id).status == "done"


def test_a_lane_that_lingers_has_a_fresh_runner_at_once(embedded: Installation) -> None:
    """Whoever starts there has a whole window: the job does not wait for the next cycle."""
    teach(embedded, "nap", USUAL)
    embedded.enqueue("nap", NAP, count=2)

    dispatcher = embedded.start("dispatcher", **WINDOW, LINGER="40")
    wait_until(lambda: embedded.statuses() == {"done": 2}, "both are done")
    dispatcher.terminate()
    dispatcher.communicate(timeout=60)

    assert (number_of_runners(embedded), embedded.lane_lines()[-1]["deferred"]) == (2, "1")


def test_a_pile_of_long_jobs_is_not_moved_to_and_fro(embedded: Installation) -> None:
    """After a hundred the runner ends, and no other one looks for what may be behind them in this cycle."""
    teach(embedded, "nap", LONGER_THAN_ANY_WINDOW)
    embedded.enqueue("nap", NAP, count=400)

    embedded.dispatch(**WINDOW)

    assert embedded.statuses() == {"done": 1, "pending": 399}
    assert number_of_runners(embedded) == 1
    assert 100 <= int(embedded.lane_lines()[-1]["deferred"]) < 200
