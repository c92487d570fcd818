"""Limits with real runners on two hosts: never exceeded, free again after kill -9, no obstacle to other jobs."""

import json
import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.process.installation import Installation, StartedProcess, handler_modules, most_at_once, wait_until
from tests.process.test_long_lanes import FREQUENT_RENEWALS, end
from tests.process.test_several_hosts import start_hosts

HANDLERS = {"HANDLERS": handler_modules("limits"), "BACKOFF_BASE": "0.05"}
EIGHT = {"HOST_MAX_WORKERS": "4", "MAX_WORKERS": "8", "BATCH_SIZE": "2"}
HOLDERS = "SELECT worker_id, pid FROM mayfly_runners WHERE worker_id IN (SELECT worker_id FROM mayfly_slots)"
KINDS = pytest.mark.parametrize("kind", ["plain", "thread", "async"])
# Every kind on SQLite, and one kind on each server: they contend for the same rows.
KINDS_AND_DATABASES = pytest.mark.parametrize(
    ("engine_name", "kind"),
    [("sqlite", "plain"), ("sqlite", "thread"), ("sqlite", "async"), ("mariadb", "thread"), ("postgres", "plain")],
    indirect=["engine_name"],
)


@pytest.fixture
def limited(migrated_url: str, tmp_path: Path) -> Iterator[Installation]:
    made = Installation(tmp_path, migrated_url, HANDLERS)
    yield made
    made.end()


def spans(installation: Installation) -> list[tuple[int, float, float]]:
    """Job, begin and end of each finished run."""
    path = installation.home / "spans"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(int(job), float(began), float(ended)) for job, began, ended in map(str.split, lines)]


def overlap(installation: Installation) -> int:
    return most_at_once((began, ended) for _job, began, ended in spans(installation))  # type: ignore[misc]


def cycle(installation: Installation) -> None:
    """One cycle of each host at the same time."""
    finish(start_hosts(installation, **EIGHT))


def finish(hosts: list[StartedProcess]) -> None:
    for host in hosts:
        assert (*host.communicate(), host.returncode) == ("", "", 0)


def begin_together(installation: Installation) -> None:
    """One cycle of both hosts, in which no runner claims before both have planned."""
    gated = {**EIGHT, "HANDLERS": f"tests.process.sample_handlers.gated_import,{HANDLERS['HANDLERS']}"}
    hosts = start_hosts(installation, **gated)
    wait_until(lambda: set(runners_of_the_first_cycles(installation)) == {"a", "b"}, "both have planned")
    (installation.home / "gate").touch()
    finish(hosts)


def work_until_done(installation: Installation, work: Callable[[], object]) -> None:
    def is_done() -> bool:
        work()
        return installation.statuses().keys() == {"done"}

    wait_until(is_done, "all is done", seconds=120)


@KINDS_AND_DATABASES
def test_eight_runners_on_two_hosts_never_exceed_a_key(limited: Installation, kind: str) -> None:
    """Two at a time, in every kind of handler; each job runs once and uses one attempt, without a deadlock."""
    ids = limited.enqueue(f"use_{kind}", '{"vendor": 1, "seconds": 0.05}', count=40)

    begin_together(limited)
    work_until_done(limited, lambda: cycle(limited))

    assert 1 <= overlap(limited) <= 2
    assert sorted(job for job, *_ in spans(limited)) == ids
    assert {row.attempts for row in limited.rows("SELECT attempts FROM mayfly_jobs")} == {1}
    assert limited.rows("SELECT * FROM mayfly_slots") == []
    started = runners_of_the_first_cycles(limited)
    assert (sorted(started), min(started.values()) >= 4) == (["a", "b"], True)
    assert not [line for line in limited.log.splitlines() if " ERROR" in line or "Traceback" in line]


def runners_of_the_first_cycles(installation: Installation) -> dict[str, int]:
    """By host: the runners of its first plan."""
    found = installation.rows("SELECT host, cycle_id, COUNT(*) AS number FROM mayfly_runners GROUP BY host, cycle_id")
    return {row.host: row.number for row in sorted(found, key=lambda row: -row.cycle_id)}


@pytest.mark.parametrize("kind", ["thread", "async"])
def test_a_slot_freed_in_a_runner_is_reused_there(limited: Installation, kind: str) -> None:
    """Of forty jobs on one key in one runner, a job over the limit starts when another one ends.

    If it were snoozed and claimed again, each job would be claimed about ten times.
    """
    limited.enqueue(f"use_{kind}", '{"vendor": 1, "seconds": 0.01}', count=40)

    work_until_done(limited, lambda: limited.dispatch(MAX_WORKERS="1"))

    assert overlap(limited) == 2
    assert sum(row.claims for row in limited.rows("SELECT claims FROM mayfly_jobs")) < 3 * 40


