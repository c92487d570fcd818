"""Figures of live runners: a claimed job is not a running one, and every list shows which is which."""

import json
import signal
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select, text

from mayfly.process import Timing
from mayfly.schema.metadata import runners
from tests.process.installation import Installation, wait_until
from tests.process.terminals import terminal
from tests.sqlalchemy_engines import engine_of

FREQUENT = Timing(figures_seconds=0.2)
ONE_RUNNER = {"MAX_WORKERS": "1", "HOST_NAME": "web1"}
LONG = {"LANES__IMPORT__WORKER_TIMEOUT": "10m"}
SKIPPED = "Figures of live runners were not written: "


def read_json(installation: Installation, *arguments: str) -> Any:
    ran = installation.run("mayfly", *arguments, "--json")
    assert (ran.returncode, ran.stderr) == (0, "")
    return json.loads(ran.stdout)


def starts(installation: Installation) -> dict[str, str]:
    """By job, from the row of the only live runner."""
    rows = installation.rows("SELECT running FROM mayfly_runners WHERE finished_at IS NULL")
    return json.loads(rows[0].running) if rows and rows[0].running else {}


def runs(installation: Installation, job_id: int) -> bool:
    return str(job_id) in starts(installation)


@pytest.mark.every_database
def test_a_claimed_job_is_not_a_running_one(installation: Installation) -> None:
    """Both are in one claim: the first runs since its start, the second waits for it."""
    installation.timing = FREQUENT
    [first] = installation.enqueue("gated", lane="mail", priority=0)
    [second] = installation.enqueue("noop", lane="mail")
    cycle = installation.start("dispatcher", **ONE_RUNNER)
    wait_until(lambda: runs(installation, first), "the figures name the running job")

    listed = {each["id"]: each for each in read_json(installation, "jobs")["jobs"]}
    shown, waiting = read_json(installation, "show", str(first)), read_json(installation, "why", str(second))
    [lane] = read_json(installation, "lanes")
    installation.open_gate()
    cycle.wait(60)

    assert {each["status"] for each in listed.values()} == {"processing"}
    assert [(listed[job_id]["state"]) for job_id in (first, second)] == ["running", "claimed"]
    claimed_at, started_at = (datetime.fromisoformat(listed[first][name]) for name in ("locked_at", "started_at"))
    assert started_at > claimed_at - timedelta(seconds=1)
    assert starts_at(shown) == shown["started_at"]
    assert (listed[second]["started_at"], shown["state"], waiting["state"]) == (None, "running", "claimed")
    assert shown["reasons"][0]["why"] == "running"
    assert shown["reasons"][0]["text"].startswith("It has been running since ")
    assert f" and has not started: its runner has been running job {first} since " in waiting["reasons"][0]["text"]
    assert (lane["claimed"], lane["running"], lane["runners"]) == (1, 1, 1)


def starts_at(shown: Any) -> str:
    """The start in the timeline of a running job, which follows its claim and is the last event."""
    texts = [each["text"].split()[0] for each in shown["timeline"]]
    assert texts == ["enqueued", "claimed", "started"]
    return str(shown["timeline"][-1]["at"])


def test_a_live_runner_shows_what_it_does(embedded: Installation) -> None:
    """Jobs done, current job, memory, CPU and uptime while it runs; the final figures when it has ended."""
    embedded.timing = FREQUENT
    embedded.enqueue("noop", count=3, priority=0)
    [job_id] = embedded.enqueue("gated")
    cycle = embedded.start("dispatcher", **ONE_RUNNER)
    wait_until(lambda: runs(embedded, job_id), "the figures name the running job")

    [live] = read_json(embedded, "runners", "--live")
    table = embedded.run("mayfly", "runners", "--live").stdout
    embedded.open_gate()
    cycle.wait(60)
    [ended] = read_json(embedded, "runners")

    assert (live["jobs_done"], live["jobs_failed"]) == (3, 0)
    assert [each["job_id"] for each in live["running"]] == [job_id]
    assert live["planned_at"] <= live["running"][0]["started_at"] <= live["heartbeat_at"]
    assert 1 << 20 < live["peak_memory"] < 1 << 30
    assert (live["average_ms"] is None, live["cpu_ms"] >= 0, live["uptime_ms"] > 0) == (False, True, True)
    assert f" {job_id} (" in table
    assert (ended["jobs_done"], ended["running"], ended["ending"]) == (4, [], "ok")
    assert ended["uptime_ms"] >= live["uptime_ms"]


