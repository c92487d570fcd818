"""When a runner counts as dead: by liveness, never by age."""

from dataclasses import replace
from datetime import timedelta

import pytest

from mayfly.fleet.runners import LiveRunner
from mayfly.process.identity import Host, Process, this_host, this_process
from mayfly.queue.rescue import is_dead
from tests.factories import NOON

HERE = this_host("web-1")
US = this_process()
SOMEBODY_ELSE = US._replace(started=US.started + 1)  # the pid was given out again
LONG_AGO, LATER = NOON - timedelta(days=1), NOON + timedelta(seconds=1)


def make_runner(place: Host = HERE, process: Process = US, **changes: object) -> LiveRunner:
    runner = LiveRunner("worker-1-1", 1, "default", place, process, lease_until=LATER)
    return replace(runner, **changes)  # type: ignore[arg-type]


def test_a_runner_that_is_there_is_alive_however_late_it_is() -> None:
    """On this machine the process table knows; its lease does not matter."""
    assert not is_dead(make_runner(lease_until=LONG_AGO), HERE, NOON)


def test_a_runner_that_is_gone_is_dead_at_once() -> None:
    """Nobody waits for the lease of a process that this machine no longer has."""
    assert is_dead(make_runner(process=Process(pid=2**22 + 1, started=1)), HERE, NOON)


def test_a_pid_that_was_given_out_again_is_no_sign_of_life() -> None:
    """The start time tells the two apart."""
    assert is_dead(make_runner(process=SOMEBODY_ELSE), HERE, NOON)


@pytest.mark.parametrize(
    "elsewhere",
    [
        Host("web-2", HERE.machine),  # another host by name, on this machine
        Host("web-1", "another boot/4026531836"),  # this host before it was restarted, or a container of its name
        Host("web-2", "another machine/4026531836"),
    ],
)
@pytest.mark.parametrize(("lease", "dead"), [(LATER, False), (NOON, True), (LONG_AGO, True)])
@pytest.mark.parametrize("process", [US, SOMEBODY_ELSE])
def test_elsewhere_only_the_lease_tells(elsewhere: Host, process: Process, lease: object, dead: bool) -> None:
    """A pid means nothing there: neither a process of that number nor the lack of one proves anything."""
    assert is_dead(make_runner(elsewhere, process, lease_until=lease), HERE, NOON) is dead
