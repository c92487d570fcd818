"""What handlers take while they run: job.take("sender:42")."""

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from random import random
from typing import TYPE_CHECKING, NamedTuple

from mayfly.engine import Database
from mayfly.errors import TakeInTransaction, UnknownLimit
from mayfly.limits.holdings import Holdings
from mayfly.limits.limit import AT_ONCE, Need, Wish, strictest
from mayfly.limits.store import Holder
from mayfly.outcome import Snooze

if TYPE_CHECKING:
    from mayfly.job import Job
    from mayfly.registry import Handler


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


def open_takings(handlers: Mapping[str, "Handler"], worker_id: str, lease_until: datetime) -> "Takings":
    return Takings(handlers, Holdings(Holder(worker_id, lease_until)))


class Takings:
    """Those of one runner's jobs."""

    def __init__(self, handlers: Mapping[str, "Handler"], holdings: Holdings) -> None:
        self._handlers = handlers
        self.holdings = holdings
        self._of_job: defaultdict[int, list[Wish]] = defaultdict(list)

    def take(self, database: Database, job: "Job", key: str) -> Grant:
        wish = self._wish(job, key)
        if job.lifeline.in_transaction:
            raise TakeInTransaction
        [denial] = self.holdings.take(database, [wish])
        if denial is None:
            if any(need.limit.span == AT_ONCE for need in wish):
                self._of_job[job.id].append(wish)
            return Grant(key)
        now = database.clock.now()
        turn = denial.turn(now, 0, random())  # noqa: S311 - spreads rivals
        return Grant(key, turn, denial.reason(turn, now))

    def _wish(self, job: "Job", key: str) -> Wish:
        """By what is declared for taking, else by what the job had to have before it began."""
        handler = self._handlers[job.type]
        for limits in (handler.takes, handler.limits):
            fitting = strictest(Need(key, each) for each in limits if isinstance(key, str) and each.fits(key))
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
