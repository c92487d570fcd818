"""A dispatcher that lingers: work that comes is started within seconds, and the next minute takes over seamlessly."""

import os
import signal
from collections import Counter
from datetime import timedelta

import pytest
from sqlalchemy import select

from mayfly.process.timing import Timing
from mayfly.schema.metadata import cycles, jobs, runners
from tests.process.installation import Installation, StartedProcess, handler_modules, wait_until

SOON = timedelta(seconds=30)  # a minute would be cron's; the machine may be busy
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


def test_what_comes_while_it_lingers_starts_soon(installation: Installation) -> None:
    """Also in a lane that nobody knew, and after the runner of the last job has gone."""
    dispatcher = start_lingering(installation)

    for number, lane in enumerate(("default", "default", "brand_new"), start=1):
        installation.enqueue("noop", lane=lane)
        wait_for_done(installation, number)

    stop(dispatcher)
    for job in installation.rows(select(jobs)):
        assert job.started_at - job.created_at < SOON
    assert len(installation.rows(select(cycles))) == 1
    assert "Polls while lingering: " in installation.log


def test_a_runner_waits_for_more_in_its_lane(embedded: Installation) -> None:
    """Jobs that follow each other closely need one runner, not one each."""
    embedded.timing = Timing(idle_runner_seconds=30)
    dispatcher = start_lingering(embedded)

    for number in range(1, 6):
        embedded.enqueue("noop")
        wait_for_done(embedded, number)

    stop(dispatcher)
    assert len(embedded.rows(select(runners))) == 1


def test_a_job_does_not_wait_behind_one_that_takes_long(embedded: Installation) -> None:
    """A busy runner is not expected to take what has come: another one is started."""
    dispatcher = start_lingering(embedded)
    embedded.enqueue("latch")
    embedded.wait_for_latch()

    embedded.enqueue("noop")
    wait_for_done(embedded, 1)

    assert embedded.statuses() == {"processing": 1, "done": 1}
    embedded.release_latch()
    wait_for_done(embedded, 2)
    stop(dispatcher)


def test_a_job_that_killed_its_runner_is_not_left_to_one_that_may_not_take_it(embedded: Installation) -> None:
    """A runner that waits in the lane has run others: it leaves, and so does not stand for the fresh one it needs."""
    embedded.timing = Timing(idle_runner_seconds=60)  # it would wait until the dispatcher ends
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


def test_no_job_waits_for_the_next_dispatchers_first_runner(embedded: Installation) -> None:
    """A runner goes on after the handover until there is relief, which is held up here by an import."""
    embedded.timing = Timing(idle_runner_seconds=60, handover_seconds=60)
    first = start_lingering(embedded)
    embedded.enqueue("noop")
    wait_for_done(embedded, 1)

    second = start_lingering(embedded, HANDLERS=handler_modules("slow_import"))
    embedded.enqueue("noop", count=3)
    wait_for_done(embedded, 4)
    embedded.release_latch()

    stop(first)
    stop(second)
    oldest = embedded.rows(select(runners).order_by(runners.c.planned_at))[0]
    assert oldest.jobs_done == 4


@pytest.mark.every_database
def test_the_next_dispatcher_takes_over(installation: Installation) -> None:
    """The lock passes at once; what runs is finished under the first, what comes is run under the second."""
    first = start_lingering(installation)
    installation.enqueue("latch")
    installation.wait_for_latch()

    second = start_lingering(installation)
    installation.enqueue("ledger", count=7)
    wait_for_done(installation, 7)

    assert first.poll() is None
    installation.release_latch()
    assert (first.communicate(timeout=60), first.returncode) == (("", ""), 0)
    wait_for_done(installation, 8)
    stop(second)
    ran = Counter(line.split()[0] for line in (installation.home / "ledger").read_text().splitlines())
    assert len(ran) == 7
    assert set(ran.values()) == {1}
    assert {each.ending for each in installation.rows(select(runners))} == {"ok"}
    assert [each.rescued for each in installation.rows(select(cycles))] == [0, 0]
    assert "Handed over to the next dispatcher; runners still running: 1" in installation.log
    assert "Skipped" not in installation.log


@pytest.mark.every_database
def test_handovers_under_load_lose_and_repeat_nothing(installation: Installation) -> None:
    """Four dispatchers in a row, each taking over from the last while jobs run: every job is run once."""
    dispatchers = [start_lingering(installation)]
    for _ in range(3):
        installation.enqueue("ledger", count=30)
        dispatchers.append(start_lingering(installation))

    wait_for_done(installation, 90)

    for leaving in dispatchers[:-1]:
        assert (leaving.communicate(timeout=60), leaving.returncode) == (("", ""), 0)
    stop(dispatchers[-1])
    ran = Counter(line.split()[0] for line in (installation.home / "ledger").read_text().splitlines())
    assert len(ran) == 90
    assert set(ran.values()) == {1}
    assert {each.ending for each in installation.rows(select(runners))} == {"ok"}
    assert not list((installation.home / "state").rglob("*.leaving"))