@pytest.mark.parametrize("kind", ["thread", "async"])
def test_a_busy_key_does_not_delay_other_keys(limited: Installation, kind: str) -> None:
    """Sixty claimed jobs wait for one key; the last job has another key and runs long before them."""
    limited.enqueue(f"use_{kind}", '{"vendor": 1, "seconds": 0.1}', count=60)
    [other] = limited.enqueue(f"use_{kind}", '{"vendor": 2, "seconds": 0.1}')

    assert limited.dispatch(MAX_WORKERS="1").returncode == 0

    assert limited.statuses() == {"done": 61}
    assert [job for job, *_ in spans(limited)].index(other) < 30


@pytest.mark.parametrize("kind", ["thread", "async"])
def test_jobs_behind_a_blocked_key_are_released(limited: Installation, kind: str) -> None:
    """The two jobs that hold it take long: the others are snoozed with the reason, and any runner may take them."""
    limited.enqueue(f"use_{kind}", '{"vendor": 1, "seconds": 0, "gate": "go"}', count=6)

    dispatcher = limited.start("dispatcher", MAX_WORKERS="1")
    wait_until(lambda: limited.statuses() == {"processing": 2, "pending": 4}, "the others are snoozed")

    waiting = limited.rows("SELECT waiting_for FROM mayfly_jobs WHERE status = 'pending'")
    assert {row.waiting_for for row in waiting} == {"limit vendor:1: 2 of 2 in use"}
    limited.open_gate()
    assert (*dispatcher.communicate(), dispatcher.returncode) == ("", "", 0)
    work_until_done(limited, limited.dispatch)


@KINDS
def test_limits_taken_by_handlers_are_not_exceeded(limited: Installation, kind: str) -> None:
    """The handler names the key itself; over the limit its job is snoozed, and no attempt is used."""
    ids = limited.enqueue(f"take_{kind}", '{"vendor": 1, "seconds": 0.05}', count=12)

    work_until_done(limited, lambda: cycle(limited))

    assert 1 <= overlap(limited) <= 2
    assert sorted(job for job, *_ in spans(limited)) == ids
    assert {row.attempts for row in limited.rows("SELECT attempts FROM mayfly_jobs")} == {1}
    assert limited.rows("SELECT * FROM mayfly_slots") == []


@pytest.mark.every_database
def test_eight_runners_on_two_hosts_never_exceed_a_rate(limited: Installation) -> None:
    """Twenty of sixty jobs run; the others wait for the next month, each with the reason and snoozed once."""
    limited.enqueue("mail", '{"account": 42}', count=60)

    cycle(limited)

    assert len(spans(limited)) == 20
    assert limited.statuses() == {"done": 20, "pending": 40}
    reasons = limited.rows("SELECT attempts, claims, waiting_for FROM mayfly_jobs WHERE status = 'pending'")
    assert {(row.attempts, row.claims) for row in reasons} == {(0, 1)}
    assert all(row.waiting_for.startswith("limit sender:42 opens at ") for row in reasons)
    assert sum(int(line.get("snoozed", 0)) for line in limited.lane_lines()) == 40


def test_a_used_up_key_does_not_delay_other_jobs(limited: Installation) -> None:
    """Thousands of jobs are snoozed once, in large batches; another key and another lane are served meanwhile."""
    limited.enqueue("mail", '{"account": 42}', count=5000)
    limited.enqueue("mail", '{"account": 7}', count=10)
    limited.enqueue("noop", lane="other", count=10)

    cycle(limited)
    second = limited.dispatch("--dry-run")

    assert limited.statuses() == {"done": 40, "pending": 4980}
    assert {row.claims for row in limited.rows("SELECT claims FROM mayfly_jobs WHERE status = 'pending'")} == {1}
    assert limited.log.count("Snoozed ") < 100
    assert "Pending jobs: 0." in second.stdout


