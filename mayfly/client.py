"""What a producing process needs of Mayfly, opened on first use: settings, the database, the handlers."""

import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial
from threading import Lock
from types import MappingProxyType
from typing import Any

from mayfly import admin
from mayfly.admin import Cancelled
from mayfly.admin.audit import PYTHON, this_user
from mayfly.admin.filters import JobFilter
from mayfly.bootstrap import load_registry, open_database
from mayfly.clock import clock_from, host_now
from mayfly.db.connection import AnyConnection, open_connection
from mayfly.db.database import Database
from mayfly.db.dialects import utc_from_driver
from mayfly.errors import BadField, BadJob, ErrorTooLate
from mayfly.job import Batch, Job, joined_batch
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
from mayfly.queue.options import JobValidator, due_at, expiry, parse_duration, unique_scope
from mayfly.queue.outcome import Seconds
from mayfly.registry import Registry
from mayfly.settings import Settings, load_settings

PRODUCER_CONNECTIONS = 5


class App:
    """A process's own, or what a runner has already opened and shares with its handlers."""

    def __init__(
        self, settings: Settings, database: Database | None = None, registry: Registry | None = None
    ) -> None:
        self.settings = settings
        self.door = JobValidator(settings.payload_limit, settings.max_attempts)
        self._database = database
        self._registry = registry
        self._opening = Lock()

    @property
    def database(self) -> Database:
        with self._opening:  # two threads that come first at the same time share what one of them opens
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
    """One a process, whichever thread asks first: what was opened before a fork is not used after it."""
    app = _apps.get(os.getpid())
    return _apps.setdefault(os.getpid(), App(load_settings())) if app is None else app


def use_app(app: App) -> None:
    """A runner lets handlers enqueue through what it has opened, a test lets all enqueue into its own database."""
    _apps[os.getpid()] = app


def enqueue(
    type: str,
    payload: Mapping[str, Any] | None = None,
    *,
    lane: str | None = None,
    run_at: datetime | None = None,
    delay: Seconds | None = None,
    priority: int | None = None,
    unique_key: str | None = None,
    group_key: str | None = None,
    max_attempts: int | None = None,
    unique: str | Seconds | None = None,
    on_conflict: str | None = None,
    expires_at: datetime | None = None,
    expires_in: Seconds | None = None,
    batch: Batch | None = None,
    connection: Any = None,
) -> int | None:
    """Enqueue one job and return its id, or the id of the job that already holds its `unique_key`.

    With `connection=` the job is part of the application's own transaction: it commits or rolls back with it,
    and nothing is committed or repeated here. Inside a handler it is held back until the handler's own job is done,
    and there is no id yet: None.
    """
    given = None if connection is None else open_connection(connection)
    new = admit(
        given,
        type=type,
        payload={} if payload is None else payload,
        lane=lane,
        run_at=run_at,
        delay=delay,
        priority=priority,
        unique_key=unique_key,
        group_key=group_key,
        max_attempts=max_attempts,
        unique=unique,
        on_conflict=on_conflict,
        expires_at=expires_at,
        expires_in=expires_in,
        batch=batch,
    )
    return _enqueued(new) if given is None else insert_job(given, new)


def _enqueued(new: NewJob) -> int | None:
    """By itself at once, or with the job in whose handler we are."""
    job = buffering_job()
    if job is not None:
        _hold(job, [new])
        return None
    now = None if new.unique_key is None else current_app().now()
    # Who is to be told of a holder must not be told of a first try whose answer was lost.
    twice = new.unique_key is not None and new.on_conflict != ERROR
    return current_app().database.once(lambda own: insert_job(own, new, now), twice=twice)


def enqueue_many(jobs: Iterable[Mapping[str, Any]], *, connection: Any = None) -> int:
    """Enqueue jobs given as mappings with the arguments of `enqueue`; how many were inserted.

    Without `connection=` each thousand is committed by itself; jobs whose `unique_key` is held are left out. Inside a
    handler all are held back until its job is done, and counted as they come.
    """
    given = None if connection is None else open_connection(connection)
    admitted = _admitted(given, jobs)
    if given is not None:
        return insert_jobs(given, admitted)
    job = buffering_job()
    if job is not None:
        return _hold(job, list(admitted))
    return sum(_insert_committed(part) for part in slices(admitted))


