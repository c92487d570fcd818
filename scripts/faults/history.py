"""The events of a run: one JSON line per event, appended by every process to its own file.

A line is written with one system call before the process continues, so that kill -9 loses none.
"""

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DIRECTORY = "TORTURE_HISTORY"

_files: dict[int, int] = {}


@dataclass(frozen=True)
class Event:
    at: float  # CLOCK_MONOTONIC: one machine, so all processes share it
    kind: str
    facts: dict[str, Any]
    pid: int = 0

    def __getitem__(self, name: str) -> Any:
        return self.facts[name]


def note(kind: str, **facts: Any) -> None:
    """Record an event of this process."""
    pid = os.getpid()
    if pid not in _files:  # also after a fork
        path = Path(os.environ[DIRECTORY]) / f"{pid}-{time.monotonic_ns()}.jsonl"
        _files[pid] = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    line = json.dumps([time.monotonic(), kind, facts, pid])
    os.write(_files[pid], f"{line}\n".encode())


def read_history(directory: Path) -> list[Event]:
    """All events by time. The last line of a killed process may be incomplete."""
    return sorted(_events(directory), key=lambda event: event.at)


def _events(directory: Path) -> Iterator[Event]:
    for path in directory.iterdir():
        for line in path.read_text().splitlines():
            try:
                at, kind, facts, pid = json.loads(line)
            except ValueError:
                continue
            yield Event(at, kind, facts, pid)
