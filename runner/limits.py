"""What a runner knows of limited keys without asking: which are used up, and which its own jobs keep moving."""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from mayfly.clock import monotonic, pause
from mayfly.job import Job
from mayfly.limits.client import JobLimits
from mayfly.limits.limit import AT_ONCE, LimitRequest, limit_request, strictest
from mayfly.limits.windows import ALIGNED, Refusal
from mayfly.queue.count import has_due
from mayfly.queue.outcome import Outcome, OutcomeKind
from runner.claims import next_claim
from runner.invoke import Invoker, JobResult, PayloadError

CACHE_TTL = timedelta(seconds=0.25)  # how long a key whose slots are all in use is not asked for again
FLOW_SECONDS = 0.5  # as much work as a runner holds: a key that stands still for longer is not waited for


@dataclass
class Closed:
    """A key that is known to be used up, and those that were put off for it."""

    denial: Refusal
    at: datetime
    jitter: float
    until: datetime  # not asked for again before
    put_off: int = 0

    @property
    def key(self) -> str:
        return self.denial.need.key

    @property
    def is_of_slots(self) -> bool:
        """Free again when a job ends, whoever's that is; a window is not until its time has come."""
        return self.denial.opens_at is None

    def next_turn(self) -> Outcome:
        turn = self.denial.turn(self.at, self.put_off, self.jitter)
        self.put_off += 1
        waiting_for = self.denial.reason(turn, self.at)
        return Outcome(OutcomeKind.SNOOZED, run_at=turn, keeps_attempt=True, waiting_for=waiting_for)


class ClosedKeys:
    """By their place in the table."""

    def __init__(self) -> None:
        self._closed: dict[tuple[str, str], Closed] = {}

    def find(self, wish: LimitRequest, now: datetime) -> Closed | None:
        """What is known to stand in the way of that."""
        for need in wish:
            closed = self._closed.get(need.place)
            if closed is not None and closed.denial.need == need and now < closed.until:
                return closed
        return None

    def close(self, denial: Refusal, now: datetime, dice: Callable[[], float]) -> Closed:
        """A window that is used up stays so until the next one opens; of slots nobody knows."""
        known = self._closed.get(denial.need.place)
        is_same = known is not None and known.denial == denial
        if known is not None and is_same and now < known.until:
            return known
        put_off = known.put_off if known is not None and is_same else 0
        closed = Closed(denial, now, dice(), denial.opens_at or now + CACHE_TTL, put_off)
        self._closed[denial.need.place] = closed
        return closed

    def ask_again(self, wish: LimitRequest) -> None:
        """A job of ours that had this has ended."""
        for need in wish:
            closed = self._closed.get(need.place)
            if closed is not None and closed.is_of_slots:
                closed.until = closed.at

    def open(self, wish: LimitRequest) -> None:
        for need in wish:
            self._closed.pop(need.place, None)


