"""enqueue(), batch(), chain() and cancel(), and the settings, database and handlers that a process has opened."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cached_property, partial
from secrets import token_hex
from threading import Lock
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar, Unpack, cast

from mayfly import json_text, log_messages
from mayfly.admin.actions import CANCEL, abandon_batch, act, open_sources
from mayfly.admin.auth import PYTHON, this_user
from mayfly.admin.filters import JobFilter
from mayfly.clock import clock_from, host_now
from mayfly.db.connection import AnyConnection, open_connection
from mayfly.db.database import Database
from mayfly.db.dialects import Unit, utc_from_driver
from mayfly.errors import BadChain, BadField, BatchClosed, BatchExists, HandlerNotImported, UnknownOption
from mayfly.job import Batch, Job, joined_batch
from mayfly.monitoring.hooks import on_dead_handler
from mayfly.queue import followups, insert
from mayfly.queue.batches import NOT_BATCHES, NewBatch, is_taken, open_batch, report, seal_batch
from mayfly.queue.followups import (
    NewChain,
    Step,
    StepLike,
    as_step,
    buffer_job,
    buffering_job,
    flattened,
    note_uncommitted,
    transaction_job,
)
from mayfly.queue.insert import ERROR, FutureJob, NewJob
from mayfly.queue.options import ENQUEUE_OPTIONS, EnqueueOptions, JobOptions, JobValidator, check_key, timedelta_of
from mayfly.queue.outcome import Seconds
from mayfly.registry import Handler, Registry, add_home_to_path, handler_modules, load_handlers
from mayfly.schedules import COMMAND
from mayfly.schema import open_database
from mayfly.schema.tables import SCHEDULED, require_version
from mayfly.settings import Settings, load_settings

if TYPE_CHECKING:
    from sqlalchemy import Connection as SqlConnection

    from mayfly.process.wakeups import WakeupSender

T = TypeVar("T")

PRODUCER_CONNECTIONS = 5
JOB_FIELDS = ENQUEUE_OPTIONS | {"type", "payload"}  # of a job as enqueue_many() takes it

_NOT_IN_HANDLER = (
    "keep or replace inside a handler, where jobs are buffered until its job is done; or enqueue in job.transaction()"
)
_CLOSED_ELSEWHERE = (
    "it was sealed or abandoned elsewhere while it was being filled; jobs enqueued since then are in its group, "
    "see `mayfly batches`, and `mayfly cancel --group` if they should not run"
)
_NO_PAYLOAD: Mapping[str, Any] = MappingProxyType({})


# --- settings, database and handlers of this process ------------------------------------------------------


class App:
    """Opens database and handlers on first use. A runner passes its own, to share them with its handlers."""

    def __init__(
        self, settings: Settings, database: Database | None = None, registry: Registry | None = None
    ) -> None:
        self.settings = settings
        self.validator = JobValidator.from_settings(settings, self.now)
        self._database = database
        self._has_verified_given = False
        self._registry = registry
        self._opening = Lock()
        self._unknown_types: set[str] = set()  # each is logged once

    @property
    def database(self) -> Database:
        with self._opening:  # one thread opens it, others wait
            if self._database is None:
                self._database = open_database(self.settings, connections=PRODUCER_CONNECTIONS)
            return self._database

    def now(self) -> datetime:
        """The database's time."""
        return self.database.clock.now()

    def verify_given(self, given: AnyConnection) -> None:
        """Check the version of the tables behind an application's own connection, once per process."""
        if not self._has_verified_given:
            require_version(given)
            self._has_verified_given = True

    @property
    def registry(self) -> Registry:
        if self._registry is None:
            self._registry = load_registry(self.settings)
        return self._registry

    @cached_property
    def _wakeups(self) -> "WakeupSender | None":
        if not self.settings.longest_linger:
            return None
        from mayfly.process.wakeups import WakeupSender  # only with LINGER

        return WakeupSender(self.settings)

    def wake_up(self, new: NewJob, job_id: int | None = None) -> None:
        """Announce a job to the process that polls its lane, after its commit: also after that of job.transaction().

        Without the id if a claim by the id could wait for the lock of an application, see `DueJobs.single`.
        """
        if self._wakeups is None or new.run_at is not None:
            return
        if (job := transaction_job()) is not None:
            note_uncommitted(job, [new])
        else:
            self._wakeups.send(new.lane, job_id if new.unique_key is None else None)

    def wake_up_all(self, new: Iterable[NewJob]) -> None:
        if self._wakeups is None:
            return
        if (job := transaction_job()) is not None:
            note_uncommitted(job, new)
        else:
            for lane in {each.lane for each in new if each.run_at is None}:
                self._wakeups.send(lane)

    def open_connection(self, given: Any) -> AnyConnection:
        """The `connection=` of the application. In a test, one to another database is refused."""
        return open_connection(given)

    def check_unknown_type(self, type_name: str, options: JobOptions) -> None:
        """For a type without a handler: lane and maximum of attempts are the defaults, the payload is not checked."""
        registry = self.registry
        if registry.failures and (options.get("lane") is None or options.get("max_attempts") is None):
            raise HandlerNotImported(type_name, registry.failures)
        if type_name not in self._unknown_types:
            self._unknown_types.add(type_name)
            from logging import getLogger  # the dispatcher starts faster without it

            reason, hint = registry.why_unknown(type_name), registry.did_you_mean(type_name)
            getLogger("mayfly").warning(log_messages.type_without_handler(reason, hint).text)