def test_top_shows_the_current_job(embedded: Installation) -> None:
    """In its table of runners, with the time since its start."""
    embedded.timing = FREQUENT
    [job_id] = embedded.enqueue("gated")
    cycle = embedded.start("dispatcher", **ONE_RUNNER)
    wait_until(lambda: runs(embedded, job_id), "the figures name the running job")

    with terminal(embedded, "mayfly", "top", "--interval", "0.2") as screen:
        screen.wait_for(f" {job_id} (")
        screen.press("q")
        assert screen.wait_for_end() == 0
    embedded.open_gate()
    cycle.wait(60)


def test_a_short_cycle_writes_no_figures(embedded: Installation) -> None:
    """The first figures are written some seconds after its start: shorter cycles do not pay for them."""
    embedded.timing = Timing(figures_seconds=60)
    embedded.enqueue("sleep", '{"seconds": 0.5}')
    embedded.execute("CREATE TABLE figures (running TEXT)")
    embedded.execute(
        "CREATE TRIGGER note_figures AFTER UPDATE OF running ON mayfly_runners WHEN NEW.running IS NOT NULL"
        " BEGIN INSERT INTO figures VALUES (NEW.running); END"
    )

    embedded.dispatch()
    short = embedded.rows("SELECT * FROM figures")
    embedded.timing = FREQUENT
    embedded.enqueue("sleep", '{"seconds": 2}')
    embedded.dispatch()

    assert short == []
    assert embedded.rows("SELECT * FROM figures") != []


@pytest.mark.every_database
def test_figures_of_a_slow_database_are_skipped(installation: Installation) -> None:
    """A second at most, logged once; the cycle continues, and later figures are written."""
    installation.timing = FREQUENT
    [job_id] = installation.enqueue("gated")
    cycle = installation.start("dispatcher", **ONE_RUNNER)
    wait_until(lambda: runs(installation, job_id), "the first figures are written")
    with engine_of(installation.database).begin() as connection:
        connection.execute(text("UPDATE mayfly_runners SET lane = lane"))  # locks the row until the end of the block
        wait_until(lambda: SKIPPED in installation.log, "the figures are skipped")
        installation.open_gate()
    cycle.wait(60)

    assert cycle.returncode == 0
    assert installation.job(job_id).status == "done"
    assert installation.log.count(SKIPPED) == 1
    reason = installation.log.partition(SKIPPED)[2].partition("\n")[0]
    assert "did not answer in time" in reason  # a second is shorter than the lock timeouts of servers
    assert "Cycle failed" not in installation.log


def test_a_lease_keeper_writes_the_figures_of_a_long_runner(installation: Installation) -> None:
    """Also after its dispatcher has exited."""
    installation.timing = FREQUENT
    [job_id] = installation.enqueue("gated", lane="import")
    dispatcher = installation.start("dispatcher", **LONG)
    wait_until(lambda: runs(installation, job_id), "the figures name the running job")
    dispatcher.send_signal(signal.SIGTERM)
    dispatcher.wait(60)
    [before] = installation.rows(select(runners))

    wait_until(lambda: installation.rows(select(runners))[0].uptime_ms > before.uptime_ms, "the figures are renewed")

    [job] = read_json(installation, "jobs")["jobs"]
    assert (job["id"], job["state"]) == (job_id, "running")
    installation.open_gate()
    wait_until(lambda: not installation.processes(), "the runner and its keeper have ended")
    [ended] = installation.rows(select(runners))
    assert (ended.ending, ended.jobs_done, ended.running) == ("ok", 1, None)
    assert ended.peak_memory > 1 << 20


def test_the_timeline_shows_each_slice(embedded: Installation) -> None:
    """With its number and duration, before the end of the job."""
    long = {"HANDLERS": "tests.process.sample_handlers.long_jobs", "WORKER_TIMEOUT": "3", "DISPATCH_TIMEOUT": "30"}
    embedded.timing = Timing(min_window_seconds=60)  # one plan per cycle
    [job_id] = embedded.enqueue("import_plain", '{"rows": 40, "seconds": 0.1}')
    cycles = 0
    while embedded.statuses() != {"done": 1}:
        assert embedded.dispatch(**long).returncode == 0
        cycles += 1

    shown = read_json(embedded, "show", str(job_id))

    slices = [f"slice {number}" for number in range(1, cycles)]
    texts = [each["text"].partition(" ended")[0].partition(" by ")[0] for each in shown["timeline"]]
    assert cycles >= 2
    assert texts == ["enqueued", *slices, "claimed", "started", "done"]
    assert shown["history"] == []
