"""Several hosts on one database: together they start as many runners as one would, and no job runs twice."""

import os
import subprocess
import sys
from collections import Counter
from itertools import repeat

import pytest
from sqlalchemy import func, select

from mayfly.schema.metadata import cycles, jobs, runners
from tests.process.installation import Installation, StartedProcess, most_at_once, wait_until

ROUNDS = 2


@pytest.mark.every_database
def test_two_hosts_never_exceed_the_maximum_of_a_lane(installation: Installation) -> None:
    """Two dispatchers started at the same time, repeatedly: never more than MAX_WORKERS, each job once."""
    for _ in repeat(None, ROUNDS):
        installation.enqueue("sleep", '{"seconds": 0.05}', count=24)
        hosts = start_hosts(installation, MAX_WORKERS="3", BATCH_SIZE="2")

        assert [host.communicate() for host in hosts] == [("", ""), ("", "")]
        assert [host.returncode for host in hosts] == [0, 0]

    assert installation.statuses() == {"done": 24 * ROUNDS}
    assert installation.rows(select(func.min(jobs.c.claims), func.max(jobs.c.claims))) == [(1, 1)]
    ended = installation.rows(select(runners))
    assert most_at_once((each.planned_at, each.finished_at) for each in ended) == 3
    assert len(installation.rows(select(cycles))) == 2 * ROUNDS


def test_hosts_share_the_workers_of_a_lane(embedded: Installation) -> None:
    """A host whose slots are full leaves the rest to the other one."""
    embedded.enqueue("gated", count=40)

    hosts = start_hosts(embedded, HOST_MAX_WORKERS="2", MAX_WORKERS="4", BATCH_SIZE="2")
    wait_until(lambda: len(embedded.runner_pids()) == 4, "four runners work")
    by_host = Counter(each.host for each in embedded.rows(select(runners)))
    embedded.open_gate()
    outputs = [host.communicate() for host in hosts]

    assert outputs == [("", ""), ("", "")]
    assert embedded.statuses() == {"done": 40}
    assert by_host == {"a": 2, "b": 2}
    ended = embedded.rows(select(runners))
    for name in ("a", "b"):
        assert most_at_once((each.planned_at, each.finished_at) for each in ended if each.host == name) == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for process namespaces")
def test_a_pod_does_not_judge_the_processes_of_another_pod(embedded: Installation) -> None:
    """All pods are one host, each with its own pids: one that finds no such process does not rescue its jobs."""
    [job] = embedded.enqueue("gated")
    first = start_pod(embedded, "first")
    embedded.wait_for_gate()

    second = start_pod(embedded, "second")
    ended = second.communicate()
    during = embedded.job(job).status
    embedded.open_gate()

    assert (ended, first.communicate()) == (("", ""), ("", ""))
    assert (first.returncode, second.returncode) == (0, 0)
    assert (during, embedded.job(job).status, embedded.job(job).claims) == ("processing", "done", 1)
    assert [each.ending for each in embedded.rows(select(runners))] == ["ok"]
    assert {each.host for each in embedded.rows(select(cycles))} == {"kubernetes"}
    assert len({each.machine for each in embedded.rows(select(runners))}) == 1


def start_pod(installation: Installation, name: str) -> subprocess.Popen[str]:
    """A dispatcher with a process namespace of its own, whose pids begin at 1, and its own state directory."""
    settings = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "STATE_DIR": str(installation.home / name)}
    return subprocess.Popen(
        ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", sys.executable, "-m", "dispatcher"],
        env=installation.environment(**settings),
        cwd="/",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def start_hosts(installation: Installation, **settings: str) -> list[StartedProcess]:
    """Two hosts for Mayfly, each with its own directory for lock and status pages."""
    return [
        installation.start("dispatcher", HOST_NAME=name, STATE_DIR=str(installation.home / name), **settings)
        for name in ("a", "b")
    ]
