"""Schedules from Python: schedule() declares one next to its handler, `mayfly schedules sync` writes them to a file.

The dispatcher never imports handlers, so it reads these schedules from one more schedule file, which is written when
the code is deployed.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mayfly import json_text
from mayfly.errors import BadDeclaration

SYNCED = "cron.d/schedule.d/from-python"
HEADING = "# Written by `mayfly schedules sync` from the calls of schedule() in HANDLERS. Edit those, not this.\n"

_declared: dict[str, str] = {}  # name: line


def schedule(type_name: str, rule: str, payload: Mapping[str, Any] | None = None, **options: Any) -> None:
    """Declare that a job of this type is due by a crontab rule: schedule("metric_rollup", "5 * * * *").

    The options are those of a schedule file: name, lane, tz, catch_up, overlap, jitter, max_attempts.
    """
    from mayfly.schedules.cron import BadSchedule  # cronsim: only needed where handlers declare schedules
    from mayfly.schedules.parse import line_of, parse_line  # as above

    call = f"schedule({type_name!r}, …)"
    if not isinstance(type_name, str) or not isinstance(rule, str):
        raise BadDeclaration(call, 'write schedule("metric_rollup", "5 * * * *")')
    written = " ".join(f"{name}={value}" for name, value in options.items())
    try:
        text = json_text.encode(dict(payload or {}))
        entry = parse_line(f"{rule.strip()} {type_name} {text} {written}")
    except (TypeError, ValueError) as error:
        reason = error.reason if isinstance(error, BadSchedule) else str(error)
        raise BadDeclaration(call, reason) from error
    if entry.command is not None:
        raise BadDeclaration(call, "a command can only be scheduled by a schedule file")
    line = line_of(entry)
    if _declared.setdefault(entry.name, line) != line:
        raise BadDeclaration(
            f"schedule({type_name!r}, …)", f"the name {entry.name!r} is taken: give this one another with name="
        )


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
