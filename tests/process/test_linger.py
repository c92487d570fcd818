"""A lingering dispatcher: new jobs start within seconds, and the next cycle takes over without a gap."""

import json
import os
import signal
from collections import Counter
from datetime import timedelta

import pytest
from sqlalchemy import select

from mayfly.process import Timing
from mayfly.schema.metadata import cycles, jobs, runners
from tests.process.installation import Installation, StartedProcess, handler_modules, wait_until

SOON = timedelta(seconds=30)  # cron alone would need a minute; the machine may be busy
LINGERING = {"LINGER": "40", "POLL_INTERVAL": "0.1"}


def start_lingering(installation: Installation, **settings: str) -> StartedProcess:
    """A dispatcher that has made its first plan."""
    before = installation.log.count("Lingering until")
    dispatcher = installation.start("dispatcher", **{**LINGERING, **settings})
    wait_until(lambda: installation.log.count("Lingering until") > before, "the dispatcher lingers")
    return dispatcher


def stop(dispatcher: StartedProcess) -> None:
    dispatcher.send_signal(signal.SIGTERM)
    assert (dispatcher.communicate(timeout=60), dispatcher.returncode) == (("", ""), 0)


def wait_for_done(installation: Installation, count: int) -> None:
    wait_until(lambda: installation.statuses().get("done", 0) >= count, f"{count} jobs are done")


def start_with_rare_polls(installation: Installation, **settings: str) -> StartedProcess:
    """No poll follows the first ones: only wake-ups start jobs."""
    installation.timing = Timing(idle_runner_seconds=180, extra_poll_seconds=3600)
    return start_lingering(installation, **settings)


def stop_after_quick_starts(dispatcher: StartedProcess, installation: Installation) -> None:
    stop(dispatcher)
    assert_quick_starts(installation)


def assert_quick_starts(installation: Installation) -> None:
    """After 25 seconds each runner has a successor, which claims without a wake-up."""
    for job in installation.rows(select(jobs)):
        assert job.started_at - job.created_at < timedelta(seconds=15)


def enqueue_by_command(installation: Installation, lane: str = "default") -> None:
    """As an application does: with a wake-up after the commit."""
    done = installation.run("mayfly", "enqueue", "noop", "--lane", lane, **LINGERING)
    assert done.returncode == 0, done.stderr


def test_jobs_enqueued_while_lingering_start_soon(installation: Installation) -> None:
    """Also in a new lane, and after the previous runner has exited."""
    dispatcher = start_lingering(installation)

    for number, lane in enumerate(("default", "default", "brand_new"), start=1):
        installation.enqueue("noop", lane=lane)
        wait_for_done(installation, number)

    stop(dispatcher)
    for job in installation.rows(select(jobs)):
        assert job.started_at - job.created_at < SOON
    assert len(installation.rows(select(cycles))) == 1
    assert "Polls while lingering: " in installation.log


def test_a_runner_waits_for_more_jobs_of_its_lane(embedded: Installation) -> None:
    """Jobs in quick succession need one runner, not one each."""
    embedded.timing = Timing(idle_runner_seconds=30)
    dispatcher = start_lingering(embedded)

    for number in range(1, 6):
        embedded.enqueue("noop")
        wait_for_done(embedded, number)

    stop(dispatcher)
    assert len(embedded.rows(select(runners))) == 1


def test_another_waiting_runner_polls_while_the_first_is_busy(embedded: Installation) -> None:
    """Of the runners that wait in a lane one polls; a job that makes it busy leaves the lane to the next one."""
    embedded.timing = Timing(idle_runner_seconds=180)
    dispatcher = start_lingering(embedded, MIN_WORKERS="2", POLL_INTERVAL="5")
    embedded.enqueue("noop")
    wait_for_done(embedded, 1)
    embedded.enqueue("gated")
    embedded.wait_for_gate()

    embedded.enqueue("noop")
    wait_for_done(embedded, 2)

    embedded.open_gate()
    wait_for_done(embedded, 3)
    stop(dispatcher)
    assert sorted(each.jobs_done for each in embedded.rows(select(runners))) == [1, 2]


