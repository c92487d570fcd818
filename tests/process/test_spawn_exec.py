"""SPAWN=exec and `python -m runner`: the same life in an interpreter of its own."""

import signal
from pathlib import Path

import pytest
from sqlalchemy import select

from mayfly.schema.metadata import jobs, runners
from tests.process.installation import Installation, handler_modules, wait_until


def test_runners_in_interpreters_of_their_own_do_the_same(embedded: Installation) -> None:
    """Each job once, rows closed, nothing said; what a handler prints is in the log under its runner's name."""
    embedded.enqueue("ledger", count=7)
    embedded.enqueue("printer")
    embedded.enqueue("come_back")

    cycle = embedded.dispatch(SPAWN="exec")

    assert (cycle.returncode, cycle.stdout, cycle.stderr) == (0, "", "")
    assert embedded.statuses() == {"done": 8, "pending": 1}
    ran = [line.split()[0] for line in (embedded.home / "ledger").read_text().splitlines()]
    assert len(ran) == len(set(ran)) == 7
    lives = embedded.rows(select(runners))
    assert [(each.ending, each.exit_code) for each in lives] == [("ok", 0), ("ok", 0)]
    assert sum(each.jobs_done for each in lives) == 8
    printer = next(each for each in embedded.rows(select(jobs)) if each.type == "printer")
    assert f"[DISPATCHER] {printer.worker_id} printed: printed by a handler" in embedded.log


@pytest.mark.parametrize("engine_name", ["mariadb", "postgres"], indirect=True)
def test_no_secret_is_in_argv(installation: Installation) -> None:
    """Everybody on the host may read the command lines of dispatcher and runner: no password is there."""
    installation.enqueue("latch")
    dispatcher = installation.start("dispatcher", SPAWN="exec")
    installation.wait_for_latch()

    seen = {pid: Path(f"/proc/{pid}/cmdline").read_text() for pid in (dispatcher.pid, *installation.runner_pids())}

    installation.release_latch()
    dispatcher.communicate()
    assert len(seen) == 2
    assert ["runner" in line for line in seen.values()] == [False, True]
    assert installation.secrets
    assert not [line for line in seen.values() for secret in installation.secrets if secret in line]


def test_a_runner_that_is_told_to_stop_while_it_starts_listens_later(embedded: Installation) -> None:
    """It has no handler for the signal yet, and does not die of it: it ends with 0 and has claimed nothing."""
    job_id = embedded.enqueue("noop")[0]
    dispatcher = embedded.start("dispatcher", SPAWN="exec", HANDLERS=handler_modules("slow_import"))
    wait_until(lambda: "Spawning worker:" in embedded.log, "the runner is being started")

    dispatcher.send_signal(signal.SIGTERM)
    wait_until(lambda: "Received SIGTERM: stopping" in embedded.log, "the dispatcher has told its runner")
    embedded.release_latch()

    assert (dispatcher.communicate(), dispatcher.returncode) == (("", ""), 0)
    job = embedded.job(job_id)
    assert (job.status, job.attempts, job.claims) == ("pending", 0, 0)
    assert [(each.ending, each.exit_code) for each in embedded.rows(select(runners))] == [("ok", 0)]


def test_a_runner_started_by_hand_works_off_its_lane(installation: Installation) -> None:
    """It says what it did, closes its own row and leaves no page behind; other lanes are not touched."""
    installation.enqueue("noop", count=7, lane="mail")
    installation.enqueue("come_back", lane="mail")
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
    """It is in the table like any other: the cycle beside it starts one runner less."""
    embedded.enqueue("latch")
    by_hand = embedded.start("runner")
    embedded.wait_for_latch()
    embedded.enqueue("noop")

    cycle = embedded.dispatch(MAX_WORKERS="1")

    embedded.release_latch()
    assert by_hand.communicate()[0].endswith("2 jobs done, 0 failed\n")
    assert (cycle.returncode, by_hand.returncode) == (0, 0)
    assert "Calculated worker count: 0 (pending=1, batch=5, max=1) lane=default running=1" in embedded.log
    assert len(embedded.rows(select(runners))) == 1
