"""enqueue(), enqueue_many() and cancel(), and what they need of a process: settings, the database, the handlers."""

import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial
from threading import Lock
from types import MappingProxyType
from typing import Any, NamedTuple, Unpack, cast

from mayfly.admin.actions import CANCEL, act
from mayfly.admin.audit import PYTHON, this_user
from mayfly.admin.filters import JobFilter
from mayfly.bootstrap import load_registry, open_database
from mayfly.clock import clock_from, host_now
from mayfly.db.connection import AnyConnection, open_connection
from mayfly.db.database import Database
from mayfly.db.dialects import utc_from_driver
from mayfly.errors import BadField, BadJob, UnknownOption
from mayfly.job import Job, joined_batch
from mayfly.queue.followups import buffer_job, buffering_job
from mayfly.queue.insert import (
    ERROR,
    NewJob,
    insert_job,
    insert_jobs,
    insert_slice,
    needs_no_packet_check,
    refuse_beyond_packet,
    slices,
)
from mayfly.queue.options import ENQUEUE_OPTIONS, EnqueueOptions, JobOptions, JobValidator, timedelta_of
from mayfly.queue.outcome import Seconds
from mayfly.registry import Registry
from mayfly.settings import Settings, load_settings

PRODUCER_CONNECTIONS = 5
JOB_FIELDS = ENQUEUE_OPTIONS | {"type", "payload"}  # of a job as enqueue_many() takes it

_NOT_IN_HANDLER = (
    "keep or replace inside a handler, where jobs are buffered until its job is done; or enqueue in job.transaction()"
)
_NO_PAYLOAD: Mapping[str, Any] = MappingProxyType({})


# --- what a process has opened ----------------------------------------------------------------------------


class App:
    """Opened on first use; or given, where a runner shares with its handlers what it has already opened."""

    def __init__(
        self, settings: Settings, database: Database | None = None, registry: Registry | None = None
    ) -> None:
        self.settings = settings
        self.validator = JobValidator.from_settings(settings, self.now)
        self._database = database
        self._registry = registry
        self._opening = Lock()

    @property
    def database(self) -> Database:
        with self._opening:  # two threads that are first at the same time share what one of them opens
            if self._database is None:
                self._database = open_database(self.settings, connections=PRODUCER_CONNECTIONS)
            return self._database

    def now(self) -> datetime:
        """The database's time."""
        return self.database.clock.now()

    @property
    def registry(self) -> Registry:
        if self._registry is None:
            self._registry = load_registry(self.settings)
        return self._registry


_apps: dict[int, App] = {}


def current_app() -> App:
    """One per process, shared by its threads: what was opened before a fork is not used after it."""
    app = _apps.get(os.getpid())
    return _apps.setdefault(os.getpid(), App(load_settings())) if app is None else app


def use_app(app: App) -> None:
    """For a runner, whose handlers enqueue through its connections, and for tests with a database of their own."""
    _apps[os.getpid()] = app


# --- enqueue ----------------------------------------------------------------------------------------------


def enqueue(
    type: str,
    payload: Mapping[str, Any] | None = None,
    *,
    connection: Any = None,
    **options: Unpack[EnqueueOptions],
) -> int | None:
    """Enqueue one job and return its id, or the id of the job that already holds its `unique_key`.

    Options: lane, priority, max_attempts, delay, run_at, unique_key, unique, on_conflict, group_key, expires_at,
    expires_in, batch; see mayfly.queue.options and docs/enqueue.md.

    With `connection=` the job is part of the application's own transaction: it commits or rolls back with it,
    and nothing is committed or retried here. Inside a handler the job is buffered until the handler's own job is
    done, so that there is no id yet: None.
    """
    given = None if connection is None else open_connection(connection)
    new = validate_job(given, type, {} if payload is None else payload, **options)
    return _enqueue_own(new) if given is None else insert_job(given, new)


def _enqueue_own(new: NewJob) -> int | None:
    """In a transaction of its own, or together with the job whose handler this is."""
    job = buffering_job()
    if job is not None:
        _buffer(job, [new])
        return None
    now = None if new.unique_key is None else current_app().now()
    # Not repeated for on_conflict="error": if the answer to a COMMIT was lost, the holder may be this very job.
    twice = new.unique_key is not None and new.on_conflict != ERROR
    return current_app().database.once(lambda own: insert_job(own, new, now), twice=twice)


