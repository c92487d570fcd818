"""How a verb is carried out: jobs are found along an index, changed in slices, and counted in its deed."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from mayfly.connection import Connection
from mayfly.engine import Database
from mayfly.jobs.audit import Deed
from mayfly.jobs.ranges import Range, position_of
from mayfly.jobs.which import Open, Which, ranges
from mayfly.schema import JobTable

ROWS_PER_SLICE = 1000
MOST_COUNTED = 10_000
SOON = timedelta(seconds=1)  # what is due by then need not be hurried


class Verb(NamedTuple):
    name: str
    open_to: Callable[[JobTable], Open]  # the jobs that it can be done to; `:soon` and `:until` may stand in it
    asks_for: str | None = None  # the status that is meant where a filter names none


class Done(NamedTuple):
    """What became of the jobs that were found."""

    changed: int = 0
    told: int = 0  # they run, and were told to end
    held: int = 0  # left as they are: another job holds their unique key by now

    def plus(self, other: "Done") -> "Done":
        return Done(*(one + more for one, more in zip(self, other, strict=True)))


Change = Callable[[Connection, Sequence[int]], Done]
Tell = Callable[[int], object]  # hears how many jobs of a slice were dealt with


class Errand(NamedTuple):
    """A verb, and the jobs that are meant by it. `until` is for those who delay."""

    database: Database
    jobs: JobTable
    verb: Verb
    which: Which
    now: datetime
    until: datetime | None = None

    @property
    def meant(self) -> Which:
        """With the status that is meant where none is named."""
        which = self.which.open_to(tuple(self.verb.open_to(self.jobs)), self.verb.name)
        says_it = which.ids is not None or which.status is not None
        return which if says_it else which._replace(status=self.verb.asks_for)

    def ranges(self) -> list[Range]:
        which, open_to = self.meant, self.verb.open_to(self.jobs)
        given: Mapping[str, Any] = {"soon": self.now + SOON, "until": self.until}
        return self.database.read(lambda connection: ranges(connection, self.jobs, which, open_to, given))

    def carry_out(self, change: Change, deed: Deed | None, tell: Tell) -> Done:
        """Each slice is a commit of its own: what was done before somebody or something stops this stays so."""
        total = Done()
        for each in self.ranges():
            after = None
            while found := self.database.read(partial(each.find, size=ROWS_PER_SLICE, after=after)):
                after = position_of(found[-1])
                ids = [row[0] for row in found]
                total = total.plus(self.database.run(partial(_change, change, deed, ids)))
                tell(len(ids))
        return total


def _change(change: Change, deed: Deed | None, ids: Sequence[int], connection: Connection) -> Done:
    done = change(connection, ids)
    if deed is not None:
        deed.add(connection, done.changed + done.told)
    return done


def count_found(database: Database, jobs: JobTable, verb: Verb, which: Which, until: datetime | None = None) -> int:
    """How many that would be; one more than MOST_COUNTED stands for any number above."""
    total = 0
    for each in Errand(database, jobs, verb, which, database.clock.now(), until).ranges():
        total += database.read(partial(each.number, most=MOST_COUNTED + 1 - total))
        if total > MOST_COUNTED:
            break
    return total


def nobody(_jobs: int) -> None:
    """Watches."""
