"""What `mayfly schedules` shows: each schedule with its last and its next runs, in its zone and in UTC."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from mayfly.admin.audit import Actor, AuditEntry
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.errors import ScheduleUnfinished, UnknownName
from mayfly.queue.insert import JobValidator, NewJob, insert_job, insert_jobs
from mayfly.schedules import fire
from mayfly.schedules.cron import next_due
from mayfly.schedules.files import Schedules, read_schedules
from mayfly.schedules.fire import KnownSchedule, new_job
from mayfly.schedules.next_due import schedule_files
from mayfly.schedules.parse import ScheduleEntry
from mayfly.settings import Settings

NEXT_SHOWN = 5


@dataclass(frozen=True)
class ScheduleView:
    entry: ScheduleEntry
    known: KnownSchedule | None
    now: datetime

    @property
    def last(self) -> datetime | None:
        return self.known.last_due_at if self.known else None

    @property
    def next(self) -> list[datetime]:
        return next_due(self.entry.expression, self.entry.zone, self.now, NEXT_SHOWN)

    @property
    def pause(self) -> KnownSchedule | None:
        return self.known if self.known and self.known.is_paused(self.now) else None


def schedule_view(
    entries: Sequence[ScheduleEntry], known: Mapping[str, KnownSchedule], now: datetime
) -> list[ScheduleView]:
    return [ScheduleView(each, known.get(each.name), now) for each in entries]


def facts(each: ScheduleView) -> dict[str, Any]:
    entry, pause = each.entry, each.pause
    return {
        "name": entry.name,
        "rule": entry.expression,
        "tz": entry.tz,
        "runs": entry.what,
        "lane": entry.lane,
        "where": entry.where,
        "paused": pause and {
            "since": _both(entry, pause.paused_at),
            "until": _both(entry, pause.paused_until),
            "by": pause.paused_by,
            "reason": pause.pause_reason,
        },
        "last": _both(entry, each.last),
        "next": [_both(entry, at) for at in each.next],
    }  # fmt: skip


def schedules_text(each: ScheduleView) -> str:
    entry, pause = each.entry, each.pause
    lines = [f"{entry.name}  {entry.expression}  {entry.tz}  {entry.what}  ({entry.where})"]
    if pause is not None:
        until = f" until {_shown(entry, pause.paused_until)}" if pause.paused_until else ""
        reason = f": {pause.pause_reason}" if pause.pause_reason else ""
        lines.append(f"  paused by {pause.paused_by}{until}{reason}")
    lines.append(f"  last  {_shown(entry, each.last) if each.last else 'never'}")
    lines += [f"  {'next' if number == 0 else '    '}  {_shown(entry, at)}" for number, at in enumerate(each.next)]
    return "\n".join(lines)


def _both(entry: ScheduleEntry, at: datetime | None) -> dict[str, str] | None:
    if at is None:
        return None
    local, utc = at.astimezone(entry.zone), at.astimezone(UTC)
    return {"local": local.isoformat(timespec="seconds"), "utc": utc.isoformat(timespec="seconds")}


def _shown(entry: ScheduleEntry, at: datetime | None) -> str:
    """The zone's own time first; UTC behind it, with its date where that is another."""
    if at is None:
        return "-"
    local, utc = at.astimezone(entry.zone), at.astimezone(UTC)
    if local.utcoffset() == utc.utcoffset():
        return f"{utc:%a %Y-%m-%d %H:%M} UTC"
    other = f"{utc:%H:%M}" if local.date() == utc.date() else f"{utc:%Y-%m-%d %H:%M}"
    return f"{local:%a %Y-%m-%d %H:%M %Z} ({other} UTC)"


def load_schedules(settings: Settings) -> Schedules:
    """Those of this host's files."""
    return read_schedules(schedule_files(settings), settings.home, settings.payload_limit)


def find_schedule(settings: Settings, name: str) -> ScheduleEntry:
    found = load_schedules(settings)
    entry = found.get(name)
    if entry is None:
        raise UnknownName("schedule", name, "in the files of SCHEDULE_FILES", [each.name for each in found.entries])
    return entry


def pause_schedule(
    database: Database, entry: ScheduleEntry, actor: Actor, until: datetime | None = None, reason: str | None = None
) -> None:
    """It fires nothing, on all hosts. What is due meanwhile is not made up for."""
    now = database.clock.now()

    def work(connection: Connection) -> None:
        fire.pause(connection, entry, now, until, actor.name, reason)
        AuditEntry(actor, "pause schedule", entry.name, now, reason).note(connection)

    database.run(work)


def resume_schedule(database: Database, name: str, actor: Actor) -> bool:
    """Whether it was paused. It fires again from its next due time on."""
    now = database.clock.now()

    def work(connection: Connection) -> bool:
        was_paused = fire.resume(connection, name, now)
        if was_paused:
            AuditEntry(actor, "resume schedule", name, now).note(connection)
        return was_paused

    return database.run(work)


def job_of_now(settings: Settings, entry: ScheduleEntry, now: datetime) -> NewJob:
    """What `run_schedule` enqueues; raises where it would."""
    return new_job(JobValidator.from_settings(settings, lambda: now), replace(entry, jitter=0), now)


def run_schedule(database: Database, settings: Settings, entry: ScheduleEntry, actor: Actor) -> int:
    """Enqueue a job at once, paused or not, and give its id; the due times stay as they are."""
    now = database.clock.now()
    new = job_of_now(settings, entry, now)

    def work(connection: Connection) -> int:
        inserted = insert_jobs(connection, [new])
        AuditEntry(actor, "run schedule", entry.name, now).add(connection, inserted)
        return inserted

    if not database.run(work) and entry.overlap == "skip":
        raise ScheduleUnfinished(entry.name)
    return database.run(lambda connection: insert_job(connection, new))  # finds it by its key
