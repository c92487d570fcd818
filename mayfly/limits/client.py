"""What one runner has taken of limited keys. Shared by its main thread and the threads of its handlers."""

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


UNKNOWN = -1  # what a commit has written whose answer nobody heard


class _Missing(Exception):
    """Keys that nobody has taken before have no rows to lock."""


class SlotLedger:
    def __init__(self, holder: LimitHolder) -> None:
        self._holder = holder
        self._lock = Lock()
        self._in_use: Counter[str] = Counter()  # slots of jobs that run, or are about to
        self._written: dict[str, int] = {}  # what our rows say

    def take(self, database: Database, wishes: Sequence[LimitRequest], in_turn: bool = False) -> list[Refusal | None]:
        """All that each wish names, or none of it and why: for several in one short transaction."""
        needs = {need.place: need for wish in wishes for need in wish}
        if not needs:
            return [None] * len(wishes)
        with self._lock:
            while True:
                ready = _Acquisition(
                    self._holder, self._in_use, self._written, needs, wishes, in_turn, database.clock
                )
                self._written |= dict.fromkeys(ready.slot_keys, UNKNOWN)
                try:
                    denials, room = database.run(ready.write)
                except _Missing:
                    database.run(lambda connection: add_missing(connection, needs.values(), database.clock.now()))
                else:
                    self._in_use = room.ours
                    self._note_written(ready.slot_keys)
                    return denials

    def put_down(self, wishes: Iterable[LimitRequest]) -> None:
        """Jobs have ended. Their slots are free for ours at once, and for others by the next `take` or `release`."""
        with self._lock:
            for wish in wishes:
                for need in wish:
                    if need.limit.span == AT_ONCE:
                        self._in_use[need.key] = max(0, self._in_use[need.key] - 1)

    def uses(self, key: str) -> bool:
        return self._in_use[key] > 0

    def release(self, database: Database) -> None:
        """Let others have what ours use no more."""
        with self._lock:
            changes = self._changes()
            if changes:
                self._written |= dict.fromkeys(changes, UNKNOWN)
                database.run(lambda connection: write_slots(connection, self._holder, changes))
                self._note_written(changes)

    def _changes(self) -> dict[str, int]:
        return {key: self._in_use[key] for key, written in self._written.items() if self._in_use[key] != written}

    def _note_written(self, keys: Iterable[str]) -> None:
        self._written |= {key: self._in_use[key] for key in keys}
        self._written = {key: held for key, held in self._written.items() if held}


class _Acquisition:
    """One transaction: lock, look, decide, write. It may be repeated, and begins with the same values each time."""

    def __init__(
        self,
        holder: LimitHolder,
        in_use: Counter[str],
        written: Mapping[str, int],
        needs: Mapping[tuple[str, str], LimitKey],
        wishes: Sequence[LimitRequest],
        in_turn: bool,
        clock: "Clock",
    ) -> None:
        self._holder, self._in_use, self._wishes, self._in_turn, self._clock = holder, in_use, wishes, in_turn, clock
        self._needs = needs
        self._written = dict(written)
        wanted = {need.key for need in needs.values() if need.limit.span == AT_ONCE}
        idle = {key for key, held in written.items() if held != in_use[key]}
        self.slot_keys = sorted(wanted | idle)

    def write(self, connection: Connection) -> tuple[list[Refusal | None], Availability]:
        before = lock_windows(connection, sorted({key for key, _span in self._needs}))
        if not self._needs.keys() <= before.keys():
            raise _Missing
        now = self._clock.now()  # under the lock: who has waited for it past a window's end is in the next one
        room = self._room(connection, dict(before), now)
        denials = room.decide(self._wishes, now, self._in_turn)
        counted = [need for place, need in self._needs.items() if _has_changed(need, before[place], room)]
        write_windows(connection, counted, room.windows)
        changes = {key: room.ours[key] for key in self.slot_keys if room.ours[key] != self._written.get(key, 0)}
        write_slots(connection, self._holder, changes)
        return denials, room

    def _room(
        self, connection: Connection, windows: dict[tuple[str, str], RateWindow], now: datetime
    ) -> Availability:
        keys = sorted({key for key, span in self._needs if span == AT_ONCE})
        others = slots_of_others(connection, keys, self._holder.worker_id, now) if keys else Counter[str]()
        return Availability(windows, others, Counter(self._in_use))


def _has_changed(need: LimitKey, before: RateWindow, room: Availability) -> bool:
    """By what was granted, by a window that has opened, or by another declaration."""
    return before != room.windows[need.place] or before.most != need.limit.most


class Grant(NamedTuple):
    """The answer to job.take(): true if it is granted, otherwise when it is worth asking again, and why not now."""

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


def open_job_limits(handlers: Mapping[str, "Handler"], worker_id: str, lease_until: datetime) -> "JobLimits":
    return JobLimits(handlers, SlotLedger(LimitHolder(worker_id, lease_until)))


class JobLimits:
    """Those of one runner's jobs."""

    def __init__(self, handlers: Mapping[str, "Handler"], holdings: SlotLedger) -> None:
        self._handlers = handlers
        self.holdings = holdings
        self._of_job: defaultdict[int, list[LimitRequest]] = defaultdict(list)

    def take(self, database: Database, job: "Job", key: str) -> Grant:
        wish = self._wish(job, key)
        if job.lifeline.in_transaction:
            reason = "all other jobs would wait for its key until the job is done; take before the transaction begins"
            raise RefusedInTransaction("take", reason)
        [denial] = self.holdings.take(database, [wish])
        if denial is None:
            if any(need.limit.span == AT_ONCE for need in wish):
                self._of_job[job.id].append(wish)
            return Grant(key)
        now = database.clock.now()
        turn = denial.turn(now, 0, random())  # noqa: S311 - spreads rivals
        return Grant(key, turn, denial.reason(turn, now))

    def _wish(self, job: "Job", key: str) -> LimitRequest:
        """By what is declared for taking, else by what the job had to have before it began."""
        handler = self._handlers[job.type]
        for limits in (handler.takes, handler.limits):
            fitting = strictest(LimitKey(key, each) for each in limits if isinstance(key, str) and each.fits(key))
            if fitting:
                return fitting
        raise UnknownLimit(job.type, key, [each.template for each in (*handler.takes, *handler.limits)])

    def give_back(self, database: Database, job: "Job") -> None:
        """It has ended: others may have the slots that it took."""
        if self.ended(job):
            self.holdings.release(database)

    def ended(self, job: "Job") -> bool:
        """Whether it had slots, which are no longer in use."""
        wishes = self._of_job.pop(job.id, None)
        if wishes is None:
            return False
        self.holdings.put_down(wishes)
        return True
