"""The admission step for limits: acquire the limits of jobs before they start, snooze jobs whose key is exhausted."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING

from mayfly import log_messages
from mayfly.clock import monotonic, pause
from mayfly.fleet.runners import live_by_lane
from mayfly.job import Job
from mayfly.limits.client import JobLimits, open_job_limits
from mayfly.limits.limit import AT_ONCE, LimitRequest, limit_request, strictest
from mayfly.limits.windows import ALIGNED, Refusal
from mayfly.queue.count import has_due
from mayfly.queue.outcome import Outcome, OutcomeKind
from runner.batch import BatchReport, Reject
from runner.claims import next_claim_size
from runner.invoke import Invoker, PayloadError

if TYPE_CHECKING:
    from runner.main import Runner

CACHE_TTL = timedelta(seconds=0.25)  # how long a key without a free slot is not queried again
ACTIVE_SECONDS = 0.5  # jobs wait in the runner for a key only if one of its slots changed hands within this time
MAX_GROUP = 100
SHORT_WINDOW = timedelta(seconds=10)  # a group may take half a second: too long for a window shorter than this
MAX_WAITING = 100  # jobs that wait in the runner for slots of its own jobs; the others are snoozed
WAIT_SECONDS = 0.1
MAX_LOOKAHEAD = timedelta(seconds=2)  # a job snoozed for a slot that this runner just used is due again by then
MIN_JOBS_TO_YIELD = 10  # fewer do not slow down other lanes
YIELD_FACTOR = 9  # pause 9 times as long as snoozing took: such a lane uses a tenth of one runner's time
MAX_YIELD_SECONDS = 2.0

FreeSlots = Callable[[Job], int]  # how many more jobs of its type could start now
Refuse = Callable[[Job, "ExhaustedKey"], object]
Requests = list[tuple[Job, LimitRequest]]


def install(runner: "Runner") -> None:
    assigned = runner.assignment
    runner.job_limits = open_job_limits(runner.registry.handlers, assigned.worker_id, assigned.lease_until)
    limits = runner.limit_admission = LimitAdmission(runner.invoker, runner.job_limits)
    runner.admission.append(limits)
    runner.idle_steps.append(lambda: limits.wait_for_slots(runner.assignment.lane))
    runner.after_batch.append(lambda batch, report, seconds: limits.after_batch(runner, batch, report, seconds))


def yield_seconds(seconds: float, runners: int) -> float:
    """How long to pause after a claim of which no job could run, so that all runners of the lane yield to others."""
    return min(YIELD_FACTOR * seconds * runners, MAX_YIELD_SECONDS)


@dataclass
class ExhaustedKey:
    """A key that is known to be exhausted, and the number of jobs that were snoozed for it."""

    refusal: Refusal
    at: datetime
    jitter: float
    until: datetime  # when it may be queried again
    snoozed: int = 0

    @property
    def is_slot(self) -> bool:
        """A slot is free when any job ends; a window opens at a known time."""
        return self.refusal.opens_at is None

    def snooze(self) -> Outcome:
        retry_at = self.refusal.retry_at(self.at, self.snoozed, self.jitter)
        self.snoozed += 1
        waiting_for = self.refusal.reason(retry_at, self.at)
        return Outcome(OutcomeKind.SNOOZED, run_at=retry_at, keeps_attempt=True, waiting_for=waiting_for)


class ExhaustedKeys:
    """A cache, so that a million jobs of an exhausted key are snoozed without a query for each."""

    def __init__(self) -> None:
        self._keys: dict[tuple[str, str], ExhaustedKey] = {}
        self.moved_at: dict[str, float] = {}  # when concurrent jobs last acquired or released a slot of a key

    def is_active(self, key: str, now: float) -> bool:
        return now < self.moved_at.get(key, 0.0) + ACTIVE_SECONDS

    def find(self, request: LimitRequest, now: datetime) -> ExhaustedKey | None:
        for each in request:
            known = self._keys.get(each.row_key)
            if known is not None and known.refusal.limit_key == each and now < known.until:
                return known
        return None

    def add(self, refusal: Refusal, now: datetime, random: Callable[[], float]) -> ExhaustedKey:
        """A window is exhausted until the next one opens; a slot may be released at any time."""
        row_key = refusal.limit_key.row_key
        known = self._keys.get(row_key)
        if known is None or known.refusal != refusal:
            known = self._keys[row_key] = ExhaustedKey(refusal, at=now, until=now, jitter=random())
        if now >= known.until:
            known.at, known.until = now, refusal.opens_at or now + CACHE_TTL
        return known

    def expire_slots(self, request: LimitRequest) -> None:
        """A job of this runner has released these slots."""
        for each in request:
            known = self._keys.get(each.row_key)
            if known is not None and known.is_slot:
                known.until = known.at

    def remove(self, request: LimitRequest) -> None:
        for each in request:
            self._keys.pop(each.row_key, None)


class LimitAdmission:
    """The limits of one runner. Types without limits acquire nothing."""

    def __init__(self, invoker: Invoker, limits: JobLimits) -> None:
        self._invoker, self._database, self._guard = invoker, invoker.database, invoker.guard
        self._limited = invoker.registry.limited
        self._limits, self._ledger = limits, limits.ledger
        self._exhausted = ExhaustedKeys()
        self._acquired: dict[int, LimitRequest] = {}  # of concurrent jobs, by id
        self._group_size = 1
        self._used_slots = False  # by a job of the running batch
        self._last_used_slots = False  # by a job of the last batch

    # --- one job after the other --------------------------------------------------------------------------

    def admit(self, jobs: Iterable[Job], reject: Reject) -> Iterator[Job]:
        """The jobs that may run. When time is up, all remaining jobs are yielded unchecked.

        Limits are acquired for groups of about half a second of work, so that they are used soon.
        """
        rest = iter(jobs)
        while self._guard.may_start and (job := next(rest, None)) is not None:
            if job.type not in self._limited:  # taken just before it starts: until then it can be dropped
                yield job
                self._limits.release(self._database, job)
                continue
            group, rest = self._next_group(chain([job], rest), reject)
            started = monotonic()
            for each in self._admit_group(group, reject):
                yield each
                self._limits.release(self._database, each)
            if group:
                size = next_claim_size(self._group_size, len(group), monotonic() - started)
                self._group_size = min(MAX_GROUP, size)
        self._ledger.flush(self._database)
        yield from rest

    def _next_group(self, rest: Iterator[Job], reject: Reject) -> tuple[Requests, Iterator[Job]]:
        """The next jobs with limits, and the remaining jobs. Jobs whose key is known to be exhausted are snoozed.

        A job with a short window is a group of its own, so that its unit is acquired in the window that uses it.
        """
        group: Requests = []
        for job in rest:
            if job.type not in self._limited:
                return group, chain([job], rest)
            request = self._request(job, reject, lambda job, exhausted: reject(job, exhausted.snooze()))
            if request is None:
                continue
            if group and has_short_window(request):
                return group, chain([job], rest)
            group.append((job, request))
            if len(group) >= self._group_size or has_short_window(request):
                break
        return group, rest

    def _admit_group(self, group: Requests, reject: Reject) -> Iterator[Job]:
        granted, refused = self._acquire(group, sequential=True)
        for job, exhausted in refused:
            reject(job, exhausted.snooze())
        yield from (job for job, _request in granted)
        self._ledger.release([strictest(key for _job, request in granted for key in request)])

    # --- concurrent jobs ----------------------------------------------------------------------------------

    def admit_concurrent(
        self, jobs: Sequence[Job], free_slots: FreeSlots, reject: Reject
    ) -> tuple[list[Job], list[Job], list[Job]]:
        """Jobs that may start, jobs that were not checked yet, and jobs that wait for the slot of a running job.

        Acquires limits only for jobs that can start now. While the slots of a key change hands, jobs wait here.
        """
        waiting: list[Job] = []

        def refuse(job: Job, exhausted: ExhaustedKey) -> None:
            is_active = exhausted.is_slot and self._exhausted.is_active(exhausted.refusal.limit_key.key, monotonic())
            if is_active and len(waiting) < MAX_WAITING:
                waiting.append(job)
            else:
                reject(job, exhausted.snooze())

        ready = [job for job in jobs if job.id in self._acquired]
        later = [job for job in jobs if job.id not in self._acquired]
        try_more = True
        while try_more:  # a refused job leaves room for a later one
            group, later = self._startable(later, Counter(job.type for job in ready), free_slots, reject, refuse)
            granted, refused = self._acquire(group, sequential=False)
            self._note_acquired(granted)
            for job, exhausted in refused:
                refuse(job, exhausted)
            ready += (job for job, _request in granted)
            try_more = bool(later and refused)
        self._ledger.flush(self._database)
        return ready, later, waiting

    def _startable(
        self, jobs: Sequence[Job], starting: Counter[str], free_slots: FreeSlots, reject: Reject, refuse: Refuse
    ) -> tuple[Requests, list[Job]]:
        """The first jobs that could start now, with their requests, and the remaining jobs."""
        group: Requests = []
        later: list[Job] = []
        for job in jobs:
            if free_slots(job) <= starting[job.type]:
                later.append(job)
            elif (request := self._request(job, reject, refuse)) is not None:
                starting[job.type] += 1
                group.append((job, request))
        return group, later

    def _note_acquired(self, granted: Requests) -> None:
        for job, request in granted:
            self._acquired[job.id] = request
            self._exhausted.moved_at |= dict.fromkeys(slot_keys(request), monotonic())

    def release(self, jobs: Iterable[Job]) -> None:
        """Concurrent jobs have ended, or will not start."""
        for job in jobs:
            request = self._acquired.pop(job.id, ())
            self._ledger.release([request])
            self._exhausted.expire_slots(request)
            for key in slot_keys(request):
                self._exhausted.moved_at.pop(key, None)
                if self._ledger.uses(key):
                    self._exhausted.moved_at[key] = monotonic()
            self._limits.mark_ended(job)

    def _request(self, job: Job, reject: Reject, refuse: Refuse) -> LimitRequest | None:
        """The limits that a job must acquire; None if it was rejected or refused."""
        if job.type not in self._limited:
            return ()
        handler = self._invoker.registry.handlers[job.type]
        try:
            request = limit_request(handler.limits, job.payload)
        except ValueError as error:
            invalid = PayloadError(f"the payload does not match {handler.where}: {error}")
            reject(job, self._invoker.controlled(handler, job, invalid).outcome)
            return None
        exhausted = self._exhausted.find(request, self._database.clock.now())
        if exhausted is not None:
            refuse(job, exhausted)
            return None
        return request

    def _acquire(self, group: Requests, sequential: bool) -> tuple[Requests, list[tuple[Job, ExhaustedKey]]]:
        if not any(request for _job, request in group):
            return list(group), []
        refusals = self._ledger.acquire(self._database, [request for _job, request in group], sequential)
        granted = [each for each, refusal in zip(group, refusals, strict=True) if refusal is None]
        for _job, request in granted:
            self._exhausted.remove(request)
            self._used_slots |= any(slot_keys(request))
        refused = [
            (job, self._exhausted.add(refusal, self._database.clock.now(), self._invoker.random))
            for (job, _request), refusal in zip(group, refusals, strict=True)
            if refusal is not None
        ]
        return granted, refused

    def after_batch(self, runner: "Runner", batch: Sequence[Job], report: BatchReport, seconds: float) -> None:
        """If all jobs of a batch were snoozed, pause in favour of runners of other lanes, if there are any."""
        self._last_used_slots, self._used_slots = self._used_slots, False
        if report.snoozed.total() != len(batch):
            return
        runner.buffer.flush()  # write outcomes before the pause
        if len(batch) < MIN_JOBS_TO_YIELD:
            return
        live = self._database.read(live_by_lane)
        ours = live.pop(runner.assignment.lane, 1)
        if live:
            rest = yield_seconds(seconds, ours)
            runner.log.write(log_messages.yielded_to_other_lanes(len(batch), rest))
            pause(rest)

    def wait_for_slots(self, lane: str) -> bool:
        """Waits a moment; returns whether an empty lane should be claimed again.

        Only if this runner has just used a slot: jobs that were snoozed for it are due again within seconds.
        """
        if not self._last_used_slots:
            return False
        soon = self._database.clock.now() + MAX_LOOKAHEAD
        if not self._database.read(lambda connection: has_due(connection, lane, soon)):
            return False
        pause(WAIT_SECONDS)
        return True


def has_short_window(request: LimitRequest) -> bool:
    return any(ALIGNED.get(each.limit.span, SHORT_WINDOW) < SHORT_WINDOW for each in request)


def slot_keys(request: LimitRequest) -> list[str]:
    return [each.key for each in request if each.limit.span == AT_ONCE]
