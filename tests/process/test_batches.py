"""A batch of thousands, drained by real runners that are killed: its callback is enqueued exactly once."""

import os
import random
import secrets
import signal
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import psutil
import pytest

from mayfly import json_text
from mayfly.clock import pause_between
from mayfly.schema import create_embedded
from tests.process.installation import Installation, suspend_with_children, wait_until

CHILDREN = 2000
KILLS = 5
CHILD = "group_key = 'crowd'"
SETTINGS = {
    "HANDLERS": "tests.process.sample_handlers.large_batch",
    "WORKER_TIMEOUT": "6",
    "DISPATCH_TIMEOUT": "8",
    "MAX_WORKERS": "5",
    "HOST_MAX_WORKERS": "5",
    "BACKOFF_BASE": "0.01",
}


def count(installation: Installation, condition: str) -> int:
    return int(installation.rows(f"SELECT COUNT(*) AS number FROM mayfly_jobs WHERE {condition}")[0].number)


def fill(installation: Installation, children: int) -> None:
    create_embedded(installation.url)
    ran = installation.run("tests.process.sample_handlers.large_batch", str(children))
    assert (ran.returncode, ran.stderr) == (0, "")


def kill_some(installation: Installation, rng: random.Random) -> None:
    """Kill a runner, or the dispatcher with or without its runners."""
    cycle = installation.start("dispatcher", **SETTINGS)
    wait_until(lambda: installation.runner_pids() or cycle.poll() is not None, "a runner works")
    pause_between(0, 0.5)
    with suppress(psutil.NoSuchProcess):  # it has already exited
        dispatcher, runners = suspend_with_children(cycle.pid)
        victims = rng.choice([rng.sample(runners, min(1, len(runners))), [dispatcher], [dispatcher, *runners]])
        for each in victims:
            each.kill()
        if dispatcher not in victims:
            dispatcher.resume()
    cycle.communicate(timeout=60)


def drain(installation: Installation) -> None:
    def is_drained() -> bool:
        installation.dispatch(**SETTINGS)
        return count(installation, "status IN ('pending', 'processing')") == 0

    wait_until(is_drained, "all have ended", seconds=120)


@pytest.mark.every_database
def test_the_callback_of_a_batch_is_enqueued_once_despite_kills(installation: Installation) -> None:
    """Children that fail, that enqueue siblings, and chains are all in the one report."""
    seed = int(os.environ.get("CHAOS_SEED") or secrets.randbelow(10**6))
    print(f"CHAOS_SEED={seed}")
    rng = random.Random(seed)
    fill(installation, CHILDREN)

    for _ in range(KILLS):
        kill_some(installation, rng)
    drain(installation)

    reports = installation.rows("SELECT payload, status FROM mayfly_jobs WHERE type = 'report'")
    children, dead = count(installation, CHILD), count(installation, f"{CHILD} AND status = 'dead'")
    summary = {"batch": "crowd", "done": children - dead, "dead": dead, "cancelled": 0}
    assert [(json_text.decode(row.payload), row.status) for row in reports] == [
        ({"to": "ann", "batch": summary}, "done")
    ]
    # Each tenth had one sibling and each chain a second step, except those that crashed three times.
    plain, chains = CHILDREN - CHILDREN // 100, CHILDREN // 100
    wanted, killed = plain + plain // 10 + 2 * chains, count(installation, f"{CHILD} AND crashes >= 3")
    assert wanted - killed <= children <= wanted
    died = "SELECT id FROM mayfly_jobs WHERE status = 'dead'"  # with the rest of its chain, in case it is retried
    assert installation.rows(f"SELECT job_id FROM mayfly_chains WHERE job_id NOT IN ({died})") == []
    assert "Traceback" not in installation.log


