"""Under what circumstances a figure was made."""

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

from scripts.benchmark.stage import CHECKOUT

BUSY_LOAD_PER_CORE = 0.5
LIBRARIES = ("SQLAlchemy", "PyMySQL", "psycopg")


def environment() -> dict[str, Any]:
    return {
        "mayfly": f"{version('mayfly-jobs')} ({_commit()})",
        "python": platform.python_version(),
        "libraries": {name: version(name) for name in LIBRARIES},
        "kernel": platform.release(),
        "cpu": _processor(),
        "cores": cores(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "load_at_start": round(os.getloadavg()[0], 2),
    }


def cores() -> int:
    """Those that we may use."""
    return len(os.sched_getaffinity(0))


def warning(load: float, number_of_cores: int) -> str | None:
    """A sentence, if the machine is not idle enough to measure anything."""
    if load <= BUSY_LOAD_PER_CORE * number_of_cores:
        return None
    return f"The machine is busy (load {load:g} on {number_of_cores} cores): the figures will show that, too."


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _commit() -> str:
    """Which code this was; a checkout without git has no answer."""
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=7"],  # noqa: S607
        cwd=CHECKOUT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return described.stdout.strip() or "unknown"
