"""Schedules of this host: last and next runs; pause, resume, run now, check."""

import os
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from mayfly import json_text
from mayfly.admin.auth import Actor, AuditEntry, audited
from mayfly.admin.filters import refuse_past
from mayfly.admin.health import Problem, ProblemKind, Severity
from mayfly.clock import host_now
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.errors import EnqueueError, ScheduleUnfinished, UnknownName
from mayfly.queue.insert import NewJob, insert_job, insert_jobs
from mayfly.queue.options import JobValidator
from mayfly.registry import Registry
from mayfly.schedules import fire
from mayfly.schedules.cron import next_due
from mayfly.schedules.files import Schedules, read_schedules
from mayfly.schedules.fire import KnownSchedule, new_job
from mayfly.schedules.next_due import schedule_files
from mayfly.schedules.parse import ScheduleEntry
from mayfly.settings import Settings

NEXT_SHOWN = 5
DEFAULT_LANE = "default"


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


def _both(entry: ScheduleEntry, at: datetime | None) -> dict[str, str] | None:
    if at is None:
        return None
    local, utc = at.astimezone(entry.zone), at.astimezone(UTC)
    return {"local": local.isoformat(timespec="seconds"), "utc": utc.isoformat(timespec="seconds")}


def load_schedules(settings: Settings) -> Schedules:
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
    """On all hosts. Due times during the pause are skipped, and not caught up."""
    now = database.clock.now()
    refuse_past(until, now)
    audit = AuditEntry(actor, "pause schedule", entry.name, now, reason)
    audited(database, audit, lambda connection: fire.pause(connection, entry, now, until, actor.name, reason))


def resume_schedule(database: Database, name: str, actor: Actor) -> bool:
    """True if it was paused. It runs again from its next due time on."""
    now = database.clock.now()
    audit = AuditEntry(actor, "resume schedule", name, now)
    return audited(database, audit, lambda connection: fire.resume(connection, name, now))


def job_of_now(settings: Settings, entry: ScheduleEntry, now: datetime) -> NewJob:
    """The job that `run_schedule` enqueues; raises the same errors."""
    return new_job(JobValidator.from_settings(settings, lambda: now), replace(entry, jitter=0), now)


def run_schedule(database: Database, settings: Settings, entry: ScheduleEntry, actor: Actor) -> int:
    """Enqueue a job now, paused or not, and return its id; its due times do not change."""
    now = database.clock.now()
    new = job_of_now(settings, entry, now)

    def work(connection: Connection) -> int:
        inserted = insert_jobs(connection, [new])
        AuditEntry(actor, "run schedule", entry.name, now).add(connection, inserted)
        return inserted

    if not database.run(work) and entry.overlap == "skip":
        raise ScheduleUnfinished(entry.name)
    return database.run(lambda connection: insert_job(connection, new))  # finds it by its key


def entry_problems(entry: ScheduleEntry, registry: Registry, settings: Settings) -> Iterator[Problem]:
    """Reasons for its jobs to fail on this host: a missing program or handler, an invalid payload, a wrong lane."""
    if entry.command is not None:
        program = shlex.split(entry.command)[0]
        path = str(settings.home / program) if "/" in program else shutil.which(program)
        if path is None or not os.access(path, os.X_OK):
            yield _problem(Severity.DEGRADED, entry, f"{program} is not executable: check its path and mode.")
        return
    handler = registry.get(entry.type)
    if handler is None:
        hint = registry.did_you_mean(entry.type)
        yield _problem(Severity.WARNING, entry, f"no handler for type {entry.type!r} was found on this host.{hint}")
        return
    try:
        validator = JobValidator.from_settings(settings, host_now)
        validator.validate(entry.type, json_text.decode(entry.payload), handler)
    except EnqueueError as error:
        yield _problem(Severity.DEGRADED, entry, str(error))
    if entry.lane == DEFAULT_LANE != handler.lane:
        text = f"its jobs go to lane {entry.lane!r}, its handler declares {handler.lane!r}: add lane={handler.lane}"
        yield _problem(Severity.WARNING, entry, text)


def _problem(severity: Severity, entry: ScheduleEntry, text: str) -> Problem:
    return Problem(ProblemKind.SCHEDULE, severity, text, entry.name)
