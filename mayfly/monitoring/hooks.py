"""Hooks of an application: the functions of HOOKS_BEFORE, HOOKS_AFTER and HOOKS_ON_DEAD.

The first two are called by the runner. An on_dead hook is called by a separate job: a runner that has crashed cannot
call it, and the dispatcher, which settles the job then, never imports an application's code. That job is enqueued
before the dead job is settled, so a crash between the two does not lose it.
"""

import importlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from mayfly import json_text
from mayfly.db.database import Database
from mayfly.errors import HookUnusable
from mayfly.format import nearest
from mayfly.job import Job
from mayfly.queue.claim import JOB_COLUMNS, job_from_row
from mayfly.queue.insert import NewJob, insert_job
from mayfly.queue.outcome import Cancel, Outcome, OutcomeKind, Snooze
from mayfly.queue.rescue import Judge
from mayfly.registry import ON_DEAD_LANE, ON_DEAD_TYPE, Handler
from mayfly.schema.tables import DEAD, HIGH, KEY_LENGTH, PROCESSING
from mayfly.settings import Settings

BEFORE, AFTER, ON_DEAD = "HOOKS_BEFORE", "HOOKS_AFTER", "HOOKS_ON_DEAD"
HOOK_ARGUMENTS = {BEFORE: ("job",), AFTER: ("job", "outcome"), ON_DEAD: ("job", "outcome")}
MAX_ATTEMPTS = 20  # of an on_dead job: about nine hours with the default backoff
UNSETTLED_RETRY_SECONDS = 2.0

DEAD_JOB = f"SELECT status, last_error, {JOB_COLUMNS} FROM mayfly_jobs WHERE id = :id"

Announce = Callable[[Job], None]


@dataclass(frozen=True)
class Hook:
    name: str  # module:function
    function: Callable[..., Any]


def find_hooks(settings: Settings, *variables: str) -> Iterator[tuple[str, Hook | HookUnusable]]:
    """All hooks of these settings. Load the handlers first: that makes MAYFLY_HOME importable."""
    for variable in variables:
        for name in getattr(settings, variable.lower()):
            try:
                yield variable, find_hook(variable, name)
            except HookUnusable as error:
                yield variable, error


def find_hook(variable: str, name: str) -> Hook:
    """Raises HookUnusable with the reason."""
    module_name, _, function_name = name.partition(":")
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # application code
        reason = f"{module_name} cannot be imported: {type(error).__name__}: {error}"
        raise HookUnusable(variable, name, reason) from error
    function = getattr(module, function_name, None)
    if not callable(function):
        similar = nearest(function_name, [each for each, found in vars(module).items() if callable(found)])
        hint = f" (did you mean {similar!r}?)" if similar else ""
        raise HookUnusable(variable, name, f"{module_name} has no function {function_name!r}{hint}")
    if inspect.iscoroutinefunction(function):
        raise HookUnusable(variable, name, "it is an `async def`; hooks must be plain functions")
    if not _accepts(function, HOOK_ARGUMENTS[variable]):
        raise HookUnusable(variable, name, f"it must take ({', '.join(HOOK_ARGUMENTS[variable])})")
    return Hook(name, function)


def _accepts(function: Callable[..., Any], arguments: tuple[str, ...]) -> bool:
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError:
        return False
    except ValueError:  # written in C, without a signature
        return True
    return True


# --- on_dead ------------------------------------------------------------------------------------------------


def announcer(settings: Settings, database: Database) -> Announce:
    """A function to call before a job is settled as dead: it enqueues one job per hook of HOOKS_ON_DEAD."""

    def announce(job: Job) -> None:
        if job.type == ON_DEAD_TYPE:  # a hook that always fails would enqueue itself forever
            return
        notices = [_on_dead_job(job, hook, database) for hook in settings.hooks_on_dead]
        database.run(lambda connection: [insert_job(connection, each) for each in notices])

    return announce


def announcing(judge: Judge, announce: Announce) -> Judge:
    """The same judge, but it announces each job that it judges dead."""

    def judge_and_announce(job: Job, held: int) -> tuple[Outcome, int | None]:
        outcome, duration_ms = judge(job, held)
        if outcome.kind is OutcomeKind.DEAD:
            announce(job)
        return outcome, duration_ms

    return judge_and_announce


def _on_dead_job(job: Job, hook: str, database: Database) -> NewJob:
    """With a unique key: announcing the same job again, after a lost lease or a crash, adds nothing."""
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


def on_dead_handler(settings: Settings) -> Handler:
    def call_hook(job: Job) -> bool:
        """Call the hook that the job names, if the settings name it too; False if the job is not dead."""
        from mayfly.client import current_app  # imports the whole admin layer, which no other job needs

        name = job.payload.get("hook")
        if name not in settings.hooks_on_dead:
            raise Cancel(f"{name!r} is not in {ON_DEAD} of this host: only those hooks are called")
        found = read_dead(current_app().database, job.payload.get("job"))
        if found is not None:
            find_hook(ON_DEAD, name).function(*found)
        return found is not None

    return Handler(ON_DEAD_TYPE, call_hook, lane=ON_DEAD_LANE, ack="each")


def read_dead(database: Database, job_id: object) -> tuple[Job, Outcome] | None:
    """The dead job and its outcome; None if it is not dead: its runner lost the lease, or it was retried."""
    row = database.read(lambda connection: connection.execute(DEAD_JOB, {"id": job_id}).first())
    if row is None:
        return None
    status, error, *rest = row
    if status == PROCESSING:
        raise Snooze(after=UNSETTLED_RETRY_SECONDS)  # announced, but not settled yet
    return (job_from_row(rest), Outcome(OutcomeKind.DEAD, error=error)) if status == DEAD else None
