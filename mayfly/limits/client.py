"""Acquire and release limits for the jobs of one runner. Used by its main thread and by threads of handlers."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from random import random
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.errors import RefusedInTransaction, UnknownLimit
from mayfly.limits.limit import AT_ONCE, LimitKey, LimitRequest, strictest
from mayfly.limits.store import LimitHolder, add_missing, lock_windows, slots_of_others, write_slots, write_windows
from mayfly.limits.windows import Availability, RateWindow, Refusal
from mayfly.queue.outcome import Snooze

if TYPE_CHECKING:
    from mayfly.clock import Clock
    from mayfly.job import Job
    from mayfly.registry import Handler


UNKNOWN = -1  # slots in a row after a COMMIT whose reply was lost


class Grant(NamedTuple):
    """The result of job.take(): true if the limit was acquired, otherwise when to try again, and why not now."""

    key: str
    opens_at: datetime | None = None
    reason: str | None = None

    def __bool__(self) -> bool:
        return self.opens_at is None

    def or_snooze(self) -> None:
        if self.opens_at is not None:
            snooze = Snooze(until=self.opens_at)
            snooze.waiting_for = self.reason
            raise snooze


class JobLimits:
    """What the jobs of one runner acquire while they run, with job.take()."""

    def __init__(self, handlers: Mapping[str, "Handler"], ledger: "SlotLedger") -> None:
        self._handlers = handlers
        self.ledger = ledger
        self._of_job: defaultdict[int, list[LimitRequest]] = defaultdict(list)

    def acquire(self, database: Database, job: "Job", key: str) -> Grant:
        request = self._request(job, key)
        if job.runtime.in_transaction:
            reason = "all other jobs would wait for its key until the job is done; take before the transaction begins"
            raise RefusedInTransaction("take", reason)
        [refusal] = self.ledger.acquire(database, [request])
        if refusal is None:
            if any(each.limit.span == AT_ONCE for each in request):
                self._of_job[job.id].append(request)
            return Grant(key)
        now = database.clock.now()
        retry_at = refusal.retry_at(now, 0, random())  # noqa: S311 - spreads rivals
        return Grant(key, retry_at, refusal.reason(retry_at, now))

    def _request(self, job: "Job", key: str) -> LimitRequest:
        """By what the handler declares in `takes`, else in `limits`."""
        handler = self._handlers[job.type]
        for limits in (handler.takes, handler.limits):
            fitting = strictest(LimitKey(key, each) for each in limits if isinstance(key, str) and each.fits(key))
            if fitting:
                return fitting
        raise UnknownLimit(job.type, key, [each.template for each in (*handler.takes, *handler.limits)])

    def release(self, database: Database, job: "Job") -> None:
        """The job has ended: its slots are free for other runners."""
        if self.mark_ended(job):
            self.ledger.flush(database)

    def mark_ended(self, job: "Job") -> bool:
        """Whether it held slots; they are written by the next `flush` of the ledger."""
        requests = self._of_job.pop(job.id, None)
        if requests is None:
            return False
        self.ledger.release(requests)
        return True


def open_job_limits(handlers: Mapping[str, "Handler"], worker_id: str, lease_until: datetime) -> JobLimits:
    return JobLimits(handlers, SlotLedger(LimitHolder(worker_id, lease_until)))


class SlotLedger:
    """The slots that one runner holds: how many its jobs use, and how many its rows say."""

    def __init__(self, holder: LimitHolder) -> None:
        self._holder = holder
        self._lock = Lock()
        self._in_use: Counter[str] = Counter()  # by jobs that run, or are about to
        self._written: dict[str, int] = {}

    def acquire(
        self, database: Database, requests: Sequence[LimitRequest], sequential: bool = False
    ) -> list[Refusal | None]:
        """For each request all of its keys, or none of them and why: several requests in one short transaction."""
        keys = {each.row_key: each for request in requests for each in request}
        if not keys:
            return [None] * len(requests)
        with self._lock:
            while True:
                acquisition = _Acquisition(
                    self._holder, self._in_use, self._written, keys, requests, sequential, database.clock
                )
                self._written |= dict.fromkeys(acquisition.slot_keys, UNKNOWN)
                try:
                    refusals, available = database.run(acquisition.write)
                except _MissingRows:
                    database.run(lambda connection: add_missing(connection, keys.values(), database.clock.now()))
                else:
                    self._in_use = available.ours
                    self._note_written(acquisition.slot_keys)
                    return refusals

    def release(self, requests: Iterable[LimitRequest]) -> None:
        """Jobs have ended. Their slots are free for this runner at once, for others by the next acquire or flush."""
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


class _Acquisition:
    """One transaction: lock, read, decide, write. It may be repeated, and starts with the same values each time."""

    def __init__(
        self,
        holder: LimitHolder,
        in_use: Counter[str],
        written: Mapping[str, int],
        keys: Mapping[tuple[str, str], LimitKey],
        requests: Sequence[LimitRequest],
        sequential: bool,
        clock: "Clock",
    ) -> None:
        self._holder, self._in_use, self._clock = holder, in_use, clock
        self._requests, self._sequential = requests, sequential
        self._keys = keys
        self._written = dict(written)
        wanted = {each.key for each in keys.values() if each.limit.span == AT_ONCE}
        unused = {key for key, held in written.items() if held != in_use[key]}
        self.slot_keys = sorted(wanted | unused)

    def write(self, connection: Connection) -> tuple[list[Refusal | None], Availability]:
        before = lock_windows(connection, sorted({key for key, _span in self._keys}))
        if not self._keys.keys() <= before.keys():
            raise _MissingRows
        now = self._clock.now()  # under the lock: after a wait past the end of a window, the next one counts
        available = self._read(connection, dict(before), now)
        refusals = available.decide(self._requests, now, self._sequential)
        counted = [each for row_key, each in self._keys.items() if _has_changed(each, before[row_key], available)]
        write_windows(connection, counted, available.windows)
        ours = available.ours
        changes = {key: ours[key] for key in self.slot_keys if ours[key] != self._written.get(key, 0)}
        write_slots(connection, self._holder, changes)
        return refusals, available

    def _read(
        self, connection: Connection, windows: dict[tuple[str, str], RateWindow], now: datetime
    ) -> Availability:
        keys = sorted({key for key, span in self._keys if span == AT_ONCE})
        others = slots_of_others(connection, keys, self._holder.worker_id, now) if keys else Counter[str]()
        return Availability(windows, others, Counter(self._in_use))


def _has_changed(key: LimitKey, before: RateWindow, available: Availability) -> bool:
    """By what was acquired, by a new window, or by another declaration."""
    return before != available.windows[key.row_key] or before.most != key.limit.most
