"""The schedules' part of `mayfly doctor`: lines that are refused, and schedules that cannot do what they say."""

import os
import shlex
import shutil
from collections.abc import Iterator

from mayfly import jsontext
from mayfly.errors import EnqueueError
from mayfly.finding import Finding, Health
from mayfly.jobs.enqueue import Door
from mayfly.opening import load_registry
from mayfly.registry import Registry
from mayfly.schedules.declare import declared_text, synced_text
from mayfly.schedules.entry import Entry
from mayfly.schedules.files import read_schedules
from mayfly.schedules.wake import schedule_files
from mayfly.settings import Settings

USUAL_LANE = "default"


def examine_schedules(settings: Settings) -> Iterator[Finding]:
    """Nothing at all where there are none."""
    registry = load_registry(settings)
    files = schedule_files(settings)
    found = read_schedules(files, settings.home, settings.payload_limit)
    for problem in found.problems:
        yield _finding(Health.PROBLEM, str(problem))
    if declared_text() != synced_text(settings.home):
        text = "what schedule() declares in Python is not what was synced: run `mayfly schedules sync` on this host."
        yield _finding(Health.PROBLEM, text)
    for entry in found.entries:
        for health, reason in _doubts(entry, registry, settings):
            yield _finding(health, f"{entry.where}: {reason}")
    if found.entries:
        yield _finding(Health.OK, f"{len(found.entries)} in {len(files)} files")


def _doubts(entry: Entry, registry: Registry, settings: Settings) -> Iterator[tuple[Health, str]]:
    """What only somebody who knows the handlers can see."""
    if entry.command is not None:
        program = shlex.split(entry.command)[0]
        path = str(settings.home / program) if "/" in program else shutil.which(program)
        if path is None or not os.access(path, os.X_OK):
            yield Health.PROBLEM, f"{program} is no program that this user can run."
        return
    handler = registry.get(entry.type)
    if handler is None:
        nearest = registry.nearest(entry.type)
        hint = f"; did you mean {nearest!r}?" if nearest else ""
        yield Health.WARNING, f"no handler for type {entry.type!r} is known here{hint}"
        return
    try:
        Door(settings.payload_limit, settings.max_attempts).admit(entry.type, jsontext.decode(entry.payload), handler)
    except EnqueueError as error:
        yield Health.PROBLEM, str(error)
    if entry.lane == USUAL_LANE != handler.lane:
        text = f"its jobs go to lane {entry.lane!r}, the handler's is {handler.lane!r}: write lane={handler.lane}"
        yield Health.WARNING, text


def _finding(health: Health, text: str) -> Finding:
    return Finding("schedules", health, text)