def test_summary_and_list_show_a_batch(embedded: Installation) -> None:
    """The summary counts completed batches; `mayfly batches` lists them, also as JSON."""
    fill(embedded, 1)

    cycle = embedded.dispatch(**SETTINGS)
    listed = embedded.run("mayfly", "batches")
    facts = json_text.decode(embedded.run("mayfly", "batches", "--json").stdout)

    assert (cycle.returncode, cycle.stderr) == (0, "")
    assert "Batch crowd is complete: done=1 dead=0 cancelled=0; report enqueued" in embedded.log
    assert "Batches completed: 1" in embedded.log
    assert listed.stdout.splitlines()[1].split()[:6] == ["crowd", "complete", "0", "1", "0", "0"]
    assert [(each["batch"], each["state"], each["done"]) for each in facts] == [("crowd", "complete", 1)]


def test_a_list_without_batches_is_no_error(embedded: Installation) -> None:
    """It prints that there are none."""
    ran = embedded.run("mayfly", "batches")

    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "No batches. See docs/how-to/batches-and-chains.md.\n", "")


def leave_unsealed(installation: Installation, children: int = 2) -> None:
    """A batch whose producer was killed two hours ago while it added jobs."""
    create_embedded(installation.url)
    producer = installation.run("tests.process.sample_handlers.large_batch", str(children), "die")
    assert producer.returncode == -signal.SIGKILL
    installation.execute(f"UPDATE mayfly_batches SET created_at = '{datetime.now(UTC) - timedelta(hours=2):%F %T}'")


def test_a_batch_whose_producer_was_killed_is_reported(installation: Installation) -> None:
    """Its children have run, but no callback came: list and doctor report it and explain what to do."""
    leave_unsealed(installation)
    installation.dispatch(**SETTINGS)

    listed = installation.run("mayfly", "batches")
    examined = installation.run("mayfly", "doctor", HANDLERS=SETTINGS["HANDLERS"])

    assert listed.stdout.splitlines()[1].split()[:4] == ["crowd", "never", "sealed", "0"]
    assert "crowd has been unsealed for 2 h" in examined.stdout
    assert "mayfly batches seal crowd" in examined.stdout
    assert count(installation, "type = 'report'") == 0


def test_an_unsealed_batch_can_be_sealed_by_hand(installation: Installation) -> None:
    """Its callback is enqueued once, and the warning disappears."""
    leave_unsealed(installation)
    installation.dispatch(**SETTINGS)

    tried = installation.run("mayfly", "batches", "seal", "crowd", "--dry-run")
    before = count(installation, "type = 'report'")
    sealed = installation.run("mayfly", "batches", "seal", "crowd")
    again = installation.run("mayfly", "batches", "seal", "crowd")

    assert (tried.returncode, before) == (0, 0)
    assert (sealed.returncode, sealed.stdout) == (0, "Sealed the batch crowd.\n")
    assert (again.returncode, "There is no batch 'crowd' to seal" in again.stderr) == (64, True)
    assert count(installation, "type = 'report'") == 1
    assert "been filled" not in installation.run("mayfly", "doctor").stdout


def test_an_unsealed_batch_can_be_abandoned_by_hand(installation: Installation) -> None:
    """Its pending jobs are cancelled, and no callback is enqueued."""
    leave_unsealed(installation)

    asked = installation.run("mayfly", "batches", "abandon", "crowd")
    tried = installation.run("mayfly", "batches", "abandon", "crowd", "--dry-run")
    abandoned = installation.run("mayfly", "batches", "abandon", "crowd", "--yes", "--reason", "a deploy")
    again = installation.run("mayfly", "batches", "abandon", "crowd", "--yes")

    assert (asked.returncode, "--yes" in asked.stderr) == (64, True)
    assert tried.stdout == "2 jobs would be cancelled; nothing was changed.\n"
    assert abandoned.stdout == "Abandoned the batch crowd. 2 jobs cancelled.\n"
    assert (again.returncode, "There is no batch 'crowd' to abandon" in again.stderr) == (64, True)
    reasons = {row.last_error for row in installation.rows("SELECT last_error FROM mayfly_jobs")}
    assert [each.partition(": ")[2] for each in reasons] == ["the batch crowd was abandoned: a deploy"]
    assert (count(installation, "status = 'cancelled'"), count(installation, "type = 'report'")) == (2, 0)