_apps: dict[int, App] = {}


def current_app() -> App:
    """One per process, shared by its threads: a forked child opens its own."""
    app = _apps.get(os.getpid())
    return _apps.setdefault(os.getpid(), App(load_settings())) if app is None else app


def use_app(app: App) -> None:
    """For a runner, whose handlers enqueue through its connections, and for tests with their own database."""
    _apps[os.getpid()] = app


class AppDatabase:
    """The database outside of a job: `read`, `write` and `now` as a Job has them."""

    @property
    def now(self) -> datetime:
        return current_app().now()

    def read(self, work: "Callable[[SqlConnection], T]") -> T:
        return current_app().database.run_sqlalchemy(work, Unit.READ)

    def write(self, work: "Callable[[SqlConnection], T]") -> T:
        return current_app().database.run_sqlalchemy(work)


def database() -> AppDatabase:
    """The database of the settings, for commands and other code that runs outside of a job."""
    return AppDatabase()


def load_registry(settings: Settings) -> Registry:
    """The handlers named in the settings, and Mayfly's own two."""
    add_home_to_path(settings)

    def command(job: Job) -> dict[str, Any]:
        from mayfly.schedules.command import run_scheduled_command  # cronsim and subprocess: few runners need them

        return run_scheduled_command(job, settings)

    own = Handler(COMMAND, command, ack="each")
    return load_handlers(handler_modules(settings)).plus(own).plus(on_dead_handler(settings))


# --- enqueue ----------------------------------------------------------------------------------------------


def enqueue(
    type: str, payload: Mapping[str, Any] | None = None, *, connection: Any = None, **options: Unpack[EnqueueOptions]
) -> int | None:
    """Enqueue one job and return its id, or the id of the job that already holds its `unique_key`.

    Options are the fields of mayfly.queue.options.EnqueueOptions; see docs/reference/python.md.

    With `connection=` the job is part of the application's own transaction: it commits or rolls back with it,
    and nothing is committed or retried here. Inside a handler the job is buffered until the handler's own job is
    done; it has no id yet, so None is returned.
    """
    given = None if connection is None else current_app().open_connection(connection)
    new = validate_job(given, type, {} if payload is None else payload, **options)
    if given is not None:
        return insert.insert_job(given, new)
    if (job := buffering_job()) is not None:
        _buffer(job, [new])
        return None
    app = current_app()
    now = None if new.unique_key is None else app.now()
    # Not repeated for on_conflict="error": if the reply to a COMMIT was lost, the holder may be this very job.
    repeatable = new.unique_key is not None and new.on_conflict != ERROR
    job_id = app.database.once(lambda own: insert.insert_job(own, new, now), repeatable=repeatable)
    app.wake_up(new, job_id)
    return job_id


def enqueue_many(jobs: Iterable[Mapping[str, Any]], *, connection: Any = None) -> int:
    """Enqueue jobs given as mappings with the arguments of `enqueue`; returns how many were inserted.

    Without `connection=` jobs are committed a thousand at a time; jobs whose `unique_key` is held are skipped. Inside
    a handler all are buffered until its job is done, and all are counted.
    """
    given = None if connection is None else current_app().open_connection(connection)
    new = _validate_all(given, jobs)
    if given is not None:
        return insert.insert_jobs(given, new)
    if (job := buffering_job()) is not None:
        return _buffer(job, list(new))
    return sum(_insert_committed(each) for each in insert.slices(new))


