"""How many jobs there are of each status, as far as that is worth counting."""

from collections import Counter
from collections.abc import Mapping
from functools import cache

from mayfly.connection import Connection
from mayfly.jobs.browse.capped import Capped
from mayfly.jobs.looks import find_lanes
from mayfly.jobs.which import Which
from mayfly.schema import STATUSES, JobTable

COUNTED = 1000  # of each status: every page of jobs shows them
LANES_PER_STATEMENT = 40


def count_statuses(connection: Connection, jobs: JobTable, which: Which) -> Mapping[str, Capped]:
    """Of those of a lane, of a group or of all; empty where more is asked for than an index knows."""
    asked = which._replace(status=None)
    if asked == Which(group_key=which.group_key) and which.group_key is not None:
        return _group(connection, jobs, which.group_key)
    if asked != Which(lane=which.lane):
        return {}
    lanes = [which.lane] if which.lane is not None else find_lanes(connection, jobs)
    counted: Counter[str] = Counter()
    for start in range(0, len(lanes), LANES_PER_STATEMENT):
        part = lanes[start : start + LANES_PER_STATEMENT]
        left = tuple(status for status in STATUSES if counted[status] <= COUNTED)
        values = {f"lane_{number}": lane for number, lane in enumerate(part)}
        rows = connection.execute(lanes_statement(jobs, len(part), left), values).all() if left else ()
        for number, figure in rows:
            counted[STATUSES[number]] += int(figure)
    return {status: Capped.of(counted[status], COUNTED) for status in STATUSES}


def _group(connection: Connection, jobs: JobTable, key: str) -> Mapping[str, Capped]:
    """Of its newest: it may have a million."""
    rows = connection.execute(group_statement(jobs), {"key": key, "size": COUNTED + 1}).all()
    counted = {jobs.word_of(status): int(number) for status, number in rows}
    is_more = sum(counted.values()) > COUNTED
    return {status: Capped(counted.get(status, 0), is_more) for status in STATUSES}


@cache
def lanes_statement(jobs: JobTable, lanes: int, statuses: tuple[str, ...]) -> str:
    c = jobs.c
    order = f"{c.priority}, {c.run_at}, {c.id}"  # that of the index
    parts = []
    for number in range(lanes):
        for status in statuses:
            where = f"{c.lane} = :lane_{number} AND {c.status} = '{getattr(jobs, status)}'"
            look = f"SELECT {c.id} FROM {jobs.table} WHERE {where} ORDER BY {order} LIMIT {COUNTED + 1}"
            index = STATUSES.index(status)
            parts.append(f"SELECT {index}, COUNT(*) FROM ({look}) AS counted_{number}_{index}")
    return " UNION ALL ".join(parts)


@cache
def group_statement(jobs: JobTable) -> str:
    c = jobs.c
    newest = f"SELECT {c.status} FROM {jobs.table} WHERE {c.group_key} = :key ORDER BY {c.id} DESC LIMIT :size"
    return f"SELECT {c.status}, COUNT(*) FROM ({newest}) AS newest GROUP BY {c.status}"
