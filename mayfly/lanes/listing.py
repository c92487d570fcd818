"""What the commands of lanes show: pauses, and doubts about a name."""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from mayfly.engine import Database
from mayfly.jobs.looks import find_lanes
from mayfly.jobs.pauses import LANE, Pause
from mayfly.opening import load_registry
from mayfly.schema import JOBS
from mayfly.settings import Settings
from mayfly.spans import moment


def facts(pause: Pause) -> dict[str, Any]:
    return {
        "kind": pause.kind,
        "name": pause.name,
        "since": pause.paused_at.isoformat(timespec="seconds"),
        "until": pause.paused_until and pause.paused_until.isoformat(timespec="seconds"),
        "by": pause.paused_by,
        "reason": pause.reason,
    }


def line(pause: Pause) -> str:
    until = f" until {moment(pause.paused_until)}" if pause.paused_until else ""
    reason = f": {pause.reason}" if pause.reason else ""
    return f"{pause.kind} {pause.name}  since {moment(pause.paused_at)} by {pause.paused_by}{until}{reason}"


def doubt(settings: Settings, database: Database, kind: str, name: str) -> Iterator[str]:
    """A misspelled name would be a pause that holds nothing; one that is new is no mistake."""
    if kind == LANE:
        known = {*settings.lanes, *database.read(lambda connection: find_lanes(connection, JOBS))}
    else:
        known = {*load_registry(settings).handlers}
    if name not in known:
        nearest = next(iter(get_close_matches(name, known, n=1)), None)
        hint = f"; did you mean {nearest!r}?" if nearest else ""
        yield f"warning: no {kind} {name!r} is known here{hint}"
