"""Acquire and release limits for the jobs of one runner. Thread-safe: handlers may run in threads."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from random import random
from threading import Lock
from typing import TYPE_CHECKING

from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.errors import BadDeclaration, CommitUnknown, RefusedInTransaction, UnknownLimit
from mayfly.limits.limit import AT_ONCE, MAX_LIMIT, LimitKey, LimitRequest, strictest
from mayfly.limits.store import (
    LimitHolder,
    WindowUnit,
    add_missing,
    lock_windows,
    return_units,
    slots_of_others,
    write_slots,
    write_windows,
)
from mayfly.limits.windows import Availability, RateWindow, Refusal
from mayfly.queue.outcome import Snooze

if TYPE_CHECKING:
    from mayfly.clock import Clock
    from mayfly.job import Job
    from mayfly.registry import Handler


UNKNOWN = -1  # the number of slots in the database after a COMMIT whose reply was lost


@dataclass(frozen=True)
class Grant:
    """The result of job.take(): true if the limit was acquired, otherwise when to try again, and why not now."""

    key: str
    opens_at: datetime | None = None
    reason: str | None = None
    _return: "Callable[[], None] | None" = field(default=None, repr=False, compare=False)

    def __bool__(self) -> bool:
        return self.opens_at is None

    def or_snooze(self) -> None:
        if self.opens_at is not None:
            raise Snooze(until=self.opens_at, reason=self.reason)

    def release(self) -> None:
        """Return the unit, which was not used: another job may acquire it at once.

        Does nothing if it was refused, released before, or belongs to a window that is over.
        """
        if self._return is not None:
            self._return()


class JobLimits:
    """The limits that the jobs of one runner acquire with job.take() while they run."""

    def __init__(self, handlers: Mapping[str, "Handler"], ledger: "SlotLedger") -> None:
        self._handlers = handlers
        self.ledger = ledger
        self._of_job: defaultdict[int, list[LimitRequest]] = defaultdict(list)  # with slots
        self._lock = Lock()

    def acquire(self, database: Database, job: "Job", key: str, most: int | None = None) -> Grant:
        request = self._request(job, key, most)
        self._refuse_in_transaction(job, "take")
        acquired = self.ledger.acquire_one(database, request)
        if not isinstance(acquired, Refusal):
            unreleased = [acquired]  # emptied by the first release
            if any(each.limit.span == AT_ONCE for each in request):
                self._of_job[job.id].append(request)
            return Grant(key, _return=lambda: self._return(database, job, request, unreleased))
        now = database.clock.now()
        retry_at = acquired.retry_at(now, 0, random())  # noqa: S311 - spreads rivals
        return Grant(key, retry_at, acquired.reason(retry_at, now))

    def _request(self, job: "Job", key: str, most: int | None) -> LimitRequest:
        """From the limits that the handler declares in `takes`, else in `limits`."""
        handler = self._handlers[job.type]
        for limits in (handler.takes, handler.limits):
            fitting = strictest(LimitKey(key, each) for each in limits if isinstance(key, str) and each.fits(key))
            if fitting:
                return fitting if most is None else (_with_most(job, fitting, most),)
        raise UnknownLimit(job.type, key, [each.template for each in (*handler.takes, *handler.limits)])

    def _return(
        self, database: Database, job: "Job", request: LimitRequest, unreleased: list[Sequence[WindowUnit]]
    ) -> None:
        self._refuse_in_transaction(job, "take().release")
        if not unreleased:
            return
        units = unreleased.pop()
        if units:
            with suppress(CommitUnknown):  # not repeated: a unit returned twice would exceed the limit
                database.run(lambda connection: return_units(connection, units), repeatable=False)
        with self._lock:
            held = self._of_job.get(job.id, [])
            is_held = request in held  # not if the job has ended: then its slots are free already
            if is_held:
                held.remove(request)
        if is_held:
            self.ledger.release([request])
            self.ledger.flush(database)

    @staticmethod
    def _refuse_in_transaction(job: "Job", call: str) -> None:
        if job.runtime.in_transaction:
            reason = "other jobs would wait for the key until this job is done; call it before the transaction begins"
            raise RefusedInTransaction(call, reason)

    def release(self, database: Database, job: "Job") -> None:
        """The job has ended: free its slots for other runners."""
        if self.mark_ended(job):
            self.ledger.flush(database)

    def mark_ended(self, job: "Job") -> bool:
        """Returns whether it held slots; the next `flush` of the ledger writes the change."""
        with self._lock:
            requests = self._of_job.pop(job.id, None)
        if requests is None:
            return False
        self.ledger.release(requests)
        return True


def _with_most(job: "Job", fitting: LimitRequest, most: int) -> LimitKey:
    """The limit of a key with a maximum that is known only at run time; 0 refuses every job."""
    [limit_key, *others] = fitting
    call = f"job.take({limit_key.key!r}, limit={most!r}) in {job.type}"
    if others:
        raise BadDeclaration(call, "several limits have this key; declare one of them with another key")
    if type(most) is not int or not 0 <= most <= MAX_LIMIT:
        raise BadDeclaration(call, f"the limit must be an integer, 0–{MAX_LIMIT}")
    return LimitKey(limit_key.key, replace(limit_key.limit, most=most))


def open_job_limits(handlers: Mapping[str, "Handler"], worker_id: str, lease_until: datetime) -> JobLimits:
    return JobLimits(handlers, SlotLedger(LimitHolder(worker_id, lease_until)))


class SlotLedger:
    """The slots that one runner holds: those that its jobs use, and those that its rows record."""

    def __init__(self, holder: LimitHolder) -> None:
        self._holder = holder
        self._lock = Lock()
        self._in_use: Counter[str] = Counter()  # by jobs that run or are about to run
        self._written: dict[str, int] = {}

    def acquire(
        self, database: Database, requests: Sequence[LimitRequest], sequential: bool = False
    ) -> list[Refusal | None]:
        """Acquire all keys of a request or none; returns a refusal or None per request. One short transaction."""
        return self._acquire(database, requests, sequential)[0]

    def acquire_one(self, database: Database, request: LimitRequest) -> Refusal | Sequence[WindowUnit]:
        """The refusal, or the units of rates that were acquired."""
        [refusal], windows = self._acquire(database, [request])
        if refusal is not None:
            return refusal
        rates = [each for each in request if each.limit.span != AT_ONCE]
        return [WindowUnit(*each.row_key, windows[each.row_key].opens_at) for each in rates]

    def _acquire(
        self, database: Database, requests: Sequence[LimitRequest], sequential: bool = False
    ) -> tuple[list[Refusal | None], Mapping[tuple[str, str], RateWindow]]:
        """With the windows from which the units were acquired."""
        keys = {each.row_key: each for request in requests for each in request}
        if not keys:
            return [None] * len(requests), {}
        with self._lock:
            while True:
                written = dict(self._written)
                acquisition = _Acquisition(
                    self._holder, self._in_use, written, keys, requests, sequential, database.clock
                )
                self._written |= dict.fromkeys(acquisition.slot_keys, UNKNOWN)
                try:
                    refusals, available = database.run(acquisition.write)
                except _MissingRows:
                    database.run(lambda connection: add_missing(connection, keys.values(), database.clock.now()))
                else:
                    self._in_use = available.ours
                    self._note_written(acquisition.slot_keys)
                    return refusals, available.windows

    def release(self, requests: Iterable[LimitRequest]) -> None:
        """Free the slots of ended jobs: for this runner at once, for others with the next acquire or flush."""
        with self._lock:
            for request in requests:
                for each in request:
                    if each.limit.span == AT_ONCE:
                        self._in_use[each.key] = max(0, self._in_use[each.key] - 1)

    def flush(self, database: Database) -> None:
        """Write released slots, so that other runners can acquire them."""
        with self._lock:
            changes = {key: self._in_use[key] for key, held in self._written.items() if self._in_use[key] != held}
            if changes:
                self._written |= dict.fromkeys(changes, UNKNOWN)
                database.run(lambda connection: write_slots(connection, self._holder, changes))
                self._note_written(changes)

    def uses(self, key: str) -> bool:
        return self._in_use[key] > 0

    def _note_written(self, keys: Iterable[str]) -> None:
        self._written |= {key: self._in_use[key] for key in keys}
        self._written = {key: held for key, held in self._written.items() if held}


class _MissingRows(Exception):
    """Keys that were never acquired before have no rows to lock."""


@dataclass(frozen=True)
class _Acquisition:
    """One transaction: lock, read, decide, write. It may be repeated, and starts with the same values each time."""

    holder: LimitHolder
    in_use: Counter[str]
    written: Mapping[str, int]
    keys: Mapping[tuple[str, str], LimitKey]
    requests: Sequence[LimitRequest]
    sequential: bool
    clock: "Clock"

    @property
    def slot_keys(self) -> list[str]:
        """The requested keys of concurrency limits, and keys with slots to release."""
        unused = {key for key, held in self.written.items() if held != self.in_use[key]}
        return sorted(unused | {each.key for each in self.keys.values() if each.limit.span == AT_ONCE})

    def write(self, connection: Connection) -> tuple[list[Refusal | None], Availability]:
        before = lock_windows(connection, sorted({key for key, _span in self.keys}))
        if not self.keys.keys() <= before.keys():
            raise _MissingRows
        now = self.clock.now()  # after the lock was acquired: a window may have ended while waiting for it
        keys = sorted({key for key, span in self.keys if span == AT_ONCE})
        others = slots_of_others(connection, keys, self.holder.worker_id, now) if keys else Counter[str]()
        available = Availability(dict(before), others, Counter(self.in_use))
        refusals = available.decide(self.requests, now, self.sequential)
        changed = [  # units were acquired, a new window began, or the declared limit has changed
            each
            for row_key, each in self.keys.items()
            if before[row_key] != available.windows[row_key] or before[row_key].most != each.limit.most
        ]
        write_windows(connection, changed, available.windows)
        ours = available.ours
        changes = {key: ours[key] for key in self.slot_keys if ours[key] != self.written.get(key, 0)}
        write_slots(connection, self.holder, changes)
        return refusals, available