def test_a_runner_that_only_waits_leaves_its_slot_to_a_lane_with_jobs(embedded: Installation) -> None:
    """The host has one slot; otherwise the job would wait until the window of that runner ends."""
    embedded.timing = Timing(idle_runner_seconds=180)
    dispatcher = start_lingering(embedded, HOST_MAX_WORKERS="1")
    embedded.enqueue("noop", lane="quiet")
    wait_for_done(embedded, 1)

    embedded.enqueue("noop", lane="busy")
    wait_for_done(embedded, 2)

    stop(dispatcher)
    assert "only waits in lane quiet: its slot is needed" in embedded.log


def test_a_waiting_runner_whose_window_ends_has_a_successor(embedded: Installation) -> None:
    """Before the next job arrives, which then need not wait for a start."""
    embedded.timing = Timing(min_window_seconds=0, idle_runner_seconds=180)
    dispatcher = start_lingering(embedded, WORKER_TIMEOUT="3", DISPATCH_TIMEOUT="4")
    embedded.enqueue("noop")

    wait_until(lambda: len(embedded.rows(select(runners))) == 2, "it has a successor")

    stop(dispatcher)
    assert sum(each.jobs_done for each in embedded.rows(select(runners))) == 1


def test_a_lane_in_which_a_runner_waits_has_a_new_one_after_a_handover(embedded: Installation) -> None:
    """The next dispatcher starts it at once: it is ready when the runners of the previous one stop claiming."""
    embedded.timing = Timing(idle_runner_seconds=180, handover_seconds=180)
    first = start_lingering(embedded)
    embedded.enqueue("noop")
    wait_for_done(embedded, 1)

    second = start_lingering(embedded)
    wait_until(lambda: len(embedded.rows(select(runners))) == 2, "the second dispatcher has started one")

    stop(first)
    stop(second)
    assert len({each.cycle_id for each in embedded.rows(select(runners))}) == 2


def test_a_job_does_not_wait_for_a_long_job(embedded: Installation) -> None:
    """A busy runner is not expected to take the new job: another one is started."""
    dispatcher = start_lingering(embedded)
    embedded.enqueue("gated")
    embedded.wait_for_gate()

    embedded.enqueue("noop")
    wait_for_done(embedded, 1)

    assert embedded.statuses() == {"processing": 1, "done": 1}
    embedded.open_gate()
    wait_for_done(embedded, 2)
    stop(dispatcher)


def test_a_crashed_job_gets_a_fresh_runner(embedded: Installation) -> None:
    """An idle runner that has run other jobs must not take it: it exits, and so does not count as available."""
    embedded.timing = Timing(idle_runner_seconds=60)  # otherwise it would wait until the dispatcher ends
    dispatcher = start_lingering(embedded, BACKOFF_BASE="60")
    [job_id] = embedded.enqueue("die_once")
    wait_until(lambda: embedded.job(job_id).crashes == 1, "its runner has died")

    embedded.enqueue("noop")
    wait_for_done(embedded, 1)
    embedded.execute(f"UPDATE mayfly_jobs SET run_at = created_at WHERE id = {job_id}")
    wait_until(lambda: embedded.job(job_id).status == "done", "a fresh runner has run it")

    dispatcher.send_signal(signal.SIGTERM)
    dispatcher.communicate(timeout=60)
    assert len(embedded.rows(select(runners))) == 3


def test_no_job_waits_for_the_first_runner_after_a_handover(embedded: Installation) -> None:
    """The old runner continues until a new one is ready, which a slow import delays here."""
    embedded.timing = Timing(idle_runner_seconds=60, handover_seconds=60)
    first = start_lingering(embedded)
    embedded.enqueue("noop")
    wait_for_done(embedded, 1)

    second = start_lingering(embedded, HANDLERS=handler_modules("slow_import"))
    embedded.enqueue("noop", count=3)
    wait_for_done(embedded, 4)
    embedded.open_gate()

    stop(first)
    stop(second)
    oldest = embedded.rows(select(runners).order_by(runners.c.planned_at))[0]
    assert oldest.jobs_done == 4