def test_a_runner_that_only_snoozes_yields_to_other_lanes(limited: Installation) -> None:
    """Only while jobs of other lanes run, and it is logged."""
    resting = r"Pausing \d\.\d\d s for other lanes: all of the last \d+ claimed jobs were snoozed"
    limited.enqueue("mail", '{"account": 42}', count=200)
    assert limited.dispatch(MAX_WORKERS="1").returncode == 0
    assert limited.statuses() == {"done": 20, "pending": 180}
    assert not re.search(resting, limited.log)

    limited.enqueue("mail", '{"account": 42}', count=200)
    limited.enqueue("hold_slot", lane="other")
    dispatcher = limited.start("dispatcher", MAX_WORKERS="1")
    wait_until(lambda: limited.rows("SELECT COUNT(waiting_for) AS n FROM mayfly_jobs")[0].n == 380, "all are snoozed")
    limited.open_gate()
    dispatcher.communicate()

    assert re.search(resting, limited.log)


@pytest.mark.every_database
def test_a_killed_runner_frees_its_slot(limited: Installation) -> None:
    """After kill -9 during a job, the next cycle gives the slot to another job."""
    first, second = limited.enqueue("hold_slot", count=2)
    dispatcher = limited.start("dispatcher", MAX_WORKERS="1", BATCH_SIZE="1")
    limited.wait_for_gate()
    assert [row.held for row in limited.rows("SELECT held FROM mayfly_slots")] == [1]

    [pid] = limited.runner_pids()
    os.kill(pid, signal.SIGKILL)
    limited.open_gate()
    dispatcher.communicate()

    wait_until(lambda: limited.dispatch() and limited.statuses() == {"done": 2}, "both are done")
    assert sorted(job for job, *_ in spans(limited)) == [first, second]
    assert limited.job(first).crashes == 1


def test_a_long_runner_keeps_its_slot_until_it_dies(limited: Installation) -> None:
    """Beyond the end of its dispatcher, with a lease that its keeper renews; after kill -9 the slot is free."""
    limited.timing = FREQUENT_RENEWALS
    window = {"LANES__IMPORT__WORKER_TIMEOUT": "10m", "LANES__IMPORT__MAX_WORKERS": "2"}
    jobs = limited.enqueue("hold_slot", lane="import", count=2)
    dispatcher = limited.start("dispatcher", **window)
    limited.wait_for_gate()
    end(dispatcher)
    [holder] = limited.rows(HOLDERS)

    for table in ("mayfly_slots", "mayfly_runners"):  # as a minute later without renewals
        limited.execute(f"UPDATE {table} SET lease_until = '2026-01-01 00:00:00.000000'")
    renewed = "SELECT worker_id FROM mayfly_runners WHERE finished_at IS NULL AND lease_until > '2026-02-01'"
    wait_until(lambda: limited.rows(renewed), "the keeper has renewed the lease")
    [second] = [each for each in jobs if limited.job(each).worker_id != holder.worker_id]
    claims = limited.job(second).claims

    def is_snoozed() -> bool:
        assert limited.dispatch(**window).returncode == 0
        job = limited.job(second)
        return job.claims > claims and (job.status, job.waiting_for) == ("pending", "limit room: 1 of 1 in use")

    wait_until(is_snoozed, "another runner has claimed the second job and snoozed it")
    assert limited.rows(HOLDERS) == [holder]
    os.kill(holder.pid, signal.SIGKILL)
    limited.open_gate()
    wait_until(lambda: limited.dispatch(**window) and limited.statuses() == {"done": 2}, "both have had the slot")
    assert sorted(job for job, *_ in spans(limited)) == jobs
    assert limited.rows("SELECT * FROM mayfly_slots") == []


def test_a_slot_in_use_is_a_reason_and_is_listed(limited: Installation) -> None:
    """Job and log have the reason; `mayfly limits` lists keys at their limit."""
    first, second = limited.enqueue("hold_slot", count=2)
    one = limited.start("runner", BATCH_SIZE="1")
    limited.wait_for_gate()

    other = limited.run("runner")
    listed = limited.run("mayfly", "limits", "room", "--used-up", "--json")
    table = limited.run("mayfly", "limits")
    limited.open_gate()
    one.communicate()

    assert (other.returncode, other.stderr) == (0, "")
    assert limited.job(second).waiting_for == "limit room: 1 of 1 in use"
    assert "Snoozed 1 job: limit room: 1 of 1 in use" in limited.log
    assert json.loads(listed.stdout) == [{"key": "room", "per": "at once", "used": 1, "most": 1, "opens_at": None}]
    assert [line.split() for line in table.stdout.splitlines()][1:] == [["room", "at", "once", "1", "1"]]
    assert limited.job(first).status == "done"
