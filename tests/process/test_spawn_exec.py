"""SPAWN=exec and `python -m runner`: runners in new interpreters behave the same."""

import signal
from pathlib import Path

import pytest
from sqlalchemy import select

from mayfly.process import Timing
from mayfly.schema.metadata import jobs, runners
from tests.factories import get_row
from tests.process.installation import Installation, handler_modules, wait_until


def test_runners_in_new_interpreters_behave_the_same(embedded: Installation) -> None:
    """Each job runs once, rows are closed, nothing is printed; output of a handler is logged with its runner."""
    embedded.enqueue("record_run", count=7)
    embedded.enqueue("printer")
    embedded.enqueue("retry_later")

    cycle = embedded.dispatch(SPAWN="exec")

    assert (cycle.returncode, cycle.stdout, cycle.stderr) == (0, "", "")
    assert embedded.statuses() == {"done": 8, "pending": 1}
    ran = [line.split()[0] for line in (embedded.home / "recorded_runs").read_text().splitlines()]
    assert len(ran) == len(set(ran)) == 7
    ended = embedded.rows(select(runners))
    assert [(each.ending, each.exit_code) for each in ended] == [("ok", 0), ("ok", 0)]
    assert sum(each.jobs_done for each in ended) == 8
    printer = next(each for each in embedded.rows(select(jobs)) if each.type == "printer")
    assert f"[DISPATCHER] {printer.worker_id} printed: printed by a handler" in embedded.log


@pytest.mark.parametrize("engine_name", ["mariadb", "postgres"], indirect=True)
def test_no_secret_is_in_argv(installation: Installation) -> None:
    """All users of the host can read command lines: those of dispatcher and runner have no password."""
    installation.enqueue("gated")
    dispatcher = installation.start("dispatcher", SPAWN="exec")
    installation.wait_for_gate()

    seen = {pid: Path(f"/proc/{pid}/cmdline").read_text() for pid in (dispatcher.pid, *installation.runner_pids())}

    installation.open_gate()
    dispatcher.communicate()
    assert len(seen) == 2
    assert ["runner" in line for line in seen.values()] == [False, True]
    assert installation.secrets
    assert not [line for line in seen.values() for secret in installation.secrets if secret in line]


def test_a_runner_stopped_during_its_start_exits_cleanly(embedded: Installation) -> None:
    """It has no signal handler yet, but survives the signal: it exits with 0 and has claimed nothing."""
    job_id = embedded.enqueue("noop")[0]
    dispatcher = embedded.start("dispatcher", SPAWN="exec", HANDLERS=handler_modules("slow_import"))
    wait_until(lambda: "Spawning worker:" in embedded.log, "the runner is being started")

    dispatcher.send_signal(signal.SIGTERM)
    wait_until(lambda: "Received SIGTERM: stopping" in embedded.log, "the dispatcher has signalled its runner")
    embedded.open_gate()

    assert (dispatcher.communicate(), dispatcher.returncode) == (("", ""), 0)
    job = embedded.job(job_id)
    assert (job.status, job.attempts, job.claims) == ("pending", 0, 0)
    assert [(each.ending, each.exit_code) for each in embedded.rows(select(runners))] == [("ok", 0)]


def test_a_runner_started_by_hand_runs_its_lane(installation: Installation) -> None:
    """It prints the result, closes its row and removes its status page; other lanes are not touched."""
    installation.enqueue("noop", count=7, lane="mail")
    installation.enqueue("retry_later", lane="mail")
    installation.enqueue("noop")

    runner = installation.run("runner", "--lane", "mail")

    row = installation.rows(select(runners))[0]
    assert (runner.returncode, runner.stderr) == (0, "")
    assert runner.stdout == f"{row.worker_id}: 7 jobs done, 1 failed\n"
    assert (row.lane, row.ending, row.exit_code) == ("mail", "ok", 0)
    assert (row.jobs_done, row.jobs_failed) == (7, 1)
    assert installation.statuses() == {"done": 7, "pending": 2}
    assert not list((installation.home / "state").rglob("*.page"))


def test_a_cycle_counts_a_runner_that_was_started_by_hand(embedded: Installation) -> None:
    """The cycle starts one runner less."""
    embedded.enqueue("gated")
    by_hand = embedded.start("runner")
    embedded.wait_for_gate()
    embedded.enqueue("noop")

    cycle = embedded.dispatch(MAX_WORKERS="1")

    embedded.open_gate()
    assert by_hand.communicate()[0].endswith("2 jobs done, 0 failed\n")
    assert (cycle.returncode, by_hand.returncode) == (0, 0)
    assert "Calculated worker count: 0 (pending=1, batch=5, max=1) lane=default running=1" in embedded.log
    assert len(embedded.rows(select(runners))) == 1


def test_a_runner_started_by_hand_has_the_window_of_its_lane(embedded: Installation) -> None:
    """The guard interrupts a job at the WORKER_TIMEOUT of the lane; it had the whole window, so it has failed."""
    [job_id] = embedded.enqueue("sleep_an_hour", lane="brief")

    runner = embedded.run("runner", "--lane", "brief", LANES__BRIEF__WORKER_TIMEOUT="2")

    assert runner.returncode == 2
    job = embedded.job(job_id)
    assert (job.status, job.attempts, job.interruptions) == ("pending", 1, 0)
    assert job.last_error.startswith("timed out after ")
    assert job.duration_ms < 20_000


