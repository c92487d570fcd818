"""How a verb is carried out: jobs are found along an index, changed in slices, and counted in its deed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from mayfly.admin.audit import AuditEntry
from mayfly.admin.filters import JobFilter, Range, StatusConditions, not_empty, position_of, ranges
from mayfly.admin.jobs import CappedCount
from mayfly.db.connection import Connection
from mayfly.db.database import Database

ROWS_PER_SLICE = 1000
MAX_MATCHING_COUNTED = 10_000
DUE_SOON = timedelta(seconds=1)  # a job that is due by then is not moved to now


@dataclass(frozen=True, eq=False)
class Verb:
    name: str
    applies_to: StatusConditions  # may use the parameters :soon and :until
    default_status: str | None = None  # where a filter names no status


class BulkResult(NamedTuple):
    """What became of the jobs that were found."""

    changed: int = 0
    told: int = 0  # they run, and were told to end
    held: int = 0  # left as they are: another job holds their unique key by now

    def plus(self, other: "BulkResult") -> "BulkResult":
        return BulkResult(*(one + more for one, more in zip(self, other, strict=True)))


Change = Callable[[Connection, Sequence[int]], BulkResult]
OnProgress = Callable[[int], object]  # hears how many jobs of a slice were dealt with


class BulkAction(NamedTuple):
    """A verb, and the jobs that are meant by it. `until` is for those who delay."""

    database: Database
    verb: Verb
    which: JobFilter
    now: datetime
    until: datetime | None = None

    @property
    def meant(self) -> JobFilter:
        """With the status that is meant where none is named."""
        which = self.which.open_to(tuple(self.verb.applies_to), self.verb.name)
        says_it = which.ids is not None or which.status is not None
        return which if says_it else which._replace(status=self.verb.default_status)

    def ranges(self) -> list[Range]:
        which, statuses = self.meant, self.verb.applies_to
        given: Mapping[str, Any] = {"soon": self.now + DUE_SOON, "until": self.until}
        return self.database.read(lambda connection: ranges(connection, which, statuses, given))

    def carry_out(self, change: Change, deed: AuditEntry | None, tell: OnProgress) -> BulkResult:
        """Each slice is a commit of its own: what was done before somebody or something stops this stays so."""
        total = BulkResult()
        for each in self.ranges():
            after = None
            while found := self.database.read(partial(each.find, size=ROWS_PER_SLICE, after=after)):
                after = position_of(found[-1])
                ids = [row[0] for row in found]
                total = total.plus(self.database.run(partial(_change, change, deed, ids)))
                tell(len(ids))
        return total


def _change(change: Change, deed: AuditEntry | None, ids: Sequence[int], connection: Connection) -> BulkResult:
    done = change(connection, ids)
    if deed is not None:
        deed.add(connection, done.changed + done.told)
    return done


def count_matching(database: Database, verb: Verb, which: JobFilter, until: datetime | None = None) -> int:
    """How many that would be; one more than MOST_COUNTED stands for any number above."""
    total = 0
    for each in BulkAction(database, verb, which, database.clock.now(), until).ranges():
        total += database.read(partial(each.number, most=MAX_MATCHING_COUNTED + 1 - total))
        if total > MAX_MATCHING_COUNTED:
            break
    return total


def no_progress(_jobs: int) -> None:
    """Watches."""


MAX_ROWS_ESTIMATED = 20_000  # rows, for what no index knows


def estimate_matching(database: Database, verb: Verb, which: JobFilter, until: datetime | None = None) -> CappedCount:
    """Exact, or at least so many: unlike count_found, it never goes through a whole lane for a rare type."""
    errand = BulkAction(database, verb, which, database.clock.now(), until)
    found = errand.ranges()
    return database.read(lambda connection: _counted(connection, found))


def _counted(connection: Connection, found: list[Range]) -> CappedCount:
    by_id = [each for each in found if each.ids is not None]
    along = not_empty(connection, [each for each in found if each.ids is None])
    share = MAX_ROWS_ESTIMATED // max(1, len(along))
    total, is_more = 0, False
    for each in [*by_id, *along]:
        floor = each.floor(connection, share) if each.also and each.ids is None else None
        total += each.number(connection, MAX_MATCHING_COUNTED + 1 - total, floor)
        is_more = is_more or floor is not None
        if total > MAX_MATCHING_COUNTED:
            break
    return CappedCount(min(total, MAX_MATCHING_COUNTED), is_more or total > MAX_MATCHING_COUNTED)
