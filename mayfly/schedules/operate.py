"""What people do to schedules: pause and resume one, run it now. Each leaves a row in the audit."""

from dataclasses import replace
from datetime import datetime
from difflib import get_close_matches

from mayfly.actor import Actor
from mayfly.connection import Connection
from mayfly.engine import Database
from mayfly.errors import ScheduleUnfinished, UnknownSchedule
from mayfly.jobs.audit import Deed
from mayfly.jobs.enqueue import Door, NewJob, insert_job, insert_jobs
from mayfly.schedules import store
from mayfly.schedules.entry import Entry
from mayfly.schedules.files import Schedules, read_schedules
from mayfly.schedules.fire import new_job
from mayfly.schedules.wake import schedule_files
from mayfly.schema import JOBS
from mayfly.settings import Settings


def load_schedules(settings: Settings) -> Schedules:
    """Those of this host's files."""
    return read_schedules(schedule_files(settings), settings.home, settings.payload_limit)


def find_schedule(settings: Settings, name: str) -> Entry:
    found = load_schedules(settings)
    entry = found.get(name)
    if entry is None:
        raise UnknownSchedule(name, next(iter(get_close_matches(name, [each.name for each in found.entries])), None))
    return entry


def pause_schedule(
    database: Database, entry: Entry, actor: Actor, until: datetime | None = None, reason: str | None = None
) -> None:
    """It fires nothing, on all hosts. What is due meanwhile is not made up for."""
    now = database.clock.now()

    def work(connection: Connection) -> None:
        store.pause(connection, entry, now, until, actor.name, reason)
        Deed(actor, "pause schedule", entry.name, now, reason).note(connection)

    database.run(work)


def resume_schedule(database: Database, name: str, actor: Actor) -> bool:
    """Whether it was paused. It fires again from its next due time on."""
    now = database.clock.now()

    def work(connection: Connection) -> bool:
        was_paused = store.resume(connection, name, now)
        if was_paused:
            Deed(actor, "resume schedule", name, now).note(connection)
        return was_paused

    return database.run(work)


def job_of_now(settings: Settings, entry: Entry, now: datetime) -> NewJob:
    """What `run_schedule` enqueues; raises where it would."""
    return new_job(Door(settings.payload_limit, settings.max_attempts), replace(entry, jitter=0), now)


def run_schedule(database: Database, settings: Settings, entry: Entry, actor: Actor) -> int:
    """Enqueue a job at once, paused or not, and give its id; the due times stay as they are."""
    now = database.clock.now()
    new = job_of_now(settings, entry, now)

    def work(connection: Connection) -> int:
        inserted = insert_jobs(connection, JOBS, [new])
        Deed(actor, "run schedule", entry.name, now).add(connection, inserted)
        return inserted

    if not database.run(work) and entry.overlap == "skip":
        raise ScheduleUnfinished(entry.name)
    return database.run(lambda connection: insert_job(connection, JOBS, new))  # finds it by its key
