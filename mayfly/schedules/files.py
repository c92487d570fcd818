"""The schedules of this host: read from its schedule files, or declared in Python with schedule().

The dispatcher never imports handlers. It reads the declared schedules from one more schedule file, which
`mayfly schedules sync` writes when the code is deployed.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mayfly import json_text
from mayfly.errors import BadDeclaration
from mayfly.schedules.cron import BadSchedule
from mayfly.schedules.parse import ScheduleEntry, ScheduleProblem, parse_line, parse_text

SYNCED = "cron.d/schedule.d/from-python"
HEADING = "# Written by `mayfly schedules sync` from the calls of schedule() in HANDLERS. Edit those, not this.\n"

_declared: dict[str, str] = {}  # name: line


@dataclass(frozen=True)
class Schedules:
    entries: tuple[ScheduleEntry, ...] = ()
    problems: tuple[ScheduleProblem, ...] = ()

    def get(self, name: str) -> ScheduleEntry | None:
        return next((each for each in self.entries if each.name == name), None)


def read_schedules(files: Iterable[Path], home: Path, payload_limit: int) -> Schedules:
    """An invalid line does not affect the others."""
    entries: dict[str, ScheduleEntry] = {}
    problems: list[ScheduleProblem] = []
    for found in (each for file in files for each in _read(file, home)):
        if isinstance(found, ScheduleEntry):
            found = _checked(found, entries, payload_limit)
        if isinstance(found, ScheduleEntry):
            entries[found.name] = found
        else:
            problems.append(found)
    return Schedules(tuple(entries.values()), tuple(problems))


def _read(file: Path, home: Path) -> Iterator[ScheduleEntry | ScheduleProblem]:
    shown = str(file.relative_to(home)) if file.is_relative_to(home) else str(file)
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
    """Check what depends on other lines and on settings."""
    size = len(entry.payload.encode())
    if entry.name in others:
        reason = f"the name {entry.name!r} is taken by {others[entry.name].where}: give this one another with name="
    elif size > payload_limit:
        reason = f"the payload has {size:,} bytes, PAYLOAD_LIMIT allows {payload_limit:,}"
    else:
        return entry
    file, _, line = entry.where.rpartition(", line ")
    return ScheduleProblem(file, int(line), 1, reason)


# --- declared in Python ------------------------------------------------------------------------------------


def schedule(type_name: str, rule: str, payload: Mapping[str, Any] | None = None, **options: Any) -> None:
    """Enqueue a job of this type at every due time of a crontab rule: schedule("metric_rollup", "5 * * * *").

    The options are those of a schedule file: name, lane, tz, catch_up, overlap, jitter, max_attempts.
    """
    call = f"schedule({type_name!r}, …)"
    if not isinstance(type_name, str) or not isinstance(rule, str):
        raise BadDeclaration(call, 'write schedule("metric_rollup", "5 * * * *")')
    written = " ".join(f"{name}={value}" for name, value in options.items())
    try:
        text = json_text.encode(dict(payload)) if payload else ""
        entry = parse_line(f"{rule.strip()} {type_name} {text} {written}")
    except (TypeError, ValueError) as error:
        reason = error.reason if isinstance(error, BadSchedule) else str(error)
        raise BadDeclaration(call, reason) from error
    if entry.command is not None:
        raise BadDeclaration(call, "a command can only be scheduled by a schedule file")
    line = " ".join(filter(None, [entry.expression, type_name.strip(), text, *written.split()]))
    if _declared.setdefault(entry.name, line) != line:
        raise BadDeclaration(call, f"the name {entry.name!r} is taken: give this one another with name=")


def declared_text() -> str:
    """The content of the file; empty if nothing is declared."""
    lines = "".join(f"{line}\n" for _, line in sorted(_declared.items()))
    return f"{HEADING}{lines}" if lines else ""


def synced_text(home: Path) -> str:
    try:
        return (home / SYNCED).read_text("utf-8")
    except FileNotFoundError:
        return ""


def sync(home: Path) -> None:
    """Written atomically: a cycle may read the file at the same time."""
    file, text = home / SYNCED, declared_text()
    if not text:
        file.unlink(missing_ok=True)
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}")
    draft.write_text(text, "utf-8")
    draft.replace(file)