def test_a_runner_started_by_hand_in_a_long_lane_renews_its_lease(installation: Installation) -> None:
    """By a lease keeper, as for a runner of a dispatcher."""
    installation.timing = Timing(lease_renewals=60)  # one per second, with the normal lease
    [job_id] = installation.enqueue("gated", lane="import")
    runner = installation.start("runner", "--lane", "import", LANES__IMPORT__WORKER_TIMEOUT="10m")
    installation.wait_for_gate()
    before = get_row(installation.database, job_id).lease_until

    wait_until(lambda: get_row(installation.database, job_id).lease_until > before, "the lease is renewed")
    installation.open_gate()
    out, err = runner.communicate(timeout=60)

    [row] = installation.rows(select(runners))
    assert (runner.returncode, out, err) == (0, f"{row.worker_id}: 1 job done, 0 failed\n", "")
    assert (row.ending, row.exit_code, row.jobs_done) == ("ok", 0, 1)
    assert not list((installation.home / "state").rglob("*.page"))


def test_a_runner_started_by_hand_takes_nothing_from_an_external_lane(embedded: Installation) -> None:
    """A usage error that says what to do; lanes named before it are not run either."""
    jobs_of = {lane: embedded.enqueue("noop", lane=lane)[0] for lane in ("mail", "partner")}

    runner = embedded.run("runner", "--lane", "mail", "--lane", "partner", LANES__PARTNER__EXTERNAL="true")

    assert (runner.returncode, runner.stdout) == (64, "")
    assert "The lane 'partner' is external" in runner.stderr
    assert [embedded.job(each).claims for each in jobs_of.values()] == [0, 0]
    assert embedded.rows(select(runners)) == []


@pytest.mark.parametrize(
    ("settings", "cut"),
    [
        ({"MAX_WORKERS": "1"}, "max_workers 1, 1 already running"),
        ({"POOLS__VENDOR": "1", "LANES__OTHER__POOL": "vendor", "LANES__DEFAULT__POOL": "vendor"}, "pool vendor 1"),
        ({"HOST_MAX_WORKERS": "1"}, "host slots 0"),
    ],
)
def test_a_runner_started_by_hand_keeps_the_caps(embedded: Installation, settings: dict[str, str], cut: str) -> None:
    """Without a free slot it is not started: exit code 0, as a cycle without one, and a line with the cap."""
    lane = "default" if "MAX_WORKERS" in settings else "other"
    embedded.enqueue("gated")
    [job_id] = embedded.enqueue("noop", lane=lane)
    first = embedded.start("runner", BATCH_SIZE="1", **settings)
    embedded.wait_for_gate()

    second = embedded.run("runner", "--lane", lane, **settings)

    embedded.open_gate()
    first.communicate(timeout=60)
    assert (second.returncode, second.stdout) == (0, "")
    assert f"No worker started: lane={lane} has no free slot; cut by {cut}" in second.stderr
    assert len(embedded.rows(select(runners))) == 1
    assert embedded.job(job_id).claims == (lane == "default")  # then by the first runner, after the gate


def test_a_runner_started_by_hand_leaves_a_paused_lane_alone(embedded: Installation) -> None:
    """The line has the reason of the pause."""
    [job_id] = embedded.enqueue("noop")
    embedded.run("mayfly", "pause", "lane", "default", "--reason", "a test")

    runner = embedded.run("runner")

    assert runner.returncode == 0
    assert "cut by paused" in runner.stderr
    assert "a test" in runner.stderr
    assert embedded.job(job_id).claims == 0


def test_several_lanes_are_run_one_after_the_other(embedded: Installation) -> None:
    """Each by its own runner, in the given order; after a crash in one the next is run, and the exit code is 1."""
    for lane in ("first", "second", "third"):
        embedded.enqueue("noop", lane=lane, count=2)
    embedded.enqueue("die_once", lane="second")
    embedded.enqueue("noop", lane="beside")

    runner = embedded.run(
        "runner", *(word for lane in ("third", "second", "first", "third") for word in ("--lane", lane))
    )

    assert runner.returncode == 1
    rows = embedded.rows(select(runners).order_by(runners.c.planned_at))
    assert [each.lane for each in rows] == ["third", "second", "first"]
    assert [each.jobs_done for each in (rows[0], rows[2])] == [2, 2]
    assert runner.stdout == "".join(f"{each.worker_id}: 2 jobs done, 0 failed\n" for each in (rows[0], rows[2]))
    assert embedded.statuses()["pending"] == 1


def test_a_signal_stops_a_runner_of_several_lanes(embedded: Installation) -> None:
    """The running job may finish; the next lane is not begun, and the exit code is 0."""
    embedded.enqueue("gated", lane="first")
    embedded.enqueue("noop", lane="second")
    runner = embedded.start("runner", "--lane", "first", "--lane", "second")
    embedded.wait_for_gate()

    runner.send_signal(signal.SIGTERM)
    wait_until(lambda: embedded.runner_pids() and runner.poll() is None, "its runner has not been killed")
    embedded.open_gate()

    runner.communicate(timeout=60)
    assert runner.returncode == 0
    assert embedded.statuses() == {"done": 1, "pending": 1}
    assert [each.lane for each in embedded.rows(select(runners))] == ["first"]
