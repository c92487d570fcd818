"""A death is told by jobs of its own, one a hook: written down before the death itself is, and run until heard.

A runner that dies over a job cannot call anybody, and the dispatcher that settles it never imports an application's
code. A job for each hook can be lost by neither, and reaches the hook whoever settled the one that is dead.
"""

from collections.abc import Callable
from typing import Any

from mayfly import json_text
from mayfly.db.database import Database
from mayfly.db.dialects import utc_from_driver
from mayfly.job import Job
from mayfly.queue.insert import NewJob, insert_job
from mayfly.queue.outcome import Cancel, Outcome, OutcomeKind, Snooze
from mayfly.queue.rescue import Judge
from mayfly.registry import ON_DEAD_LANE, ON_DEAD_TYPE, Handler
from mayfly.schema.tables import DEAD, HIGH, KEY_LENGTH, PROCESSING
from mayfly.settings import Settings

MAX_ATTEMPTS = 20  # with the usual backoff about nine hours, should whoever is to be alarmed be away
GRACE_SECONDS = 2.0

DEAD_JOB = (
    "SELECT status, last_error, id, type, lane, payload, attempts, max_attempts, claims, crashes, interruptions,"
    " suspect, run_at, group_key FROM mayfly_jobs WHERE id = :id"
)

Announce = Callable[[Job], None]


def announcer(settings: Settings, database: Database) -> Announce:
    """What to call before a death is written, where HOOKS_ON_DEAD names anybody who wants to know."""

    def announce(job: Job) -> None:
        if job.type == ON_DEAD_TYPE:  # or a hook that always fails would be told of that for ever
            return
        notices = [_on_dead_job(job, hook, database) for hook in settings.hooks_on_dead]
        database.run(lambda connection: [insert_job(connection, each) for each in notices])

    return announce


def announcing(judge: Judge, announce: Announce) -> Judge:
    """A judge whose verdicts are heard."""

    def judge_aloud(job: Job, held: int) -> tuple[Outcome, int | None]:
        outcome, duration_ms = judge(job, held)
        if outcome.kind is OutcomeKind.DEAD:
            announce(job)
        return outcome, duration_ms

    return judge_aloud


def read_dead(database: Database, job_id: object) -> tuple[Job, Outcome] | None:
    """The job and how it ended; None if it is not dead after all: its runner lost it, or somebody revived it."""
    row = database.read(lambda connection: connection.execute(DEAD_JOB, {"id": job_id}).first())
    if row is None:
        return None
    status, error, *rest = row
    if status == PROCESSING:
        raise Snooze(after=GRACE_SECONDS)  # announced, and not yet written
    return (_job(*rest), Outcome(OutcomeKind.DEAD, error=error)) if status == DEAD else None


def _on_dead_job(job: Job, hook: str, database: Database) -> NewJob:
    """Unique while it waits: who announces the same death again, after a lost lease or a crash, adds nothing."""
    key = f"{ON_DEAD_TYPE}:{job.id}:"
    return NewJob(
        type=ON_DEAD_TYPE,
        payload=json_text.encode({"job": job.id, "hook": hook}),
        lane=ON_DEAD_LANE,
        max_attempts=MAX_ATTEMPTS,
        priority=HIGH,
        run_at=database.clock.now(),
        unique_key=key + hook[-(KEY_LENGTH - len(key)) :],
    )


def _job(*columns: Any) -> Job:
    job = Job(*columns[:9])
    suspect, run_at, job.group_key = columns[9:]
    job.suspect, job.run_at = suspect == 1, utc_from_driver(run_at)
    return job


def on_dead_handler(settings: Settings) -> Handler:
    def tell(job: Job) -> bool:
        """Call the hook that the job names, if the settings name it too; whether there was a death to tell."""
        from mayfly.client import current_app  # here, as the rest: few runners ever need them
        from mayfly.monitoring.hooks import ON_DEAD, find_hook

        name = job.payload.get("hook")
        if name not in settings.hooks_on_dead:
            raise Cancel(f"{ON_DEAD} of this host does not name {name!r}: only what it names is called")
        found = read_dead(current_app().database, job.payload.get("job"))
        if found is not None:
            find_hook(ON_DEAD, name).function(*found)
        return found is not None

    return Handler(ON_DEAD_TYPE, tell, lane=ON_DEAD_LANE, ack="each")
