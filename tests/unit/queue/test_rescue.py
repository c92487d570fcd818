"""A runner is dead by its process or its lease, never by its age."""

from dataclasses import replace
from datetime import timedelta

import pytest

from mayfly.fleet.runners import LiveRunner
from mayfly.process.identity import Host, Process, this_host, this_process
from mayfly.queue.rescue import is_dead
from tests.factories import NOON

HERE = this_host("web-1")
THIS_PROCESS = this_process()
OTHER_PROCESS = THIS_PROCESS._replace(started=THIS_PROCESS.started + 1)  # the pid was reused
LONG_AGO, LATER = NOON - timedelta(days=1), NOON + timedelta(seconds=1)


def make_runner(place: Host = HERE, process: Process = THIS_PROCESS, **changes: object) -> LiveRunner:
    runner = LiveRunner("worker-1-1", 1, "default", place, process, lease_until=LATER)
    return replace(runner, **changes)  # type: ignore[arg-type]


def test_a_runner_whose_process_exists_is_alive_after_its_lease() -> None:
    """On this machine the process table decides, not the lease."""
    assert not is_dead(make_runner(lease_until=LONG_AGO), HERE, NOON)


def test_a_runner_whose_process_is_gone_is_dead_at_once() -> None:
    """On this machine its lease does not have to expire."""
    assert is_dead(make_runner(process=Process(pid=2**22 + 1, started=1)), HERE, NOON)


def test_a_reused_pid_does_not_keep_a_runner_alive() -> None:
    """The start time distinguishes the two processes."""
    assert is_dead(make_runner(process=OTHER_PROCESS), HERE, NOON)


@pytest.mark.parametrize(
    "elsewhere",
    [
        Host("web-2", HERE.machine),  # another host name on this machine
        Host("web-1", "another boot/4026531836"),  # this host before a reboot, or a container with its name
        Host("web-2", "another machine/4026531836"),
    ],
)
@pytest.mark.parametrize(("lease", "dead"), [(LATER, False), (NOON, True), (LONG_AGO, True)])
@pytest.mark.parametrize("process", [THIS_PROCESS, OTHER_PROCESS])
def test_on_other_hosts_only_the_lease_decides(elsewhere: Host, process: Process, lease: object, dead: bool) -> None:
    """A pid has no meaning there, whether a local process has that number or not."""
    assert is_dead(make_runner(elsewhere, process, lease_until=lease), HERE, NOON) is dead