def test_a_full_lane_stays_within_its_maximum_across_a_handover(embedded: Installation) -> None:
    """Runners of the dispatcher that is leaving still count."""
    first = start_lingering(embedded, MAX_WORKERS="1")
    embedded.enqueue("latch")
    embedded.wait_for_latch()

    second = start_lingering(embedded, MAX_WORKERS="1")
    embedded.enqueue("noop")
    embedded.enqueue("noop", lane="beside")  # planned together with the other
    wait_for_done(embedded, 1)

    assert embedded.statuses() == {"processing": 1, "pending": 1, "done": 1}
    embedded.release_latch()
    wait_for_done(embedded, 3)
    assert (first.communicate(timeout=60), first.returncode) == (("", ""), 0)
    stop(second)


def test_external_lanes_and_lanes_without_linger_are_left_alone(embedded: Installation) -> None:
    """A look is for the lanes that linger; the others wait for the next minute, or for outside workers."""
    lanes = {"LANES__OUTSIDE__EXTERNAL": "true", "LANES__SLOW__LINGER": "0"}
    dispatcher = start_lingering(embedded, **lanes)

    for lane in ("outside", "slow", "default"):
        embedded.enqueue("noop", lane=lane)
    wait_for_done(embedded, 1)

    stop(dispatcher)
    assert {each.lane for each in embedded.rows(select(runners))} == {"default"}
    assert embedded.statuses() == {"pending": 2, "done": 1}


def test_a_lane_that_is_paused_meanwhile_is_left_alone(embedded: Installation) -> None:
    """Its jobs are seen and not planned; those of the lane beside it are."""
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
    """LANES__MAIL__LINGER without LINGER keeps the dispatcher there for that lane."""
    dispatcher = start_lingering(embedded, LINGER="0", LANES__MAIL__LINGER="40")

    embedded.enqueue("noop")
    embedded.enqueue("noop", lane="mail")
    wait_for_done(embedded, 1)

    stop(dispatcher)
    assert {each.lane for each in embedded.rows(select(runners))} == {"mail"}


def test_it_leaves_by_itself_when_its_time_is_over(embedded: Installation) -> None:
    """LINGER=2 and nothing to do: about two seconds, exit code 0, and one recorded cycle."""
    embedded.enqueue("noop", run_at=embedded.now() + timedelta(hours=1))

    cycle = embedded.dispatch(LINGER="2")

    assert (cycle.returncode, cycle.stdout, cycle.stderr) == (0, "", "")
    row = embedded.rows(select(cycles))[0]
    assert row.duration_ms >= 2000
    assert row.finished_at - row.started_at < timedelta(seconds=30)


def test_a_dry_run_says_who_lingers(embedded: Installation) -> None:
    """Below the plan, which it does not change; and it does not linger itself."""
    embedded.enqueue("noop")

    shown = embedded.dispatch("--dry-run", LINGER="55", LANES__SLOW__LINGER="0")

    last = "Then it lingers and polls every 0.25 s: all lanes 55 s, slow 0 s."
    assert (shown.returncode, shown.stdout.splitlines()[-1]) == (0, last)


def test_interrupt_ends_the_dispatchers_of_this_host(embedded: Installation) -> None:
    """Who lingers, and who has handed over; with --dry-run nobody; and without any it says so."""
    first = start_lingering(embedded)
    embedded.enqueue("latch")
    embedded.wait_for_latch()
    second = start_lingering(embedded)

    shown = embedded.run("mayfly", "interrupt", "--dry-run")
    assert first.poll() is second.poll() is None
    hasty = embedded.run("mayfly", "interrupt", "--timeout", "0.1")
    embedded.release_latch()
    patient = embedded.run("mayfly", "interrupt")

    lines = {
        f"Dispatcher {second.pid} lingers.",
        f"Dispatcher {first.pid} has handed over and waits for its last runners.",
    }
    assert (shown.returncode, set(shown.stdout.splitlines())) == (0, lines)
    assert hasty.returncode == 1
    assert f"Dispatcher {first.pid} is still alive after 0.1 s" in hasty.stdout
    assert (patient.returncode, patient.stderr) == (0, "")
    for dispatcher in (first, second):
        assert (dispatcher.communicate(timeout=60), dispatcher.returncode) == (("", ""), 0)
    assert embedded.run("mayfly", "interrupt").stdout == "No dispatcher of this host runs.\n"


def test_interrupt_never_ends_a_stranger(embedded: Installation) -> None:
    """A note of a process that is gone, whose number somebody else has now, is nobody's."""
    stop(start_lingering(embedded))
    (lock,) = (embedded.home / "state").rglob("dispatcher.lock")
    lock.write_text(f"{os.getpid()} 1 lingers\n")

    ended = embedded.run("mayfly", "interrupt")

    assert (ended.returncode, ended.stdout) == (0, "No dispatcher of this host runs.\n")


def test_a_dispatcher_may_linger_beyond_its_timeout(embedded: Installation) -> None:
    """DISPATCH_TIMEOUT bounds each plan's runners and the statements meanwhile, not the time for which it polls."""
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
