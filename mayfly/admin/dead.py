"""Dead jobs by type and error, and how many of each died lately.

The fingerprint of their last attempt says which of them died of the same.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any, NamedTuple

from mayfly.admin.filters import JobFilter, Range, not_empty, ranges
from mayfly.admin.jobs import facts_of, one_line, read_row
from mayfly.db.connection import Connection
from mayfly.queue.failure import ERROR_LIMIT
from mayfly.schema.tables import DEAD

MAX_ROWS_READ = 5_000  # the newest dead jobs: to find the last attempt of each takes its time
MAX_GROUPS = 100
WINDOWS = {"1h": timedelta(hours=1), "24h": timedelta(hours=24), "7d": timedelta(days=7)}


class DeadGroup(NamedTuple):
    type: str
    error: str  # its fingerprint; empty where no attempt is kept any more
    jobs: int
    first_at: datetime | None
    last_at: datetime | None
    newest_id: int
    lately: Mapping[str, int]  # by the name of the window, if asked for
    message: str | None = None  # of the newest

    def facts(self) -> dict[str, Any]:
        return facts_of(self)


class DeadGroups(NamedTuple):
    groups: tuple[DeadGroup, ...]
    looked_at: int
    is_cut: bool  # there are more dead jobs, or more groups, than these

    def facts(self) -> dict[str, Any]:
        groups = [each.facts() for each in self.groups]
        return {"groups": groups, "looked_at": self.looked_at, "is_cut": self.is_cut}


def most_frequent(group: DeadGroup) -> Any:
    """Those first of which there are most."""
    return -group.jobs, -group.newest_id


def newest(group: DeadGroup) -> Any:
    """Those first that died last."""
    return group.last_at is None, -group.last_at.timestamp() if group.last_at else 0.0, -group.newest_id


def list_dead(
    connection: Connection,
    lane: str | None = None,
    now: datetime | None = None,
    order: Callable[[DeadGroup], Any] = most_frequent,
    looked_at: int | None = None,
) -> DeadGroups:
    """Of the newest in each lane and priority, as many as are worth reading; with `now`, how many died lately."""
    since = {} if now is None else {name: now - window for name, window in WINDOWS.items()}
    which = JobFilter(lane=lane, status=DEAD).checked()
    found = not_empty(connection, ranges(connection, which, {DEAD: ""}, {}))
    share = (looked_at or MAX_ROWS_READ) // max(1, len(found))
    looked = [group for each in found for group in _groups(connection, each, share, since)]
    groups = sorted(merged_groups(looked), key=order)
    is_cut = len(groups) > MAX_GROUPS or any(each.floor(connection, share + 1) for each in found)
    told = tuple(_with_messages(connection, groups[:MAX_GROUPS]))
    return DeadGroups(told, sum(each.jobs for each in groups), is_cut)


def _groups(connection: Connection, found: Range, size: int, since: Mapping[str, datetime]) -> Iterator[DeadGroup]:
    columns, values = DeadGroup._fields[:-2], {f"since_{name}": at for name, at in since.items()}
    for row in connection.execute(groups_statement(found, since), {**found.given(size), **values}).all():
        lately = dict(zip(since, map(int, row[len(columns) :]), strict=True))
        yield DeadGroup(**read_row(columns, row[: len(columns)]), lately=lately)


def merged_groups(groups: Iterable[DeadGroup]) -> list[DeadGroup]:
    """Those of the same type and error as one. Pure."""
    total: dict[tuple[str, str], DeadGroup] = {}
    for each in groups:
        known = total.get((each.type, each.error))
        total[each.type, each.error] = each if known is None else _sum(known, each)
    return list(total.values())


def _sum(one: DeadGroup, other: DeadGroup) -> DeadGroup:
    return one._replace(
        jobs=one.jobs + other.jobs,
        first_at=min(filter(None, (one.first_at, other.first_at)), default=None),
        last_at=max(filter(None, (one.last_at, other.last_at)), default=None),
        newest_id=max(one.newest_id, other.newest_id),
        lately={name: one.lately[name] + other.lately[name] for name in one.lately},
    )


def _with_messages(connection: Connection, groups: Sequence[DeadGroup]) -> list[DeadGroup]:
    ids = [each.newest_id for each in groups]
    messages = dict(connection.execute(messages_statement(), ids=ids).all()) if ids else {}
    return [each._replace(message=one_line(messages.get(each.newest_id))) for each in groups]


def groups_statement(found: Range, windows: Iterable[str]) -> str:
    lately = "".join(f", SUM(CASE WHEN died_at >= :since_{name} THEN 1 ELSE 0 END)" for name in windows)
    return (
        f"SELECT job_type, fingerprint, COUNT(*), MIN(died_at), MAX(died_at), MAX(job_id){lately}"
        f" FROM ({newest_dead(found)}) AS died GROUP BY job_type, fingerprint"
    )


def newest_dead(found: Range) -> str:
    """Each with the fingerprint of its last attempt."""
    newest = found.newest("id AS job_id, type AS job_type, finished_at AS died_at")
    # Not by id alone: PostgreSQL would go through the primary key from its end until it meets one of this job.
    last = "SELECT fingerprint FROM mayfly_attempts WHERE job_id = d.job_id ORDER BY id + 0 DESC LIMIT 1"
    # Not as a join: PostgreSQL would read all attempts there are for it.
    return f"SELECT d.*, COALESCE(({last}), '') AS fingerprint FROM ({newest}) AS d"


@cache
def messages_statement() -> str:
    return f"SELECT id, SUBSTR(last_error, 1, {ERROR_LIMIT}) FROM mayfly_jobs WHERE {{ids of id}}"
