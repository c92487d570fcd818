"""The guard of a runner: interrupts a handler whose time is up.

First with an exception, then by exiting from C code; the dispatcher's guard comes last.
"""

import ctypes
import faulthandler
import os
import select
import signal
import struct

# The functions of `signal` convert numbers to enums and back: 3 µs per job.
from _signal import getsignal, pthread_sigmask  # type: ignore[import-not-found]
from collections.abc import Callable
from enum import StrEnum
from functools import cached_property
from math import inf
from types import FrameType
from typing import Protocol

from mayfly.clock import monotonic
from mayfly.errors import Interrupted, UnhandledAlarm
from mayfly.job import Job, TimeBudget
from mayfly.process import timing
from mayfly.process.fork import HANDOVER, STOPS
from mayfly.process.status_page import StatusPage

MAX_SIGNAL_BYTES = 4096  # read at once; more signals end the next pause
HARD_EXIT_STEP_SECONDS = 0.5  # the hard exit is moved in steps, because each move starts a C thread
CLOCK_MONOTONIC, SIGEV_SIGNAL = 1, 0  # of timer_create

SignalHandler = Callable[[int, FrameType | None], None]


class HasDescriptor(Protocol):
    def fileno(self) -> int: ...


class Cause(StrEnum):
    TIMEOUT = "timeout"  # the job's own
    GUARD = "guard"  # the end of the runner's window
    STOP = "stop"  # a signal
    STUCK = "stuck"  # another job blocks its event loop: it is released, even after its own timeout


class SignalTimer:
    """A POSIX timer with a real-time signal: SIGALRM and its only timer are left to handlers and their libraries.

    The standard library has no function for it. Forked processes do not inherit it.
    """

    def __init__(self) -> None:
        self.signal = signal.SIGRTMIN + 1
        self._libc = ctypes.CDLL(None, use_errno=True)
        if not hasattr(self._libc, "timer_create"):
            self._libc = ctypes.CDLL("librt.so.1", use_errno=True)  # glibc before 2.34
        self._id = ctypes.c_void_p()
        event = struct.pack("Pii48x", 0, self.signal, SIGEV_SIGNAL)  # struct sigevent
        self._call("timer_create", CLOCK_MONOTONIC, event, ctypes.byref(self._id))

    def start(self, seconds: float, interval_seconds: float) -> None:
        times = (interval_seconds, seconds)
        spec = struct.pack("llll", *(part for each in times for part in (int(each), int(each % 1 * 1e9))))
        self._call("timer_settime", self._id, 0, spec, None)  # struct itimerspec: seconds and nanoseconds

    def _call(self, name: str, *arguments: object) -> None:
        if getattr(self._libc, name)(*arguments):
            number = ctypes.get_errno()
            raise OSError(number, f"{name}: {os.strerror(number)}")