def _validate_all(given: AnyConnection | None, jobs: Iterable[Mapping[str, Any]]) -> Iterator[NewJob]:
    for each in jobs:
        if not isinstance(each, Mapping) or "type" not in each or not JOB_FIELDS.issuperset(each):
            raise BadField(
                "job", each, f"a mapping with a type and no other keys than {', '.join(sorted(JOB_FIELDS))}"
            )
        yield validate_job(given, **each)


def _buffer(job: Job, new: list[NewJob]) -> int:
    """Jobs that the server would refuse are refused here, in the handler, instead of when its job is settled."""
    if any(each.on_conflict == ERROR for each in new):
        raise BadField("on_conflict", ERROR, _NOT_IN_HANDLER)
    if not insert.needs_no_packet_check(new):
        current_app().database.read(lambda own: insert.refuse_beyond_packet(own, new))
    return buffer_job(job, new)


def _insert_committed(part: list[NewJob]) -> int:
    app = current_app()
    if part[0].unique_key is None:
        inserted = app.database.once(lambda own: insert.insert_slice(own, part), repeatable=False)
    else:
        now = app.now()  # in a transaction: releasing a key and taking it are two statements
        inserted = app.database.run(lambda own: insert.insert_slice(own, part, now), repeatable=False)
    app.wake_up_all(part)
    return inserted


def validate_job(
    given: AnyConnection | None, type: str, payload: object = _NO_PAYLOAD, **options: Unpack[EnqueueOptions]
) -> NewJob:
    """The job as it would be inserted on the given connection, or on one of ours."""
    if not ENQUEUE_OPTIONS.issuperset(options):
        raise UnknownOption("enqueue", next(iter(options.keys() - ENQUEUE_OPTIONS)), ENQUEUE_OPTIONS)
    app = current_app()
    if given is not None:
        app.verify_given(given)
    validator = app.validator if given is None else replace(app.validator, now=partial(now_of, given))
    handler, joined = app.registry.get(type), _joined_batch(options, given)
    new = validator.validate(type, payload, handler, **joined)
    if handler is None:
        app.check_unknown_type(type, joined)
    return new


def _joined_batch(options: EnqueueOptions, given: AnyConnection | None) -> JobOptions:
    """The group of a batch's jobs is its key; they must be committed before the batch is sealed."""
    batch, group_key = joined_batch(options.pop("batch", None)), options.get("group_key")
    if batch is not None:
        if group_key not in (None, batch.key):
            raise BadField("group_key", group_key, f"omitted in the batch {batch.key!r}, which is the group_key")
        if given is not None:
            name = type(given).__name__
            raise BadField("connection", name, f"omitted in the batch {batch.key!r}, which commits its jobs itself")
        options["group_key"] = batch.key
    return cast(JobOptions, options)


def now_of(given: AnyConnection | None) -> datetime:
    """The database's time, read on the application's own connection if given: it may be another database."""
    if given is None:
        return current_app().now()
    asked_at = host_now()
    found = given.execute(f"SELECT {given.dialect.utc_now}").scalar()
    return clock_from(utc_from_driver(found), asked_at, host_now()).now()


# --- batches and chains -----------------------------------------------------------------------------------


def batch(name: str, *, on_complete: Step | str | tuple[object, ...] | None = None) -> "OwnBatch":
    """Group the jobs enqueued in the block; `on_complete` runs once, after the last of them has ended.

    If the block raises, the batch is abandoned: its pending jobs are cancelled, and `on_complete` never runs.
    """
    if check_key("batch", name).startswith(NOT_BATCHES):
        raise BadField("batch", name, f"a name that does not begin with {' or '.join(NOT_BATCHES)}")
    return OwnBatch(name, _callback_json(name, on_complete))


class OwnBatch(Batch):
    """A batch that this process has opened and adds jobs to."""

    def __init__(self, key: str, on_complete: str | None) -> None:
        super().__init__(key)
        self.is_open = False
        self._on_complete = on_complete
        self._job: Job | None = None
        self._buffered_before = 0

    def __enter__(self) -> Self:
        """Inside a handler the whole batch is buffered, and written in the transaction that settles its job."""
        app, self._job = current_app(), buffering_job()
        self._new = NewBatch(self.key, self._on_complete, app.now())
        if self._job is not None:
            self._buffered_before = len(self._job.buffered_jobs or ())
            is_new = not app.database.read(lambda connection: is_taken(connection, self.key))
        else:
            is_new = app.database.run(lambda connection: open_batch(connection, self._new))
        if not is_new:
            raise BatchExists(self.key)
        self.is_open = True
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, traceback)
        self.is_open = False
        if self._job is not None:
            if error is None:
                buffer_job(self._job, [self._new])
            elif self._job.buffered_jobs is not None:
                del self._job.buffered_jobs[self._buffered_before :]
        elif error is not None:
            app = current_app()
            because = f"{type(error).__name__}: {error}"
            abandon_batch(app.database, self.key, because, sources=open_sources(app.settings, app.database))
        elif not seal_batch(current_app().database, self.key):
            raise BatchClosed(self.key, _CLOSED_ELSEWHERE)


