"""How many jobs a verb would find, as far as that can be said at once."""

from datetime import datetime

from mayfly.connection import Connection
from mayfly.engine import Database
from mayfly.jobs.browse.capped import Capped
from mayfly.jobs.operate.slices import MOST_COUNTED, Errand, Verb
from mayfly.jobs.ranges import Range, not_empty
from mayfly.jobs.which import Which
from mayfly.schema import JobTable

LOOKED_AT = 20_000  # rows, for what no index knows


def estimate(database: Database, jobs: JobTable, verb: Verb, which: Which, until: datetime | None = None) -> Capped:
    """Exact, or at least so many: unlike count_found, it never goes through a whole lane for a rare type."""
    errand = Errand(database, jobs, verb, which, database.clock.now(), until)
    found = errand.ranges()
    return database.read(lambda connection: _counted(connection, found))


def _counted(connection: Connection, found: list[Range]) -> Capped:
    by_id = [each for each in found if each.ids is not None]
    along = not_empty(connection, [each for each in found if each.ids is None])
    share = LOOKED_AT // max(1, len(along))
    total, is_more = 0, False
    for each in [*by_id, *along]:
        floor = each.floor(connection, share) if each.also and each.ids is None else None
        total += each.number(connection, MOST_COUNTED + 1 - total, floor)
        is_more = is_more or floor is not None
        if total > MOST_COUNTED:
            break
    return Capped(min(total, MOST_COUNTED), is_more or total > MOST_COUNTED)