class Guard:
    """The deadlines of one process. The timer raises Interrupted only while `armed`: while a handler is running."""

    def __init__(self, deadline: float, page: StatusPage) -> None:
        self._guard_at = deadline
        self._interrupt_at = deadline + timing().finish_seconds
        self._stop_at = inf
        self._timeout_at = inf  # of the running job
        self._hard_exit_at = 0.0
        self._page = page
        self._timer: SignalTimer | None = None
        self._signal_handlers: dict[int, SignalHandler] = {}
        self.armed = False
        self.stopped_by: str | None = None  # the signal that asked the runner to stop

    def install(self) -> None:
        self._timer = SignalTimer()
        self._signal_handlers = {
            self._timer.signal: self._on_timer,
            signal.SIGALRM: self._on_alarm,
            **dict.fromkeys(STOPS, self._on_stop),
        }
        self.restore_signals()
        os.register_at_fork(before=_block_stops, after_in_parent=_unblock_stops, after_in_child=self._uninstall)
        self._set_timer()
        _unblock_stops()  # blocked since dispatcher.spawn, so that no signal is lost

    def restore_signals(self) -> None:
        """Called after each job: a handler may have left an alarm or its own signal handlers."""
        if self._timer is None:
            return  # not installed: the signal handlers are the caller's
        if signal.getitimer(signal.ITIMER_REAL)[0]:
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in self._signal_handlers.items():
            if getsignal(number) is not handler:
                signal.signal(number, handler)

    @property
    def may_start(self) -> bool:
        """Whether another job, or another claim, may begin."""
        return self.stopped_by is None and monotonic() < self._guard_at

    def pause(self, seconds: float, source: HasDescriptor | None = None) -> None:
        """Sleep. Unlike after time.sleep(), a signal ends it at once, also one that has just arrived.

        So does input of `source`.
        """
        read, write = self._signal_pipe
        waiting = select.poll()
        waiting.register(read, select.POLLIN)
        if source is not None:
            waiting.register(source, select.POLLIN)
        before = signal.set_wakeup_fd(write, warn_on_full_buffer=False)  # asyncio and libraries have their own
        try:
            found = waiting.poll(max(0.0, seconds * 1000)) if self.stopped_by is None else ()
        finally:
            signal.set_wakeup_fd(before)
        if any(descriptor == read for descriptor, _event in found):
            os.read(read, MAX_SIGNAL_BYTES)

    @cached_property
    def _signal_pipe(self) -> tuple[int, int]:
        return os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    @property
    def window_ends_at(self) -> float:
        """When a handler should be done; one that is nearly done may finish until `ends_at`."""
        return min(self._guard_at, self._stop_at)

    @property
    def ends_at(self) -> float:
        """When a handler that still runs is interrupted."""
        return min(self._interrupt_at, self._stop_at)

    def cause_of(self, timeout_at: float | None = None) -> Cause:
        """Why a job is interrupted now: its own timeout takes precedence over the guard, the guard over a stop."""
        now = monotonic()
        if now >= (self._timeout_at if timeout_at is None else timeout_at):
            return Cause.TIMEOUT
        return Cause.GUARD if now >= self._interrupt_at else Cause.STOP

    def time_budget(self, job: Job) -> TimeBudget:
        """Read in the handler's thread. After a stop signal no time is left: the job continues in another runner."""
        running = self._page.running_job(job.id)
        if running is None:  # left behind, and already settled
            return TimeBudget(monotonic(), -inf)
        timeout_at = inf if running.timeout is None else running.started + running.timeout
        ends_at = -inf if self.stopped_by is not None else min(timeout_at, self.window_ends_at)
        return TimeBudget(running.started, ends_at)

    def start_timeout(self, seconds: float) -> None:
        """Start the job's own timeout; it holds until `end_timeout`."""
        self._timeout_at = monotonic() + seconds
        self._set_timer()

    def end_timeout(self) -> None:
        """Called after the outcome is decided: until then `cause_of` reads the timeout."""
        if self._timeout_at != inf:
            self._timeout_at = inf
            self._set_timer()

    def arm_concurrent(self, first_timeout_at: float) -> None:
        """For jobs in threads or on the event loop: the main thread interrupts them, the hard exit is a fallback."""
        needed = min(first_timeout_at, self.ends_at) + timing().hard_exit_seconds + timing().settle_seconds
        if not 0 <= needed - self._hard_exit_at < HARD_EXIT_STEP_SECONDS:
            self._exit_hard_at(needed)

    def reset_concurrent(self) -> None:
        """No such job runs any more, but jobs that ended after the deadline may not be settled yet."""
        self.restore_signals()
        self._set_timer(timing().settle_seconds if monotonic() >= self.ends_at else 0)

    def _set_timer(self, settle_seconds: float = 0) -> None:
        """One timer and one hard exit, both for the earliest deadline."""
        due = min(self.ends_at, self._timeout_at)
        if self._timer is not None:
            self._timer.start(max(0.001, due - monotonic()), timing().interrupt_repeat_seconds)
        self._exit_hard_at(due + timing().hard_exit_seconds + settle_seconds)

    def _exit_hard_at(self, at: float) -> None:
        """A C thread that needs no GIL: ends even a handler that is blocked in C code or ignores signals."""
        faulthandler.dump_traceback_later(max(0.001, at - monotonic()), exit=True, file=2)
        self._page.expect_end_by(at)
        self._hard_exit_at = at

    def _uninstall(self) -> None:
        """In a process that a handler forks: signals have their default effect, and do not change the status page."""
        for number, handler in self._signal_handlers.items():
            if signal.getsignal(number) is handler:
                signal.signal(number, signal.SIG_DFL)
        _unblock_stops()

    def _on_timer(self, _signal: int, _frame: FrameType | None) -> None:
        if self.armed:
            raise Interrupted

    def _on_alarm(self, _signal: int, _frame: FrameType | None) -> None:
        """The alarm was set by the handler or a library; without this it would kill the process."""
        if self.armed:
            raise UnhandledAlarm

    def _on_stop(self, number: int, _frame: FrameType | None) -> None:
        """Claim no more jobs; the running job may finish for a while, but not after the guard."""
        if self.stopped_by is None:
            self.stopped_by = signal.Signals(number).name
        if number != HANDOVER and self._stop_at == inf:
            self._stop_at = monotonic() + timing().stop_seconds
            self._set_timer()


def _block_stops() -> None:
    """Called around a fork: a signal that arrives before Python has set up the child would be lost."""
    pthread_sigmask(signal.SIG_BLOCK, STOPS)


def _unblock_stops() -> None:
    pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
