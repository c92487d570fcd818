"""The dispatchers of this host, by their notes in the state directory: who plans, and who only supervises."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mayfly.process.identity import Process
from mayfly.process.state_dir import leaving_path, leaving_paths, lock_path

LINGERS, MERELY_RUNS = "lingers", "runs"


@dataclass(frozen=True)
class Dispatcher:
    """One that was there when its note was read; its process knows whether it still is."""

    process: Process
    lingers: bool = False  # whoever asks it for the lock gets it
    is_leaving: bool = False  # it has handed the lock over and sees its last runners to their end

    def as_text(self) -> str:
        return f"{self.process.pid} {self.process.started} {LINGERS if self.lingers else MERELY_RUNS}\n"


def planner(lock: Path) -> Dispatcher | None:
    """Who signed the host lock, if that process lives. The lock itself may have passed to somebody else since."""
    return _read(lock)


def all_here(directory: Path) -> list[Dispatcher]:
    found = planner(lock_path(directory))
    return [*([found] if found else []), *(each for _, each in _leaving(directory))]


def note_leaving(directory: Path, cycle_id: int, process: Process) -> None:
    """Written before the lock is free: who takes it must not take this cycle's runners for nobody's."""
    leaving_path(directory, cycle_id).write_text(Dispatcher(process).as_text())


def forget_leaving(directory: Path, cycle_id: int) -> None:
    leaving_path(directory, cycle_id).unlink(missing_ok=True)


def cycles_seen_to(directory: Path) -> frozenset[int]:
    """The cycles whose runners are still supervised by a dispatcher that has handed over."""
    return frozenset(cycle_id for cycle_id, _ in _leaving(directory))


def _leaving(directory: Path) -> Iterator[tuple[int, Dispatcher]]:
    for path in leaving_paths(directory):
        found = _read(path)
        if found is None:
            path.unlink(missing_ok=True)  # it was killed, and could not
        else:
            yield int(path.stem), Dispatcher(found.process, is_leaving=True)


def _read(path: Path) -> Dispatcher | None:
    with suppress(OSError, ValueError):
        pid, started, manner = path.read_text().split()
        process = Process(int(pid), int(started))
        return Dispatcher(process, lingers=manner == LINGERS) if process.is_alive else None
    return None
