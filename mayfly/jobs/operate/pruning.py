"""Delete by hand what is old enough, all of it; or only count it."""

from collections import Counter
from datetime import datetime
from functools import partial

from mayfly.actor import Actor
from mayfly.connection import Connection
from mayfly.engine import Database
from mayfly.jobs.audit import Deed
from mayfly.jobs.looks import find_lanes
from mayfly.jobs.operate.slices import MOST_COUNTED, Tell, nobody
from mayfly.jobs.prune import Keep, prune, searches
from mayfly.schema import JobTable


def prune_all(database: Database, jobs: JobTable, keep: Keep, actor: Actor, tell: Tell = nobody) -> int:
    """As cycles do it, and no sooner than they would; but to the end."""
    deed = Deed(actor, "prune", "what is old enough", database.clock.now())
    total = 0
    while gone := prune(database, jobs, keep):
        database.run(partial(deed.add, jobs=gone))
        total += gone
        tell(gone)
    return total


def count_old(connection: Connection, jobs: JobTable, keep: Keep, now: datetime) -> dict[str, int]:
    """The rows of each table that would go; one more than MOST_COUNTED stands for any number above."""
    old: Counter[str] = Counter()
    for search in searches(jobs, find_lanes(connection, jobs), keep, now):
        left = MOST_COUNTED + 1 - old[search.table]
        if left > 0:
            looking = f"SELECT {search.key} FROM {search.table} WHERE {search.old} LIMIT {left}"
            counting = f"SELECT COUNT(*) FROM ({looking}) AS old_rows"
            old[search.table] += int(connection.execute(counting, search.values).scalar())
    return {table: number for table, number in old.items() if number}
