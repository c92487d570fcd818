"""Which process on which host: pid with start time, host name with boot. Enough to know for certain that it is dead.

NamedTuples, because every minute imports this and importing dataclasses costs more than all the rest here.
"""

import os
import select
import signal
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

PAGE_SIZE = os.sysconf("SC_PAGE_SIZE")
KILL_TIMEOUT_SECONDS = 5.0  # more than the kernel needs, unless the disk hangs


class Process(NamedTuple):
    """A process of this machine. A pid alone is reused; together with the start time it is not."""

    pid: int
    started: int  # clock ticks since boot

    @property
    def is_alive(self) -> bool:
        return start_time(self.pid) == self.started

    def send_signal(self, number: signal.Signals) -> bool:
        """Signal this process and never a later one with the same pid; False if it is gone."""
        try:
            pidfd = os.pidfd_open(self.pid)
        except OSError:
            return False
        try:
            if not self.is_alive:  # checked after opening: the pidfd belongs to the process that was checked
                return False
            signal.pidfd_send_signal(pidfd, number)
        except OSError:
            return False
        finally:
            os.close(pidfd)
        return True

    def has_ended_within(self, seconds: float) -> bool:
        """Wait for its exit; works for processes that are not children of this one."""
        try:
            pidfd = os.pidfd_open(self.pid)
        except OSError:
            return True
        try:
            return not self.is_alive or bool(select.select([pidfd], [], [], seconds)[0])
        finally:
            os.close(pidfd)

    def end(self) -> None:
        """Kill it and wait for its exit. What it started is left to `end_group`."""
        if self.send_signal(signal.SIGKILL):
            self.has_ended_within(KILL_TIMEOUT_SECONDS)

    def end_group(self) -> None:
        """Kill what a dead process left running. Its pid is not reused while a process of its group is alive."""
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
    """The memory in use; 0 if the process is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * PAGE_SIZE
    except OSError:
        return 0


@cache
def _machine() -> str:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    namespace = str(Path("/proc/self/ns/pid").readlink()).strip("pid:[]")
    return f"{boot}/{namespace}"[:64]
