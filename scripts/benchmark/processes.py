"""What the kernel knows about processes: their CPU time, their memory, and who is still there."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil

PROC = Path("/proc")
KIB = 1024


def family(pid: int) -> list[int]:
    """A process and all that descend from it."""
    try:
        return [pid, *(each.pid for each in psutil.Process(pid).children(recursive=True))]
    except psutil.NoSuchProcess:
        return []


def cpu_seconds(pid: int | None) -> float:
    """Of a server: of its processes that live, and of those it has waited for. 0 where there is none."""
    if pid is None:
        return 0.0
    return sum(map(_cpu_seconds, family(pid)))


def _cpu_seconds(pid: int) -> float:
    with suppress(psutil.NoSuchProcess):  # its parent has waited for it, and counts it, or will
        times = psutil.Process(pid).cpu_times()
        return float(times.user + times.system + times.children_user + times.children_system)
    return 0.0


def proportional_memory(pids: Iterable[int]) -> int:
    """Bytes (PSS): a page that several processes share counts once, divided among them."""
    return sum(map(_pss, pids))


def _pss(pid: int) -> int:
    with suppress(OSError):  # it may have ended between two looks
        for line in (PROC / str(pid) / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * KIB
    return 0


def with_variable(name: str, value: str) -> Iterator[int]:
    """Processes that live and have this in the environment they were started with."""
    wanted = f"{name}={value}".encode()
    for path in PROC.glob("[0-9]*/environ"):
        with suppress(OSError):
            if wanted in path.read_bytes().split(b"\0"):
                yield int(path.parent.name)
