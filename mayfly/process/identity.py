"""Where a process lives, told so that its death can be known for certain: host, machine, pid, start time."""

import os
import select
import signal
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PAGE_SIZE = os.sysconf("SC_PAGE_SIZE")
KILL_SECONDS = 5.0  # more than the kernel needs, unless the disk hangs


@dataclass(frozen=True)
class Process:
    """A process of this machine. A pid alone is reused; with its start time it is not."""

    pid: int
    started: int  # clock ticks since boot

    @property
    def is_alive(self) -> bool:
        return start_time(self.pid) == self.started

    def tell(self, number: signal.Signals) -> bool:
        """Send a signal to this process and to none that has its number since; whether it was there."""
        try:
            pidfd = os.pidfd_open(self.pid)
        except OSError:
            return False
        try:
            if not self.is_alive:  # looked at after it was opened: it is the one that the signal goes to
                return False
            signal.pidfd_send_signal(pidfd, number)
        except OSError:
            return False
        finally:
            os.close(pidfd)
        return True

    def has_ended_within(self, seconds: float) -> bool:
        """Wait for its end. Who is no child of ours is known to have ended by the kernel's own word."""
        try:
            pidfd = os.pidfd_open(self.pid)
        except OSError:
            return True
        try:
            return not self.is_alive or bool(select.select([pidfd], [], [], seconds)[0])
        finally:
            os.close(pidfd)

    def end(self) -> None:
        """Kill it, and wait for that. `end_group` is for what it leaves."""
        if self.tell(signal.SIGKILL):
            self.has_ended_within(KILL_SECONDS)

    def end_group(self) -> None:
        """End what a dead process left running. Its number is given to nobody else while one of its group lives."""
        if start_time(self.pid) is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)


@dataclass(frozen=True)
class Host:
    """A host by its name, and the boot and process namespace in which its pids mean something."""

    host: str
    machine: str


def this_host(host_name: str) -> Host:
    return Host(host_name, _machine())


def this_process() -> Process:
    return Process(os.getpid(), start_time(os.getpid()) or 0)


def start_time(pid: int) -> int | None:
    """None when there is no such process, or only its zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    state, *rest = stat[stat.rindex(b")") + 2 :].split()  # the name before it may hold spaces and brackets
    return None if state in (b"Z", b"X") else int(rest[18])


def resident_bytes(pid: int) -> int:
    """The memory that it uses; 0 when it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * PAGE_SIZE
    except OSError:
        return 0


@cache
def _machine() -> str:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    namespace = str(Path("/proc/self/ns/pid").readlink()).strip("pid:[]")
    return f"{boot}/{namespace}"[:64]