def enqueue_many(jobs: Iterable[Mapping[str, Any]], *, connection: Any = None) -> int:
    """Enqueue jobs given as mappings with the arguments of `enqueue`; returns how many were inserted.

    Without `connection=` each thousand is committed by itself; jobs whose `unique_key` is held are skipped. Inside a
    handler all are buffered until its job is done, and all are counted.
    """
    given = None if connection is None else open_connection(connection)
    new = _validate_all(given, jobs)
    if given is not None:
        return insert_jobs(given, new)
    job = buffering_job()
    if job is not None:
        return _buffer(job, list(new))
    return sum(_insert_committed(each) for each in slices(new))


def _validate_all(given: AnyConnection | None, jobs: Iterable[Mapping[str, Any]]) -> Iterator[NewJob]:
    for each in jobs:
        if not isinstance(each, Mapping) or "type" not in each or not JOB_FIELDS.issuperset(each):
            raise BadJob(each, sorted(JOB_FIELDS))
        yield validate_job(given, **each)


def _buffer(job: Job, new: list[NewJob]) -> int:
    """Jobs that the server would refuse are refused now, in the handler, and not when its job is settled."""
    if any(each.on_conflict == ERROR for each in new):
        raise BadField("on_conflict", ERROR, _NOT_IN_HANDLER)
    if not needs_no_packet_check(new):
        current_app().database.read(lambda own: refuse_beyond_packet(own, new))
    return buffer_job(job, new)


def _insert_committed(part: list[NewJob]) -> int:
    database = current_app().database
    if part[0].unique_key is None:
        return database.once(lambda own: insert_slice(own, part), twice=False)
    now = current_app().now()  # and a transaction: releasing a key and taking it are two statements
    return database.run(lambda own: insert_slice(own, part, now), twice=False)


def validate_job(
    given: AnyConnection | None, type: str, payload: object = _NO_PAYLOAD, **options: Unpack[EnqueueOptions]
) -> NewJob:
    """The job as it would be inserted on the given connection, or on one of ours."""
    if not ENQUEUE_OPTIONS.issuperset(options):
        raise UnknownOption("enqueue", next(iter(options.keys() - ENQUEUE_OPTIONS)), ENQUEUE_OPTIONS)
    handler = current_app().registry.get(type)
    return _validator(given).validate(type, payload, handler, **_joined_batch(options, given))


def _validator(given: AnyConnection | None) -> JobValidator:
    own = current_app().validator
    if given is None:
        return own
    return JobValidator(own.payload_limit, own.max_attempts, partial(now_of, given), own.max_unique)


def _joined_batch(options: EnqueueOptions, given: AnyConnection | None) -> JobOptions:
    """The jobs of a batch have its key as their group, and are committed before it is sealed."""
    batch, group_key = joined_batch(options.pop("batch", None)), options.get("group_key")
    if batch is not None:
        if group_key not in (None, batch.key):
            raise BadField("group_key", group_key, f"left out in the batch {batch.key!r}, which is its jobs' group")
        if given is not None:
            name = type(given).__name__
            raise BadField("connection", name, f"left out in the batch {batch.key!r}, which commits its own jobs")
        options["group_key"] = batch.key
    return cast(JobOptions, options)


def now_of(given: AnyConnection | None) -> datetime:
    """The database's time, read on the application's own connection if there is one: it may be another database."""
    if given is None:
        return current_app().now()
    asked_at = host_now()
    found = given.execute(f"SELECT {given.dialect.utc_now}").scalar()
    return clock_from(utc_from_driver(found), asked_at, host_now()).now()


# --- cancel -----------------------------------------------------------------------------------------------


class Cancelled(NamedTuple):
    """Jobs that ended at once, and running jobs that were asked to stop (`told`)."""

    ended: int = 0
    told: int = 0


def cancel(
    *ids: int,
    group_key: str | None = None,
    lane: str | None = None,
    type: str | None = None,
    status: str | None = None,
    older_than: Seconds | None = None,
    reason: str | None = None,
) -> Cancelled:
    """Cancel the unfinished jobs that match all given filters; returns how many ended and how many were asked to end.

    Pending jobs are cancelled at once. A running handler sees the request by `job.cancelled`; if it returns anyway
    its job is done, and if the job would be retried it is cancelled instead.
    """
    database = current_app().database
    before = None if older_than is None else created_before(database, older_than)
    which = JobFilter(ids or None, group_key, lane, type, status, before)
    done = act(database, CANCEL, which, this_user(PYTHON), reason)
    return Cancelled(done.changed, done.requested)


def created_before(database: Database, older_than: Seconds) -> datetime:
    """By the database's clock."""
    age = timedelta_of("older_than", older_than)
    if age < timedelta(0):
        raise BadField("older_than", older_than, "no less than 0")
    return database.clock.now() - age
