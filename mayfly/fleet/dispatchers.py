"""The dispatchers of this host, by their notes in the state directory: one that plans, others that only supervise."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mayfly.process.identity import Process
from mayfly.process.state_dir import leaving_path, leaving_paths, lock_path

LINGERS, RUNS = "lingers", "runs"


@dataclass(frozen=True)
class Dispatcher:
    """A dispatcher that was alive when its note was read."""

    process: Process
    lingers: bool = False  # it hands the lock over on request
    is_leaving: bool = False  # it has handed the lock over and only supervises its last runners

    def as_text(self) -> str:
        return f"{self.process.pid} {self.process.started} {LINGERS if self.lingers else RUNS}\n"


def planner(lock: Path) -> Dispatcher | None:
    """The process that signed the host lock, if it is alive. Another one may hold the lock by now."""
    return _read(lock)


def all_here(directory: Path) -> list[Dispatcher]:
    found = planner(lock_path(directory))
    return [*([found] if found else []), *(each for _, each in _leaving(directory))]


def note_leaving(directory: Path, cycle_id: int, process: Process) -> None:
    """Written before the lock is released: the next holder must not rescue the runners of this cycle."""
    leaving_path(directory, cycle_id).write_text(Dispatcher(process).as_text())


def forget_leaving(directory: Path, cycle_id: int) -> None:
    leaving_path(directory, cycle_id).unlink(missing_ok=True)


def cycles_still_supervised(directory: Path) -> frozenset[int]:
    """The cycles whose runners are supervised by a dispatcher that has handed over."""
    return frozenset(cycle_id for cycle_id, _ in _leaving(directory))


def _leaving(directory: Path) -> Iterator[tuple[int, Dispatcher]]:
    for path in leaving_paths(directory):
        found = _read(path)
        if found is None:
            path.unlink(missing_ok=True)  # its dispatcher was killed
        else:
            yield int(path.stem), Dispatcher(found.process, is_leaving=True)


def _read(path: Path) -> Dispatcher | None:
    with suppress(OSError, ValueError):
        pid, started, mode = path.read_text().split()
        process = Process(int(pid), int(started))
        return Dispatcher(process, lingers=mode == LINGERS) if process.is_alive else None
    return None