@pytest.mark.every_database
def test_the_next_dispatcher_takes_over(installation: Installation) -> None:
    """The lock passes immediately; running jobs finish under the first, new jobs run under the second."""
    first = start_lingering(installation)
    installation.enqueue("gated")
    installation.wait_for_gate()

    second = start_lingering(installation)
    installation.enqueue("record_run", count=7)
    wait_for_done(installation, 7)

    assert first.poll() is None
    installation.open_gate()
    assert (first.communicate(timeout=60), first.returncode) == (("", ""), 0)
    wait_for_done(installation, 8)
    stop(second)
    ran = Counter(line.split()[0] for line in (installation.home / "recorded_runs").read_text().splitlines())
    assert len(ran) == 7
    assert set(ran.values()) == {1}
    assert {each.ending for each in installation.rows(select(runners))} == {"ok"}
    assert [each.rescued for each in installation.rows(select(cycles))] == [0, 0]
    assert "Handed over to the next dispatcher; runners still running: 1" in installation.log
    assert "Skipped" not in installation.log


@pytest.mark.every_database
def test_handovers_under_load_lose_and_repeat_nothing(installation: Installation) -> None:
    """Four dispatchers, each taking over from the previous one while jobs run: every job runs once."""
    dispatchers = [start_lingering(installation)]
    for _ in range(3):
        installation.enqueue("record_run", count=30)
        dispatchers.append(start_lingering(installation))

    wait_for_done(installation, 90)

    for leaving in dispatchers[:-1]:
        assert (leaving.communicate(timeout=60), leaving.returncode) == (("", ""), 0)
    stop(dispatchers[-1])
    ran = Counter(line.split()[0] for line in (installation.home / "recorded_runs").read_text().splitlines())
    assert len(ran) == 90
    assert set(ran.values()) == {1}
    assert {each.ending for each in installation.rows(select(runners))} == {"ok"}
    assert not list((installation.home / "state").rglob("*.leaving"))


def test_a_lane_stays_within_its_maximum_across_a_handover(embedded: Installation) -> None:
    """Runners of the old dispatcher still count."""
    first = start_lingering(embedded, MAX_WORKERS="1")
    embedded.enqueue("gated")
    embedded.wait_for_gate()

    second = start_lingering(embedded, MAX_WORKERS="1")
    embedded.enqueue("noop")
    embedded.enqueue("noop", lane="beside")  # planned together with the other
    wait_for_done(embedded, 1)

    assert embedded.statuses() == {"processing": 1, "pending": 1, "done": 1}
    embedded.open_gate()
    wait_for_done(embedded, 3)
    assert (first.communicate(timeout=60), first.returncode) == (("", ""), 0)
    stop(second)


def test_external_lanes_and_lanes_without_linger_are_left_alone(embedded: Installation) -> None:
    """Polls are for lingering lanes; the others wait for the next cycle, or for external workers."""
    lanes = {"LANES__OUTSIDE__EXTERNAL": "true", "LANES__SLOW__LINGER": "0"}
    dispatcher = start_lingering(embedded, **lanes)

    for lane in ("outside", "slow", "default"):
        embedded.enqueue("noop", lane=lane)
    wait_for_done(embedded, 1)

    stop(dispatcher)
    assert {each.lane for each in embedded.rows(select(runners))} == {"default"}
    assert embedded.statuses() == {"pending": 2, "done": 1}


def test_a_lane_paused_while_lingering_is_left_alone(embedded: Installation) -> None:
    """Its jobs are not planned; those of another lane are."""
    dispatcher = start_lingering(embedded)
    paused = embedded.run("mayfly", "pause", "lane", "held", "--reason", "a test")

    embedded.enqueue("noop", lane="held")
    embedded.enqueue("noop", lane="default")
    wait_for_done(embedded, 1)

    stop(dispatcher)
    assert paused.returncode == 0, paused.stderr
    assert {each.lane for each in embedded.rows(select(runners))} == {"default"}
    assert embedded.statuses() == {"pending": 1, "done": 1}


def test_a_lane_lingers_alone(embedded: Installation) -> None:
    """LANES__MAIL__LINGER without LINGER keeps the dispatcher running for that lane."""
    dispatcher = start_lingering(embedded, LINGER="0", LANES__MAIL__LINGER="40")

    embedded.enqueue("noop")
    embedded.enqueue("noop", lane="mail")
    wait_for_done(embedded, 1)

    stop(dispatcher)
    assert {each.lane for each in embedded.rows(select(runners))} == {"mail"}


def test_a_dispatcher_stops_lingering_in_time(embedded: Installation) -> None:
    """LINGER=2 without jobs: about two seconds, exit code 0, and one recorded cycle."""
    embedded.enqueue("noop", run_at=embedded.now() + timedelta(hours=1))

    cycle = embedded.dispatch(LINGER="2")

    assert (cycle.returncode, cycle.stdout, cycle.stderr) == (0, "", "")
    row = embedded.rows(select(cycles))[0]
    assert row.duration_ms >= 2000
    assert row.finished_at - row.started_at < timedelta(seconds=30)