def _admitted(given: AnyConnection | None, jobs: Iterable[Mapping[str, Any]]) -> Iterator[NewJob]:
    known = {*(enqueue.__kwdefaults__ or {}), "type", "payload"} - {"connection"}
    for each in jobs:
        try:
            yield admit(given, **each)
        except TypeError as error:  # of ours, if it is about how the job is written down
            if not isinstance(each, Mapping) or "type" not in each or not known.issuperset(each):
                raise BadJob(each, sorted(known)) from error
            raise


def _hold(job: Job, new: list[NewJob]) -> int:
    """What the server would refuse is refused now: the handler hears of it, and not the one who settles its job."""
    if any(each.on_conflict == ERROR for each in new):
        raise ErrorTooLate
    if not needs_no_packet_check(new):
        current_app().database.read(lambda own: refuse_beyond_packet(own, new))
    return buffer_job(job, new)


def _insert_committed(part: list[NewJob]) -> int:
    database = current_app().database
    if part[0].unique_key is None:
        return database.once(lambda own: insert_slice(own, part), twice=False)
    now = current_app().now()  # and a transaction: to set a key free and to take it are two statements
    return database.run(lambda own: insert_slice(own, part, now), twice=False)


def admit(
    given: AnyConnection | None,
    type: str,
    payload: object = MappingProxyType({}),
    delay: Seconds | None = None,
    run_at: datetime | None = None,
    unique: str | Seconds | None = None,
    expires_at: datetime | None = None,
    expires_in: Seconds | None = None,
    group_key: str | None = None,
    batch: Batch | None = None,
    **options: Any,
) -> NewJob:
    """The job as it would be inserted; raises the sentence about what is wrong with it."""
    app, now = current_app(), partial(now_of, given)
    due = due_at(run_at, delay, now)
    if unique is not None:
        options["unique"] = unique_scope(unique, _remembered(app.settings), now)
    if expires_at is not None or expires_in is not None:
        options["expires_at"] = expiry(expires_at, expires_in, due, now)
    group_key = _group_of(joined_batch(batch), group_key, given)
    return app.door.admit(type, payload, app.registry.get(type), run_at=due, group_key=group_key, **options)


def _group_of(batch: Batch | None, group_key: str | None, given: AnyConnection | None) -> str | None:
    """A batch is known by its group, and must see its children before it is sealed."""
    if batch is None:
        return group_key
    if group_key not in (None, batch.key):
        raise BadField("group_key", group_key, f"left out in the batch {batch.key!r}, which is its jobs' group")
    if given is not None:
        raise BadField(
            "connection", type(given).__name__, f"left out in the batch {batch.key!r}: it commits for itself"
        )
    return batch.key


def _remembered(settings: Settings) -> timedelta:
    """How long the table remembers a finished job, however it ended."""
    kept = (settings.keep_done_days, settings.keep_cancelled_days, settings.keep_dead_days)
    return timedelta(days=min(days for days in kept if days is not None))


def now_of(given: AnyConnection | None) -> datetime:
    """The database's time. An application's own connection is asked itself: ours may not even be configured."""
    if given is None:
        return current_app().now()
    asked_at = host_now()
    found = given.execute(f"SELECT {given.dialect.utc_now}").scalar()
    return clock_from(utc_from_driver(found), asked_at, host_now()).now()


def cancel(
    *ids: int,
    group_key: str | None = None,
    lane: str | None = None,
    type: str | None = None,
    status: str | None = None,
    older_than: Seconds | None = None,
    reason: str | None = None,
) -> Cancelled:
    """Cancel the unfinished jobs that have all of what is named: how many ended, and how many run and were told.

    Those that wait are cancelled at once. One that runs sees it by `job.cancelled`; if it returns all the same it is
    done, and if it comes back for another try it is cancelled instead.
    """
    database = current_app().database
    before = None if older_than is None else created_before(database, older_than)
    which = JobFilter(ids or None, group_key, lane, type, status, before)
    return admin.cancel(database, which, this_user(PYTHON), reason)


def created_before(database: Database, older_than: Seconds) -> datetime:
    """By the database's clock: what is older was enqueued before."""
    age = parse_duration("older_than", older_than)
    if age < timedelta(0):
        raise BadField("older_than", older_than, "no less than 0")
    return database.clock.now() - age