def _callback_json(name: str, on_complete: object) -> str | None:
    """Validated with the payload that it will have, so that an invalid callback is refused now."""
    if on_complete is None:
        return None
    given = as_step(on_complete)
    if "batch" in given.payload:
        reason = 'without a field "batch", which is where the callback gets the batch\'s results'
        raise BadField("on_complete", given.payload, reason)
    callback = Step(given.type, {**given.payload, "batch": report(name)}, given.options)
    return json_text.encode(_future_job(callback).to_dict())


def chain(*steps: StepLike, group_key: str | None = None, connection: Any = None) -> int | None:
    """Enqueue the first step now, and each further one when its predecessor is done; returns the id of the first job.

    A step that is dead or cancelled ends the chain. Inside a handler the chain is buffered as by `enqueue`, and None
    is returned; inside a batch all of its steps are jobs of the batch.
    """
    given = None if connection is None else current_app().open_connection(connection)
    new = _new_chain([*flattened(steps)], group_key, given)
    if given is not None:
        return followups.insert_chain(given, new)
    if (job := buffering_job()) is not None:
        buffer_job(job, [new])
        return None
    app = current_app()
    job_id = app.database.run(lambda own: followups.insert_chain(own, new), repeatable=False)
    app.wake_up(new.first, job_id)
    return job_id


def _new_chain(steps: list[Step], group_key: str | None, given: AnyConnection | None) -> NewChain:
    """All steps are validated before the first is enqueued."""
    if not steps:
        raise BadChain("a chain needs at least one step")
    if isinstance(group_key, str) and group_key.startswith(SCHEDULED):
        raise BadField("group_key", group_key, f"one that does not begin with {SCHEDULED}")
    if group_key is None and joined_batch(None) is None:
        group_key = f"chain:{token_hex(8)}"  # when jobs end, only those with a group are checked for further steps
    first, *rest = [_future_job(each, given, group_key) for each in steps]
    start = first.starting_at(now_of(given)) if first.delay else first.job
    return NewChain(start, json_text.encode([each.to_dict() for each in rest]))


def _future_job(given: Step, connection: AnyConnection | None = None, group_key: str | None = None) -> FutureJob:
    """Validated now, while the producer can still correct it; inserted when the job before it is done."""
    options = given.options.copy()
    delay = options.pop("delay", None)
    new = validate_job(connection, given.type, given.payload, group_key=group_key, **options)
    return FutureJob(new, 0.0 if delay is None else timedelta_of("delay", delay).total_seconds())


# --- cancel -----------------------------------------------------------------------------------------------


class Cancelled(NamedTuple):
    """The result of cancel()."""

    ended: int = 0  # jobs that are cancelled now
    requested: int = 0  # running jobs that were asked to stop


def cancel(
    *ids: int,
    group_key: str | None = None,
    lane: str | None = None,
    type: str | None = None,
    status: str | None = None,
    older_than: Seconds | None = None,
    reason: str | None = None,
) -> Cancelled:
    """Cancel the unfinished jobs that match all given filters; returns how many ended and how many must still stop.

    Pending jobs are cancelled at once. A running handler sees the request in `job.cancelled`. If it returns anyway,
    its job is done; if the job would be retried, it is cancelled instead.
    """
    app = current_app()
    database = app.database
    before = None if older_than is None else created_before(database, older_than)
    which = JobFilter(ids or None, group_key, lane, type, status, before)
    done = act(database, CANCEL, which, this_user(PYTHON), reason, sources=open_sources(app.settings, database))
    return Cancelled(done.changed, done.requested)


def created_before(database: Database, older_than: Seconds) -> datetime:
    """The time that long ago, by the database's clock."""
    age = timedelta_of("older_than", older_than)
    if age < timedelta(0):
        raise BadField("older_than", older_than, "0 or more")
    return database.clock.now() - age