class Flow:
    """When a slot of each key was last taken or put down, of those keys alone that our own jobs use."""

    def __init__(self) -> None:
        self._moved_at: dict[str, float] = {}

    def note(self, keys: Iterable[str], now: float) -> None:
        self._moved_at |= dict.fromkeys(keys, now)

    def forget(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._moved_at.pop(key, None)

    def goes_on(self, key: str, now: float) -> bool:
        return now < self._moved_at.get(key, 0.0) + FLOW_SECONDS


MAX_GROUP = 100
SHORT_WINDOW = timedelta(seconds=10)  # a group may take half a second: too much of a window that is shorter than this
MAX_WAITING = 100  # jobs in hand for slots that ours will free; those beyond are put off
WAIT_SECONDS = 0.1
MAX_LOOKAHEAD = timedelta(seconds=2)  # who was put off for a key that this runner has just used is due again by then

Conclude = Callable[[Job, JobResult], object]
Refuse = Callable[[Job, Closed], object]
RoomFor = Callable[[Job], int]  # how many more jobs of its type could start now


class Admitted(NamedTuple):
    """Jobs in hand: who may start, who was not asked for yet, and who waits for a slot that one of ours uses."""

    ready: list[Job]
    later: list[Job]
    waiting: list[Job]


class LimitGate:
    """One runner's. Types without limits pass it unseen."""

    def __init__(self, invoker: Invoker, takings: JobLimits) -> None:
        self._invoker, self._database, self._guard = invoker, invoker.database, invoker.guard
        self._limited = invoker.registry.limited
        self._takings, self._holdings = takings, takings.holdings
        self._closed = ClosedKeys()
        self._flow = Flow()  # of the keys that jobs beside the main thread use
        self._inside: dict[int, LimitRequest] = {}  # what jobs beside the main thread have, by their ids
        self._group = 1
        self._used_slots = False  # by a job of the last claim

    # --- one after the other ------------------------------------------------------------------------------

    def in_turn(self, batch: Iterable[Job], conclude: Conclude) -> Iterator[Job]:
        """Those that may run, each when its turn comes; the others are concluded. After the guard: all the rest.

        They are asked for in groups of about half a second of work: what is taken is what is about to be used.
        """
        rest = deque(batch)
        while self._guard.may_start and (group := self._next_group(rest, conclude)):
            started = monotonic()
            for job in self._granted_in_turn(group, conclude):
                yield job
                self._takings.give_back(self._database, job)
            self._group = min(MAX_GROUP, next_claim(self._group, len(group), monotonic() - started))
        self._holdings.release(self._database)
        yield from rest

    def _next_group(self, rest: deque[Job], conclude: Conclude) -> list[tuple[Job, LimitRequest]]:
        """Jobs whose key is known to be exhausted are snoozed on the way, a thousand per statement.

        A job with a short window is a group of its own: what is taken when the group begins is used in that window.
        """
        put_off, group = putting_off(conclude), list[tuple[Job, LimitRequest]]()
        while rest and len(group) < self._group:
            job = rest.popleft()
            wish = self._wish(job, conclude, put_off)
            if wish is None:
                continue
            if has_short_window(wish):
                if group:
                    rest.appendleft(job)
                    return group
                return [(job, wish)]
            group.append((job, wish))
        return group

    def _granted_in_turn(self, group: Sequence[tuple[Job, LimitRequest]], conclude: Conclude) -> Iterator[Job]:
        granted, denied = self._ask(group, in_turn=True)
        for job, closed in denied:
            conclude(job, JobResult(closed.next_turn()))
        yield from (job for job, _wish in granted)
        self._holdings.put_down([strictest(need for _job, wish in granted for need in wish)])

    # --- side by side -------------------------------------------------------------------------------------

    def beside(self, hand: Sequence[Job], room_for: RoomFor, conclude: Conclude) -> Admitted:
        """No more are asked for than there is room for. While a key flows, those who find it full wait in hand."""
        waiting: list[Job] = []
        put_off = putting_off(conclude)

        def refuse(job: Job, closed: Closed) -> None:
            if closed.is_of_slots and len(waiting) < MAX_WAITING and self._flow.goes_on(closed.key, monotonic()):
                waiting.append(job)
            else:
                put_off(job, closed)

        ready = [job for job in hand if job.id in self._inside]
        later = [job for job in hand if job.id not in self._inside]
        is_worth_asking = True
        while is_worth_asking:  # whoever is refused leaves room for one behind it
            group, later = self._asked(later, Counter(job.type for job in ready), room_for, conclude, refuse)
            granted, denied = self._ask(group, in_turn=False)
            self._let_in(granted)
            for job, closed in denied:
                refuse(job, closed)
            ready += (job for job, _wish in granted)
            is_worth_asking = bool(later and denied)
        return Admitted(ready, later, waiting)

    def _asked(
        self, hand: Sequence[Job], wanted: Counter[str], room_for: RoomFor, conclude: Conclude, refuse: Refuse
    ) -> tuple[list[tuple[Job, LimitRequest]], list[Job]]:
        """The first of them that there is room for, with what they need; and the others."""
        group: list[tuple[Job, LimitRequest]] = []
        later: list[Job] = []
        for job in hand:
            if room_for(job) <= wanted[job.type]:
                later.append(job)
            elif (wish := self._wish(job, conclude, refuse)) is not None:
                wanted[job.type] += 1
                group.append((job, wish))
        return group, later

    def _let_in(self, granted: Iterable[tuple[Job, LimitRequest]]) -> None:
        for job, wish in granted:
            self._inside[job.id] = wish
            self._flow.note(slot_keys(wish), monotonic())

    def ended(self, jobs: Iterable[Job]) -> None:
        """They have run, or will not. Whoever waits for what they had is asked for at once."""
        for job in jobs:
            wish = self._inside.pop(job.id, ())
            self._holdings.put_down([wish])
            self._closed.ask_again(wish)
            self._flow.note(slot_keys(wish), monotonic())
            self._flow.forget(key for key in slot_keys(wish) if not self._holdings.uses(key))
            self._takings.ended(job)

    def release(self) -> None:
        self._holdings.release(self._database)

    # --- asking -------------------------------------------------------------------------------------------

    def _wish(self, job: Job, conclude: Conclude, refuse: Refuse) -> LimitRequest | None:
        """What it needs; None where it is already clear that it can't have that."""
        if job.type not in self._limited or self._invoker.turned_away(job) is not None:
            return ()  # whoever runs it turns it away, and nothing should be taken for it
        handler = self._invoker.registry.handlers[job.type]
        try:
            wish = limit_request(handler.limits, job.payload)
        except ValueError as error:
            misfit = PayloadError(f"the payload does not fit {handler.where}: {error}")
            conclude(job, self._invoker.steered(handler, job, misfit))
            return None
        closed = self._closed.find(wish, self._database.clock.now())
        if closed is not None:
            refuse(job, closed)
            return None
        return wish

    def _ask(
        self, group: Sequence[tuple[Job, LimitRequest]], in_turn: bool
    ) -> tuple[list[tuple[Job, LimitRequest]], list[tuple[Job, Closed]]]:
        """Who is granted what he needs, and what stands in the way of the others."""
        if not any(wish for _job, wish in group):
            return list(group), []
        denials = self._holdings.take(self._database, [wish for _job, wish in group], in_turn)
        granted = [asked for asked, denial in zip(group, denials, strict=True) if denial is None]
        for _job, wish in granted:
            self._closed.open(wish)
            self._used_slots |= any(slot_keys(wish))
        denied = [
            (job, self._closed.close(denial, self._database.clock.now(), self._invoker.dice))
            for (job, _wish), denial in zip(group, denials, strict=True)
            if denial is not None
        ]
        return granted, denied

    # --- waiting ------------------------------------------------------------------------------------------

    def open(self) -> None:
        """For what was just claimed."""
        self._used_slots = False

    def await_slots(self, lane: str) -> bool:
        """Whether, in a lane that is empty just now, it is worth claiming again, after a moment.

        Only for a runner that has just used a slot, which others were put off for: they come back within seconds.
        """
        if not self._used_slots:
            return False
        soon = self._database.clock.now() + MAX_LOOKAHEAD
        if not self._database.read(lambda connection: has_due(connection, lane, soon)):
            return False
        pause(WAIT_SECONDS)
        return True


def putting_off(conclude: Conclude) -> Refuse:
    return lambda job, closed: conclude(job, JobResult(closed.next_turn()))


def has_short_window(wish: LimitRequest) -> bool:
    return any(ALIGNED.get(need.limit.span, SHORT_WINDOW) < SHORT_WINDOW for need in wish)


def slot_keys(wish: LimitRequest) -> list[str]:
    return [need.key for need in wish if need.limit.span == AT_ONCE]
