"""Run one handler on one payload, here and now; no row is written."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from math import inf
from typing import TYPE_CHECKING, Any, NoReturn, cast

from mayfly.clock import Clock, host_clock
from mayfly.connection import Connection
from mayfly.engine import Database
from mayfly.errors import NeedsTestDatabase, UnknownHandler
from mayfly.job import Job, Special
from mayfly.jobs.enqueue import Door
from mayfly.jobs.held import Held, write_held
from mayfly.outcome import Kind, Outcome
from mayfly.registry import Handler, Registry
from mayfly.schema import JOBS
from mayfly.settings import Settings
from mayfly.testing.apps import AppWithoutDatabase, any_inline_app
from mayfly.testing.process import InlineInvoker, RowlessLifeline, inline_invoker
from mayfly.testing.results import Run
from mayfly.testing.table import would_be_enqueued
from mayfly.trail import checkpoint_text
from runner.invoke import Ran

if TYPE_CHECKING:
    from sqlalchemy import Connection as Lent

JOB_ID = 1


def run_inline(
    handler: str | Callable[..., Any],
    payload: Mapping[str, Any] | None = None,
    *,
    attempt: int = 1,
    max_attempts: int | None = None,
    group_key: str | None = None,
    state: Any = None,
    slice_after: int | None = None,
    raises: bool = True,
) -> Run:
    """Run a handler, given by its type or itself, as a runner would; what would become of its job.

    With `state=` it goes on from that checkpoint, with `slice_after=3` it is ended at its third one.
    The payload is checked as by `enqueue`. What the handler raises to steer its job is the outcome; any other error
    is raised here too, unless `raises=False`: then it is an outcome like the others, and `run.error` has it. What the
    handler has enqueued is in `run.enqueued` if it is done, and in the test's database if there is one.
    """
    with any_inline_app() as app:
        registry = app.registry
        known = _find(registry, handler)
        job = _make_job(app.settings, known, payload or {}, attempt, max_attempts, group_key)
        if state is not None:
            job.special = Special(checkpoint=checkpoint_text(job.type, state))
        database = cast(Database, _NoDatabase()) if isinstance(app, AppWithoutDatabase) else app.database
        with inline_invoker(app.settings, registry, database, slice_after=slice_after) as invoker:
            outcome = _run(invoker, job, writes=not isinstance(app, AppWithoutDatabase)).outcome
            run = Run(job, outcome, invoker.errors.get(job.id), would_be_enqueued(_released(invoker, job, outcome)))
    if raises and run.error is not None:
        raise run.noted_error()
    return run


def _find(registry: Registry, wanted: str | Callable[..., Any]) -> Handler:
    if isinstance(wanted, str):
        found = registry.get(wanted)
        nearest = None if found else registry.nearest(wanted)
    else:
        found = next((each for each in registry.handlers.values() if each.function is wanted), None)
        nearest = None
    if found is None:
        raise UnknownHandler(wanted, nearest, registry.failures)
    return found


def _make_job(
    settings: Settings,
    handler: Handler,
    payload: Mapping[str, Any],
    attempt: int,
    max_attempts: int | None,
    group_key: str | None,
) -> Job:
    door = Door(settings.payload_limit, settings.max_attempts)
    new = door.admit(handler.type, payload, handler, max_attempts=max_attempts, group_key=group_key)
    return Job(
        JOB_ID, new.type, new.lane, new.payload, attempt, new.max_attempts, claims=1, group_key=new.group_key,
        ask_again_at=inf,
    )  # fmt: skip


def _run(invoker: InlineInvoker, job: Job, writes: bool) -> Ran:
    """What the handler wrote and enqueued is committed where a runner would have settled the job with it."""
    ran = invoker.run(job)
    if invoker.lifeline.takings is not None:
        invoker.lifeline.takings.give_back(invoker.database, job)
    transaction = invoker.lifeline.opened
    held = _released(invoker, job, ran.outcome) if writes else ()
    if transaction.connection is None:
        if held:
            invoker.database.run(lambda connection: write_held(connection, JOBS, held, invoker.database.clock.now()))
        return ran
    try:
        transaction.run(lambda connection: _in_place_of_settlement(connection, held))
        transaction.commit()
    except Exception as error:  # noqa: BLE001 - of SQLAlchemy, of the driver, or of ours about them
        return invoker.failed(job, error)
    return ran


def _released(invoker: InlineInvoker, job: Job, outcome: Outcome) -> Sequence[Held]:
    """What was held back until the last checkpoint; and if the job is done, until its end."""
    lifeline = invoker.lifeline
    kept = lifeline.enqueued if isinstance(lifeline, RowlessLifeline) else []
    return [*kept, *(job.held or ())] if outcome.kind is Kind.DONE else kept


def _in_place_of_settlement(connection: Connection, held: Sequence[Held]) -> None:
    connection.execute("SELECT 1")  # finds out that the handler broke its transaction
    write_held(connection, JOBS, held)


class _NoDatabase:
    """As much of one as a handler needs that uses none."""

    @property
    def clock(self) -> Clock:
        return host_clock()

    def run(self, _work: Callable[..., Any]) -> Any:
        raise NeedsTestDatabase

    def transaction(self) -> "AbstractContextManager[Lent]":
        raise NeedsTestDatabase

    def read(self, _work: Callable[..., Any]) -> NoReturn:
        raise NeedsTestDatabase
