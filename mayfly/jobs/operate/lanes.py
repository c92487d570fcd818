"""Hold up lanes and types, let them go on, and set at run time how many workers a lane may have."""

from datetime import datetime
from typing import NamedTuple

from mayfly.actor import Actor
from mayfly.connection import Connection
from mayfly.engine import Database
from mayfly.errors import BadField
from mayfly.jobs import pauses
from mayfly.jobs.audit import Deed
from mayfly.schema import NAME_LENGTH, JobTable
from mayfly.wording import storable

MOST_WORKERS = 1000
SET_COLUMNS = ("lane", "max_workers", "set_at", "set_by")


class Resumed(NamedTuple):
    was_paused: bool
    jobs: int = 0  # that are due again


def pause(
    database: Database,
    jobs: JobTable,
    kind: str,
    name: str,
    actor: Actor,
    until: datetime | None = None,
    reason: str | None = None,
) -> bool:
    """In place of a pause that is there already: True if there was one."""
    now = database.clock.now()
    if until is not None and until <= now:
        raise BadField("until", until.isoformat(timespec="seconds"), "a time that is still to come")
    new = pauses.Pause(_kind(kind), _name(name), now, until, actor.name, reason and storable(reason))
    deed = Deed(actor, f"pause {kind}", name, now, reason)

    def work(connection: Connection) -> bool:
        deed.note(connection)
        return pauses.pause(connection, new)

    was_paused = database.run(work)
    if was_paused and kind == pauses.TYPE:
        pauses.bring_back(database, jobs, name)  # to be put off again, until the new end
    return was_paused


def resume(database: Database, jobs: JobTable, kind: str, name: str, actor: Actor) -> Resumed:
    """What a paused type had put off is due at once."""
    now = database.clock.now()
    deed = Deed(actor, f"resume {_kind(kind)}", _name(name), now)

    def work(connection: Connection) -> bool:
        was_paused = pauses.resume(connection, kind, name, now)
        if was_paused:
            deed.note(connection)
        return was_paused

    was_paused = database.run(work)
    moved = pauses.bring_back(database, jobs, name) if kind == pauses.TYPE else 0
    return Resumed(was_paused, moved)


def set_lane(database: Database, lane: str, max_workers: int | None, actor: Actor) -> None:
    """On all hosts, until it is set anew; None lets the settings of each host hold again."""
    if max_workers is not None and not (type(max_workers) is int and 1 <= max_workers <= MOST_WORKERS):
        raise BadField("max_workers", max_workers, f"a whole number from 1 to {MOST_WORKERS}")
    now = database.clock.now()
    values = (None, None, None) if max_workers is None else (max_workers, now, actor.name)
    row = dict(zip(SET_COLUMNS, (_name(lane), *values), strict=True))
    told = "as the settings say" if max_workers is None else str(max_workers)
    deed = Deed(actor, "set lane", f"{lane} max_workers={told}", now)

    def work(connection: Connection) -> None:
        connection.execute(connection.dialect.upsert("mayfly_lanes", ("lane",), SET_COLUMNS), row)
        deed.note(connection)

    database.run(work)


def _kind(given: str) -> str:
    if given not in (pauses.LANE, pauses.TYPE):
        raise BadField("kind", given, f"{pauses.LANE} or {pauses.TYPE}")
    return given


def _name(given: str) -> str:
    if not isinstance(given, str) or not 1 <= len(given) <= NAME_LENGTH or storable(given) != given:
        raise BadField("name", given, f"a text of 1 to {NAME_LENGTH} characters")
    return given
