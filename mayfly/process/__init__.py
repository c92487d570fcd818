"""Processes of one host: identity, fork, exit codes, timing, files in the state directory. Knows no database."""

from typing import NamedTuple


class Timing(NamedTuple):
    """Guards, grace periods and leases: how long processes wait for each other. Tests use shorter times."""

    # The runner's guard.
    finish_seconds: float = 0.5  # a job that runs at the end of the window may finish for this long
    interrupt_repeat_seconds: float = 0.5  # after this, a handler that catches the exception gets another one
    hard_exit_seconds: float = 2.0  # from the exception to the exit of the process: time for a handler's `finally`
    settle_seconds: float = 1.0  # for the main thread to settle a job whose thread could not be interrupted
    stop_seconds: float = 30.0  # a running job may continue for this long after SIGTERM
    # The dispatcher's guard.
    kill_seconds: float = 1.0  # from SIGTERM to SIGKILL
    overdue_seconds: float = 1.0  # a runner that should have exited by itself is killed this much later
    handover_seconds: float = 3.0  # runners of a dispatcher that has handed over keep claiming for this long
    min_window_seconds: float = 2.0  # a runner is not started with less than this left of its window
    slow_job_seconds: float = 2.0  # unstarted jobs of a claim wait for this long behind one that is running
    # Heartbeat, alerts, metrics and traces, each sent by a process of its own.
    notify_seconds: float = 2.0  # for everything that one of them does: resolve a name, connect, send
    request_seconds: float = 1.0  # for each of connecting, sending and waiting for the response
    # Figures of live runners in the database.
    figures_seconds: float = 2.0  # between two writes; the first comes this long after the start of the cycle
    figures_timeout_seconds: float = 1.0  # for one write: the dispatcher must not wait long for a slow database
    # Launchers.
    engine_seconds: float = 10.0  # for one command of an engine
    launch_seconds: float = 30.0  # for all commands of one round in an engine
    # Lingering.
    idle_runner_seconds: float = 15.0  # a runner in an empty lane waits for this long
    extra_poll_seconds: float = 0.0  # between two polls: with rare polls, only wake-ups start jobs
    # Leases.
    lease_grace_seconds: float = 5.0  # a lease ends this long after the dispatcher's guard
    long_lease_seconds: float = 60.0  # of a runner in a long lane, which renews it
    lease_renewals: int = 4  # per lease: three may fail in a row, so that no job is lost when the database restarts


_current = Timing()


def timing() -> Timing:
    return _current


def use_timing(value: Timing) -> None:
    """For tests. Affects the calling process and those that it forks."""
    global _current
    _current = value
