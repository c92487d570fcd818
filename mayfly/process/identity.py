"""Identify a process of a host: pid with start time, host name with boot id. Enough to be certain that it is dead.

NamedTuples, because idle cycles import this and importing dataclasses takes longer than the rest of the module.
"""

import os
import re
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

PAGE_SIZE, CLOCK_TICKS = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")  # ticks per second
KILL_TIMEOUT_SECONDS = 5.0  # more than the kernel needs, unless the disk hangs


class Process(NamedTuple):
    """A process of this machine. A pid alone is reused; with the start time it is unique."""

    pid: int
    started: int  # clock ticks since boot

    @property
    def is_alive(self) -> bool:
        return start_time(self.pid) == self.started

    def send_signal(self, number: signal.Signals) -> bool:
        """Signal this process, never a later one with the same pid; False if it is gone."""
        with suppress(OSError), self._opened() as pidfd:
            if self.is_alive:  # checked after opening: the pidfd belongs to the process that was checked
                signal.pidfd_send_signal(pidfd, number)
                return True
        return False

    def has_ended_within(self, seconds: float) -> bool:
        """Wait for its exit; works for processes that are not children of this one."""
        with suppress(OSError), self._opened() as pidfd:
            return not self.is_alive or bool(select.select([pidfd], [], [], seconds)[0])
        return True

    @contextmanager
    def _opened(self) -> Iterator[int]:
        pidfd = os.pidfd_open(self.pid)
        try:
            yield pidfd
        finally:
            os.close(pidfd)

    def end(self) -> None:
        """Kill it and wait for its exit. `end_group` kills its descendants."""
        if self.send_signal(signal.SIGKILL):
            self.has_ended_within(KILL_TIMEOUT_SECONDS)

    def end_group(self) -> None:
        """Kill the process group of a dead process. Its pid is not reused while a process of the group is alive."""
        if start_time(self.pid) is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)


class Host(NamedTuple):
    """A host by its name, with the boot and the process namespace in which its pids are valid."""

    name: str
    machine: str


def this_host(host_name: str) -> Host:
    return Host(host_name, _machine())


def this_process() -> Process:
    return Process(os.getpid(), start_time(os.getpid()) or 0)


def start_time(pid: int) -> int | None:
    """None if there is no such process, or only its zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    state, *rest = stat[stat.rindex(b")") + 2 :].split()  # the name before it may contain spaces and brackets
    return None if state in (b"Z", b"X") else int(rest[18])


def resident_bytes(pid: int) -> int:
    """The resident memory; 0 if the process is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * PAGE_SIZE
    except OSError:
        return 0


class ProcessUsage(NamedTuple):
    """Like the resource usage of a process that has exited, but of a live one."""

    peak_memory: int  # bytes
    cpu_ms: int  # of the process and of the children it has waited for


def process_usage(pid: int) -> ProcessUsage | None:
    """None if the process is gone."""
    try:
        stat, status = (Path(f"/proc/{pid}/{name}").read_bytes() for name in ("stat", "status"))
    except OSError:
        return None
    peak = re.search(rb"VmHWM:\s+(\d+) kB", status)  # a process that is about to exit has no memory left
    ticks = sum(map(int, stat[stat.rindex(b")") + 2 :].split()[11:15]))
    return ProcessUsage(int(peak[1]) * 1024, round(ticks * 1000 / CLOCK_TICKS)) if peak else None


@cache
def _machine() -> str:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    namespace = str(Path("/proc/self/ns/pid").readlink()).strip("pid:[]")
    return f"{boot}/{namespace}"[:64]
