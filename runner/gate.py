"""The gate before limited jobs: asks for what they need just before they start, and puts off who must wait."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from mayfly.clock import monotonic, pause
from mayfly.job import Job
from mayfly.jobs.looks import has_due
from mayfly.limits.decide import Denial
from mayfly.limits.limit import AT_ONCE, Wish, strictest, wish_of
from mayfly.limits.takings import Takings
from mayfly.outcome import Kind, Outcome
from mayfly.schema import JOBS
from runner.invoke import Invoker, Misfit, Ran
from runner.pace import next_claim

LARGEST_GROUP = 100
BELIEVED = timedelta(seconds=0.25)  # how long a key whose slots are all in use is not asked for again
WAIT_SECONDS = 0.1
FORESIGHT = timedelta(seconds=2)  # who was put off for a key that this runner has just used is due again by then

Conclude = Callable[[Job, Ran], object]
RoomFor = Callable[[Job], int]  # how many more jobs of its type could start now


@dataclass
class Closed:
    """A key that is known to be used up, and those that were put off for it."""

    denial: Denial
    at: datetime
    jitter: float
    until: datetime  # not asked for again before
    put_off: int = 0

    def next_turn(self) -> Outcome:
        turn = self.denial.turn(self.at, self.put_off, self.jitter)
        self.put_off += 1
        waiting_for = self.denial.reason(turn, self.at)
        return Outcome(Kind.SNOOZED, run_at=turn, keeps_attempt=True, waiting_for=waiting_for)


class Gate:
    """One runner's. Types without limits pass it unseen."""

    def __init__(self, invoker: Invoker, takings: Takings) -> None:
        self._invoker, self._database, self._guard = invoker, invoker.database, invoker.guard
        self._limited = invoker.registry.limited
        self._takings, self._holdings = takings, takings.holdings
        self._closed: dict[tuple[str, str], Closed] = {}
        self._inside: dict[int, Wish] = {}  # what jobs beside the main thread have, by their ids
        self._group = 1
        self._used_slots = False  # by a job of the last claim

    # --- one after the other ------------------------------------------------------------------------------

    def in_turn(self, batch: Sequence[Job], conclude: Conclude) -> Iterator[Job]:
        """Those that may run, each when its turn comes; the others are concluded. After the guard: all the rest.

        They are asked for in groups of about half a second of work: what is taken is what is about to be used.
        """
        rest = iter(batch)
        while self._guard.may_start and (group := self._next_group(rest, conclude)):
            started = monotonic()
            for job in self._granted_in_turn(group, conclude):
                yield job
                self._takings.give_back(self._database, job)
            self._group = min(LARGEST_GROUP, next_claim(self._group, len(group), monotonic() - started))
        self._holdings.release(self._database)
        yield from rest

    def _next_group(self, rest: Iterator[Job], conclude: Conclude) -> list[tuple[Job, Wish]]:
        """Whoever waits for a key that is known to be closed is put off on the way: a thousand by one statement."""
        group: list[tuple[Job, Wish]] = []
        for job in rest:
            wish = self._wish(job, conclude)
            if wish is not None:
                group.append((job, wish))
            if len(group) == self._group:
                break
        return group

    def _granted_in_turn(self, group: Sequence[tuple[Job, Wish]], conclude: Conclude) -> Iterator[Job]:
        granted = self._granted(group, conclude, in_turn=True)
        yield from (job for job, _wish in granted)
        self._holdings.put_down([strictest(need for _job, wish in granted for need in wish)])

    # --- side by side -------------------------------------------------------------------------------------

    def beside(self, hand: Sequence[Job], room_for: RoomFor, conclude: Conclude) -> tuple[list[Job], list[Job]]:
        """Who may start, and who has not been asked for yet: no more are than there is room for."""
        ready = [job for job in hand if job.id in self._inside]
        later: list[Job] = []
        group: list[tuple[Job, Wish]] = []
        wanted = Counter(job.type for job in ready)
        for job in hand:
            if job.id in self._inside:
                continue
            if room_for(job) <= wanted[job.type]:
                later.append(job)
            elif (wish := self._wish(job, conclude)) is not None:
                wanted[job.type] += 1
                group.append((job, wish))
        granted = self._granted(group, conclude, in_turn=False)
        self._inside |= {job.id: wish for job, wish in granted}
        return [*ready, *(job for job, _wish in granted)], later

    def ended(self, jobs: Iterable[Job]) -> None:
        """They have run, or will not."""
        for job in jobs:
            self._holdings.put_down([self._inside.pop(job.id, ())])
            self._takings.ended(job)

    def release(self) -> None:
        self._holdings.release(self._database)

    # --- asking -------------------------------------------------------------------------------------------

    def _wish(self, job: Job, conclude: Conclude) -> Wish | None:
        """What it needs; None where it is already clear that it can't have that."""
        if job.type not in self._limited or self._invoker.turned_away(job) is not None:
            return ()  # whoever runs it turns it away, and nothing should be taken for it
        handler = self._invoker.registry.handlers[job.type]
        try:
            wish = wish_of(handler.limits, job.payload)
        except ValueError as error:
            misfit = Misfit(f"the payload does not fit {handler.where}: {error}")
            conclude(job, self._invoker.steered(handler, job, misfit))
            return None
        now = self._database.clock.now()
        for need in wish:
            closed = self._closed.get(need.place)
            if closed is not None and closed.denial.need == need and now < closed.until:
                conclude(job, Ran(closed.next_turn()))
                return None
        return wish

    def _granted(
        self, group: Sequence[tuple[Job, Wish]], conclude: Conclude, in_turn: bool
    ) -> list[tuple[Job, Wish]]:
        if not any(wish for _job, wish in group):
            return list(group)
        denials = self._holdings.take(self._database, [wish for _job, wish in group], in_turn)
        granted = [asked for asked, denial in zip(group, denials, strict=True) if denial is None]
        for _job, wish in granted:
            for need in wish:
                self._closed.pop(need.place, None)
        for (job, _wish), denial in zip(group, denials, strict=True):
            if denial is not None:
                conclude(job, Ran(self._close(denial).next_turn()))
        self._used_slots |= any(need.limit.span == AT_ONCE for _job, wish in granted for need in wish)
        return granted

    def _close(self, denial: Denial) -> Closed:
        """A window that is used up stays so until the next one opens; of slots nobody knows."""
        known, now = self._closed.get(denial.need.place), self._database.clock.now()
        is_same = known is not None and known.denial == denial
        if known is not None and is_same and now < known.until:
            return known
        put_off = known.put_off if known is not None and is_same else 0
        closed = Closed(denial, now, self._invoker.dice(), denial.opens_at or now + BELIEVED, put_off)
        self._closed[denial.need.place] = closed
        return closed

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
        soon = self._database.clock.now() + FORESIGHT
        if not self._database.read(lambda connection: has_due(connection, JOBS, lane, soon)):
            return False
        pause(WAIT_SECONDS)
        return True