def test_a_dry_run_shows_the_linger_time(embedded: Installation) -> None:
    """As a field of its JSON; a dry run does not linger."""
    embedded.enqueue("noop")

    shown = embedded.dispatch("--dry-run", "--json", LINGER="55", LANES__SLOW__LINGER="0")

    assert (shown.returncode, json.loads(shown.stdout)["linger_seconds"]) == (0, 55)


def test_interrupt_ends_the_dispatchers_of_this_host(embedded: Installation) -> None:
    """Those that linger and those that have handed over; --dry-run ends none."""
    first = start_lingering(embedded)
    embedded.enqueue("gated")
    embedded.wait_for_gate()
    second = start_lingering(embedded)

    shown = embedded.run("mayfly", "interrupt", "--dry-run")
    assert first.poll() is second.poll() is None
    short_wait = embedded.run("mayfly", "interrupt", "--timeout", "0.1")
    embedded.open_gate()
    long_wait = embedded.run("mayfly", "interrupt")

    lines = {
        f"Dispatcher {second.pid} lingers.",
        f"Dispatcher {first.pid} has handed over and waits for its last runners.",
    }
    assert (shown.returncode, set(shown.stdout.splitlines())) == (0, lines)
    assert short_wait.returncode == 1
    assert f"Dispatcher {first.pid} is still running after 0.1 s" in short_wait.stdout
    assert (long_wait.returncode, long_wait.stderr) == (0, "")
    for dispatcher in (first, second):
        assert (dispatcher.communicate(timeout=60), dispatcher.returncode) == (("", ""), 0)
    assert embedded.run("mayfly", "interrupt").stdout == "No dispatcher is running on this host.\n"


def test_interrupt_never_ends_a_foreign_process(embedded: Installation) -> None:
    """A stale lock file may name a pid that another process has now."""
    stop(start_lingering(embedded))
    (lock,) = (embedded.home / "state").rglob("dispatcher.lock")
    lock.write_text(f"{os.getpid()} 1 lingers\n")

    ended = embedded.run("mayfly", "interrupt")

    assert (ended.returncode, ended.stdout) == (0, "No dispatcher is running on this host.\n")


def test_a_dispatcher_may_linger_beyond_its_timeout(embedded: Installation) -> None:
    """DISPATCH_TIMEOUT bounds the runners of each plan and the statements, not the time of polling."""
    embedded.timing = Timing(min_window_seconds=0)
    settings = {"LINGER": "55", "DISPATCH_TIMEOUT": "4", "WORKER_TIMEOUT": "3"}
    dispatcher = embedded.start("dispatcher", **settings)
    wait_until(lambda: "Lingering" in embedded.log, "it lingers")
    started = embedded.now()
    wait_until(lambda: embedded.now() > started + timedelta(seconds=8), "its first timeout is long over")

    [late] = embedded.enqueue("noop")
    wait_until(lambda: embedded.job(late).status == "done", "it still starts runners")
    stop(dispatcher)

    assert "Cycle failed" not in embedded.log


# --- wake-ups ---------------------------------------------------------------------------------------------


@pytest.mark.every_database
def test_a_wakeup_starts_a_job(installation: Installation) -> None:
    """The first one through the dispatcher, the others in the runner that waits for them."""
    dispatcher = start_with_rare_polls(installation)

    for number in range(1, 4):
        enqueue_by_command(installation)
        wait_for_done(installation, number)

    stop_after_quick_starts(dispatcher, installation)
    assert [each.jobs_done for each in installation.rows(select(runners))] == [3]


def test_a_wakeup_of_a_new_lane_starts_a_runner(embedded: Installation) -> None:
    """While another lane has a runner that waits."""
    dispatcher = start_with_rare_polls(embedded)

    for number, lane in enumerate(("default", "brand_new"), start=1):
        enqueue_by_command(embedded, lane)
        wait_for_done(embedded, number)

    stop_after_quick_starts(dispatcher, embedded)
    assert {each.lane for each in embedded.rows(select(runners))} == {"default", "brand_new"}


