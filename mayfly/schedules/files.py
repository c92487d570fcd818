"""Read the schedule files: all schedules of this host, and the problems in them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from mayfly.schedules.parse import ScheduleEntry, ScheduleProblem, parse_text


@dataclass(frozen=True)
class Schedules:
    entries: tuple[ScheduleEntry, ...] = ()
    problems: tuple[ScheduleProblem, ...] = ()

    def get(self, name: str) -> ScheduleEntry | None:
        return next((each for each in self.entries if each.name == name), None)


def read_schedules(files: Iterable[Path], home: Path, payload_limit: int) -> Schedules:
    """A wrong line does not affect the others."""
    entries: dict[str, ScheduleEntry] = {}
    problems: list[ScheduleProblem] = []
    for found in (each for file in files for each in _read(file, _shown(file, home))):
        if isinstance(found, ScheduleEntry):
            found = _checked(found, entries, payload_limit)
        if isinstance(found, ScheduleEntry):
            entries[found.name] = found
        else:
            problems.append(found)
    return Schedules(tuple(entries.values()), tuple(problems))


def _read(file: Path, shown: str) -> Iterator[ScheduleEntry | ScheduleProblem]:
    try:
        written_at = datetime.fromtimestamp(file.stat().st_ctime, UTC)
        text = file.read_text("utf-8")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        column = error.start - error.object.rfind(b"\n", 0, error.start)
        yield ScheduleProblem(shown, line, column, "is not UTF-8 text; nothing of this file is scheduled")
    except OSError as error:
        yield ScheduleProblem(shown, 0, 0, f"cannot be read: {error.strerror}. See SCHEDULE_FILES")
    else:
        for each in parse_text(text, shown):
            yield replace(each, written_at=written_at) if isinstance(each, ScheduleEntry) else each


def _checked(
    entry: ScheduleEntry, others: dict[str, ScheduleEntry], payload_limit: int
) -> ScheduleEntry | ScheduleProblem:
    """What cannot be checked by one line alone."""
    size = len(entry.payload.encode())
    if entry.name in others:
        taken = f"the name {entry.name!r} is taken by {others[entry.name].where}: give this one another with name="
        return _problem(entry, taken)
    if size > payload_limit:
        return _problem(entry, f"the payload has {size:,} bytes, PAYLOAD_LIMIT allows {payload_limit:,}")
    return entry


def _problem(entry: ScheduleEntry, reason: str) -> ScheduleProblem:
    file, _, line = entry.where.rpartition(", line ")
    return ScheduleProblem(file, int(line), 1, reason)


def _shown(file: Path, home: Path) -> str:
    return str(file.relative_to(home)) if file.is_relative_to(home) else str(file)
