"""Guards, grace periods and leases: how long processes wait for each other, as one value. Tests use shorter times."""

from typing import NamedTuple


class Timing(NamedTuple):
    # The runner's guard.
    finish_seconds: float = 0.5  # a job that runs at the end of the window may finish for this long
    interrupt_repeat_seconds: float = 0.5  # a handler that catches the exception gets another one
    hard_exit_seconds: float = 2.0  # from the exception to the end of the process: time for a handler's `finally`
    settle_seconds: float = 1.0  # for the main thread to settle a job in a thread that could not be interrupted
    stop_seconds: float = 30.0  # a running job may go on for this long after SIGTERM
    # The dispatcher's guard.
    kill_seconds: float = 1.0  # from SIGTERM to SIGKILL
    overdue_seconds: float = 1.0  # a runner that should have exited by itself is killed this much later
    handover_seconds: float = 3.0  # runners of a dispatcher that has handed over claim for this long
    min_window_seconds: float = 2.0  # a runner is not started with less than this left of its window
    # Heartbeat, alerts, metrics and traces, each sent by a process of its own.
    notify_seconds: float = 2.0  # for all that one of them does: look up a name, connect, send
    request_seconds: float = 1.0  # for each of connecting, sending and waiting
    # Lingering runners.
    idle_runner_seconds: float = 5.0  # a runner in an empty lane waits for this long
    # Leases.
    lease_grace_seconds: float = 5.0  # a lease ends this long after the dispatcher's guard
    long_lease_seconds: float = 60.0  # of a runner in a long lane, which renews it
    lease_renewals: int = 4  # per lease: three may fail in a row, so a restart of the database costs no job


_current = Timing()


def timing() -> Timing:
    return _current


def use_timing(value: Timing) -> None:
    """For tests; in the process that calls it and those that it forks."""
    global _current
    _current = value
