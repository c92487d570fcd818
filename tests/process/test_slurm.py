"""Runners of a real Slurm: one controller and three nodes on the loopback."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.process.installation import DEADLINE_SECONDS, Installation, wait_until
from tests.process.launcher_settings import COMMAND, rows, write_toml
from tests.servers.slurm import Slurm

pytestmark = pytest.mark.slow

LANES = """
[lanes.import]
launcher = "slurm"
max_workers = 3
batch_size = 50
[lanes.export]
launcher = "slurm"
max_workers = 3
batch_size = 50
"""
LEASE_SECONDS = 90.0  # a runner renews its lease for a minute
# It submits like the preset, and then does not answer.
SILENT = """[
    "/bin/sh", "-c", 'sbatch "$@" >/dev/null; sleep 3600', "sbatch",
    "--parsable", "--export=NONE", "--job-name={worker_id}", "--output={log_file}", "--wrap={command}",
]"""
REFUSED = '["sbatch", "--parsable", "--partition=gpu", "--job-name={worker_id}", "--wrap={command}"]'


@pytest.fixture
def slurm() -> Iterator[Slurm]:
    made = Slurm()
    made.start()
    yield made
    made.remove()


@pytest.fixture
def cluster(embedded: Installation, slurm: Slurm) -> Installation:
    """An installation whose lanes `import` and `export` have their runners in Slurm."""
    configure(embedded)
    embedded.settings = {"SLURM_CONF": slurm.environment["SLURM_CONF"]}
    return embedded


def configure(installation: Installation, *lines: str) -> None:
    launcher = "\n".join(["[launchers.slurm]", f"command = {COMMAND}", *lines])
    write_toml(installation, launcher + LANES)


def job_of(slurm: Slurm, worker_id: str) -> list[str]:
    """Its id and state in Slurm, for each job with this name."""
    return slurm.ask("squeue", "-h", "--states=all", f"--name={worker_id}", "--format=%i %T").splitlines()


def is_empty(slurm: Slurm) -> bool:
    """No job waits or runs. Without its header, which a failed command does not print, it would seem empty."""
    return slurm.ask("squeue", "--states=PENDING,RUNNING,COMPLETING", "--format=%T").split() == ["STATE"]


def wait_for_its_lease(installation: Installation) -> None:
    """Of the only runner, which is dead: no process renews it."""
    [runner] = rows(installation)
    wait_until(lambda: installation.now() > runner.lease_until, "its lease has ended", LEASE_SECONDS)


def dispatch_until(installation: Installation, true: Any, what: str, seconds: float = DEADLINE_SECONDS) -> None:
    """One cycle after the other, as cron does, but without the rest of the minute."""

    def holds() -> bool:
        installation.dispatch()
        return bool(true())

    wait_until(holds, what, seconds)


def test_two_lanes_are_drained_while_the_controller_restarts(cluster: Installation, slurm: Slurm) -> None:
    """2,000 jobs, each once; while the controller is down nothing is lost and nothing is submitted twice.

    It may have lost that it had started some runners, and starts them again: those exit without claiming.
    """
    configure(cluster, 'start_timeout = "30s"')  # a job that the controller has forgotten is planned again
    for lane in ("import", "export"):
        cluster.enqueue("noop", lane=lane, count=1000)
    cluster.dispatch()
    slurm.kill("slurmctld")
    cluster.enqueue("noop", lane="import", count=1)
    cluster.dispatch()
    slurm.start_controller()

    dispatch_until(cluster, lambda: cluster.statuses() == {"done": 2001}, "all jobs are done", 240.0)

    wait_until(lambda: all(each.finished_at for each in rows(cluster)), "all rows are closed")
    wait_until(lambda: is_empty(slurm), "nothing stays in the queue")
    assert [tuple(each) for each in cluster.rows("SELECT DISTINCT attempts, crashes FROM mayfly_jobs")] == [(1, 0)]
    for each in rows(cluster):
        assert len(job_of(slurm, each.worker_id)) <= 1


def test_the_cause_of_a_killed_node_is_known(cluster: Installation, slurm: Slurm) -> None:
    """Its jobs are released when its lease has ended."""
    [job_id] = cluster.enqueue("gated", lane="import")
    cluster.dispatch()
    cluster.wait_for_gate()
    [first] = rows(cluster)
    node = slurm.ask("squeue", "-h", f"--name={first.worker_id}", "--format=%N").strip()

    slurm.kill(node)
    slurm.ask("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=killed")
    wait_for_its_lease(cluster)
    cluster.dispatch()

    dispatch_until(cluster, lambda: rows(cluster)[0].engine_step is None, "its cause is read")
    assert (rows(cluster)[0].ending, rows(cluster)[0].cause) == ("lost", "node failed")
    cluster.open_gate()
    dispatch_until(cluster, lambda: cluster.job(job_id).status == "done", "another node has run the job")


def test_a_runner_cancelled_with_scancel_is_planned_again(cluster: Installation, slurm: Slurm) -> None:
    """Its lease ends after the kill; the job is not lost, and the cause is known."""
    [job_id] = cluster.enqueue("uninterruptible", '{"seconds": 3600}', lane="import")
    cluster.dispatch()
    wait_until(lambda: cluster.job(job_id).status == "processing", "the job is claimed")
    [first] = rows(cluster)

    slurm.ask("scancel", first.external_id)
    killed = [f"{first.external_id} CANCELLED"]
    wait_until(lambda: job_of(slurm, first.worker_id) == killed, "it was killed")
    wait_for_its_lease(cluster)
    cluster.dispatch()

    dispatch_until(cluster, lambda: rows(cluster)[0].engine_step is None, "its cause is read")
    assert rows(cluster)[0].cause == "cancelled outside Mayfly"
    dispatch_until(cluster, lambda: len(rows(cluster)) == 2, "another runner is submitted")
    slurm.ask("scancel", *(each.external_id for each in rows(cluster)))


def test_a_refused_submit_leaves_other_lanes_alone(cluster: Installation, slurm: Slurm) -> None:
    """The reason of Slurm is in the log and on the row."""
    gpu = f'[launchers.gpu]\npreset = "slurm"\nsubmit = {REFUSED}\n[lanes.train]\nlauncher = "gpu"\n'
    configure(cluster, gpu)
    cluster.enqueue("noop", lane="train")
    cluster.enqueue("noop", lane="import")

    cluster.dispatch()

    wait_until(lambda: cluster.statuses() == {"done": 1, "pending": 1}, "the other lane is drained")
    [refused] = [each for each in rows(cluster) if each.lane == "train"]
    assert (refused.ending, "partition" in refused.cause) == ("refused", True)
    assert refused.cause in cluster.log


def test_a_submit_without_an_answer_is_found(cluster: Installation, slurm: Slurm) -> None:
    """Slurm has the job: it is found by its name and not submitted again."""
    configure(cluster, f"submit = {SILENT}")
    cluster.timing = cluster.timing._replace(engine_seconds=3.0)
    cluster.enqueue("gated", lane="import")

    cluster.dispatch()
    cluster.dispatch()

    [found] = rows(cluster)
    assert [each.split()[0] for each in job_of(slurm, found.worker_id)] == [found.external_id]
    cluster.wait_for_gate()
    cluster.open_gate()
    wait_until(lambda: cluster.statuses() == {"done": 1}, "the job is done")


def test_slurm_stores_no_secret(cluster: Installation, slurm: Slurm) -> None:
    """Neither in the job, nor in its batch script, nor in the command line or environment of the runner."""
    cluster.enqueue("gated", lane="import")
    cluster.dispatch(API_KEY="s3cret-of-an-application")
    cluster.wait_for_gate()
    [found] = rows(cluster)

    shown = slurm.ask("scontrol", "show", "job", "-dd", found.external_id)
    script = slurm.ask("scontrol", "write", "batch_script", found.external_id, "-")

    process = Path(f"/proc/{found.pid}")
    texts = [shown, script, (process / "cmdline").read_text(), (process / "environ").read_text()]
    assert f"JobName={found.worker_id}" in shown
    assert f"runner --worker {found.worker_id}" in script
    assert not [each for each in texts if "s3cret" in each or cluster.url in each]
    cluster.open_gate()
    wait_until(lambda: cluster.statuses() == {"done": 1}, "the job is done")


def test_waiting_runners_are_cancelled_in_slurm(cluster: Installation, slurm: Slurm) -> None:
    """When no job is left for them; the process of such a runner never starts."""
    slurm.ask("scontrol", "update", "PartitionName=main", "State=DOWN")
    ids = cluster.enqueue("noop", lane="import", count=100)
    cluster.dispatch()
    assert [each.external_id is not None for each in rows(cluster)] == [True, True]
    cluster.run("mayfly", "cancel", *map(str, ids), "--yes")

    dispatch_until(cluster, lambda: all(each.engine_step is None for each in rows(cluster)), "both are cancelled")

    assert {each.ending for each in rows(cluster)} == {"cancelled"}
    wait_until(lambda: is_empty(slurm), "nothing stays in the queue")