def test_a_wakeup_of_a_job_that_needs_a_transaction_claims_all_due_jobs(embedded: Installation) -> None:
    """That of a plain job claims this job alone, without a query for others."""
    dispatcher = start_with_rare_polls(embedded)
    enqueue_by_command(embedded)
    wait_for_done(embedded, 1)
    [silent] = embedded.enqueue("noop")
    enqueue_by_command(embedded)
    wait_for_done(embedded, 2)
    before = embedded.job(silent).status

    done = embedded.run("mayfly", "enqueue", "noop", "--unique-key", "a key", **LINGERING)
    wait_for_done(embedded, 4)

    assert (before, done.returncode) == ("pending", 0)
    stop(dispatcher)


def test_after_the_death_of_its_runner_a_lane_is_woken_up(embedded: Installation) -> None:
    """Its socket is stale: the wake-up goes to the dispatcher, and the next runner replaces the socket."""
    dispatcher = start_with_rare_polls(embedded)
    enqueue_by_command(embedded)
    wait_for_done(embedded, 1)
    [pid] = embedded.runner_pids()
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: embedded.rows(select(runners))[0].ending is not None, "its end is recorded")

    for number in (2, 3):
        enqueue_by_command(embedded)
        wait_for_done(embedded, number)

    dispatcher.send_signal(signal.SIGTERM)
    dispatcher.communicate(timeout=60)
    assert_quick_starts(embedded)
    assert sorted(each.jobs_done for each in embedded.rows(select(runners))) == [1, 2]


def test_wakeups_continue_after_a_handover_and_after_a_killed_dispatcher(embedded: Installation) -> None:
    """Each dispatcher replaces the socket of the one before."""
    first = start_with_rare_polls(embedded)
    second = start_lingering(embedded)
    enqueue_by_command(embedded)
    wait_for_done(embedded, 1)
    second.kill()
    second.communicate(timeout=60)

    third = start_lingering(embedded)
    enqueue_by_command(embedded, "another")
    wait_for_done(embedded, 2)

    stop(first)
    stop_after_quick_starts(third, embedded)


def test_a_runner_takes_the_place_of_another_that_receives_wakeups(embedded: Installation) -> None:
    """One that is busy receives nothing; the next one of the lane binds the socket, and queries once."""
    dispatcher = start_with_rare_polls(embedded, MIN_WORKERS="2")
    enqueue_by_command(embedded)
    wait_for_done(embedded, 1)
    embedded.enqueue("noop")
    gated = embedded.run("mayfly", "enqueue", "gated", **LINGERING)
    embedded.wait_for_gate()
    wait_for_done(embedded, 2)

    enqueue_by_command(embedded)
    wait_for_done(embedded, 3)

    assert gated.returncode == 0, gated.stderr
    embedded.open_gate()
    wait_for_done(embedded, 4)
    stop_after_quick_starts(dispatcher, embedded)
    jobs_done = [each.jobs_done for each in embedded.rows(select(runners))]
    assert (len(jobs_done), min(jobs_done) > 0, sum(jobs_done)) == (2, True, 4)


def test_an_unsafe_directory_of_wakeups_is_logged(embedded: Installation) -> None:
    """Jobs are found by polls. `mayfly doctor` reports it, too."""
    wake = embedded.home / "wake"
    wake.mkdir()
    wake.chmod(0o777)
    dispatcher = start_lingering(embedded, WAKE_DIR="wake")

    enqueue_by_command(embedded)
    wait_for_done(embedded, 1)

    checked = embedded.run("mayfly", "doctor", WAKE_DIR="wake", **LINGERING)
    stop(dispatcher)
    assert f"The directory of wake-ups {wake} is writable for other users (mode 777)" in embedded.log
    assert f"The directory of wake-ups {wake} is writable for other users" in checked.stdout


def test_jobs_that_a_job_enqueues_are_announced(embedded: Installation) -> None:
    """After the commit of its outcome; in its own lane, too, and the next step of a chain."""
    dispatcher = start_with_rare_polls(embedded)
    enqueue_by_command(embedded)
    wait_for_done(embedded, 1)

    done = embedded.run("mayfly", "enqueue", "enqueue_in_two_lanes", "--lane", "brand_new", **LINGERING)
    wait_for_done(embedded, 5)

    assert done.returncode == 0, done.stderr
    stop_after_quick_starts(dispatcher, embedded)
