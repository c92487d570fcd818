"""The schedules' part of a cycle: fire what is due, tell it, and note for idle cycles when that will be again."""

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from dispatcher.context import CycleContext
from mayfly import log_messages
from mayfly.clock import host_now
from mayfly.queue.insert import JobValidator
from mayfly.schedules.next_due import are_settled, clear_next_due, file_signatures, schedule_files, write_next_due

if TYPE_CHECKING:
    from mayfly.schedules.files import Schedules
    from mayfly.schedules.parse import ScheduleEntry


@dataclass(frozen=True)
class Scheduled:
    """What the summary says of them."""

    fired: int = 0
    left_out: int = 0
    problems: tuple[str, ...] = ()


def fire_schedules(world: CycleContext) -> Scheduled:
    """Whoever has no schedule files pays for a look whether there are any."""
    files = schedule_files(world.settings)
    if not files:
        return Scheduled()
    looks, settled = file_signatures(files), are_settled(files, host_now())
    schedules = _read(world, files)
    from mayfly.schedules.fire import Fired, fire_due  # here, as below: most installations can do without cronsim

    validator = JobValidator.from_settings(world.settings, world.database.clock.now)
    fired = fire_due(world.database, schedules.entries, validator) if schedules.entries else Fired()
    if fired.jobs:
        world.log.say(log_messages.schedules_fired([entry.name for entry, _ in fired.jobs]))
    for each in fired.skipped:
        world.log.say(log_messages.schedule_skipped(each.entry.name, each.first, each.last, each.because))
    for problem in schedules.problems:
        world.log.say(log_messages.schedule_refused(str(problem)))
    _note(world.directory, looks, fired.next_at, is_sure=settled and not schedules.problems)
    return Scheduled(len(fired.jobs), len(fired.skipped), tuple(map(str, schedules.problems)))


@dataclass(frozen=True)
class Preview:
    """What would be fired, for --dry-run."""

    due: "tuple[tuple[ScheduleEntry, datetime], ...]" = ()
    problems: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        return [entry.name for entry, _ in self.due]

    @property
    def coming(self) -> Counter[str]:
        """How many jobs each lane would have more at once."""
        return Counter(entry.lane for entry, _ in self.due if not entry.jitter)


def due_schedules(world: CycleContext) -> Preview:
    files = schedule_files(world.settings)
    if not files:
        return Preview()
    from mayfly.schedules.fire import decide_all, load_known

    schedules, known = _read(world, files), world.database.read(load_known)
    decisions = decide_all(schedules.entries, known, world.database.clock.now())
    due = ((each.entry, due) for each in decisions for due in each.due)
    return Preview(tuple(due), tuple(map(str, schedules.problems)))


def _read(world: CycleContext, files: list[Path]) -> "Schedules":
    from mayfly.schedules.files import read_schedules

    return read_schedules(files, world.settings.home, world.settings.payload_limit)


def _note(directory: Path, looks: str, next_at: datetime | None, is_sure: bool) -> None:
    """A note that cannot be written costs the next cycle its shortcut, and nothing else."""
    with suppress(OSError):
        if is_sure:
            write_next_due(directory, looks, next_at)
        else:
            clear_next_due(directory)
