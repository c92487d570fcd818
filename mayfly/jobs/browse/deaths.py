"""Dead jobs by type and error, and how many of each died lately."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from mayfly.connection import Connection
from mayfly.dialect import utc_from_driver
from mayfly.jobs.browse.dead import messages_statement, newest_dead
from mayfly.jobs.browse.jobs import one_line
from mayfly.jobs.ranges import Range, not_empty
from mayfly.jobs.which import Which, ranges
from mayfly.schema import DEAD, JobTable

LOOKED_AT = 2_000  # the newest: to find the last attempt of each takes its time, and a page has a tenth of a second
MOST_GROUPS = 100
WINDOWS = {"1h": timedelta(hours=1), "24h": timedelta(hours=24), "7d": timedelta(days=7)}


class DeathGroup(NamedTuple):
    type: str
    error: str  # its fingerprint; empty where no attempt is kept any more
    jobs: int
    lately: Mapping[str, int]  # by the name of the window
    last_at: datetime | None
    newest_id: int
    message: str | None = None  # of the newest


class Deaths(NamedTuple):
    groups: tuple[DeathGroup, ...]  # those with the newest deaths first
    looked_at: int
    is_cut: bool  # there are more dead jobs, or more groups, than these


def list_deaths(connection: Connection, jobs: JobTable, now: datetime, lane: str | None = None) -> Deaths:
    """Of the newest in each lane and priority, as many as are worth reading."""
    which = Which(lane=lane, status=DEAD).checked()
    found = not_empty(connection, ranges(connection, jobs, which, {DEAD: ""}, {}))
    share = LOOKED_AT // max(1, len(found))
    looked = [group for each in found for group in _groups(connection, jobs, each, share, now)]
    groups = sorted(added_up(looked), key=_newest, reverse=True)
    is_cut = len(groups) > MOST_GROUPS or any(each.floor(connection, share + 1) for each in found)
    shown = groups[:MOST_GROUPS]
    ids = [each.newest_id for each in shown]
    messages = dict(connection.execute(messages_statement(jobs), ids=ids).all()) if ids else {}
    told = tuple(each._replace(message=one_line(messages.get(each.newest_id))) for each in shown)
    return Deaths(told, sum(each.jobs for each in groups), is_cut)


def added_up(groups: Iterable[DeathGroup]) -> list[DeathGroup]:
    """Those of the same type and error as one. Pure."""
    total: dict[tuple[str, str], DeathGroup] = {}
    for each in groups:
        known = total.get((each.type, each.error))
        total[each.type, each.error] = each if known is None else _sum(known, each)
    return list(total.values())


def _sum(one: DeathGroup, other: DeathGroup) -> DeathGroup:
    return one._replace(
        jobs=one.jobs + other.jobs,
        lately={name: one.lately[name] + other.lately[name] for name in WINDOWS},
        last_at=max(filter(None, (one.last_at, other.last_at)), default=None),
        newest_id=max(one.newest_id, other.newest_id),
    )


def _newest(group: DeathGroup) -> tuple[bool, Any, int]:
    return group.last_at is not None, group.last_at, group.newest_id


def _groups(connection: Connection, jobs: JobTable, found: Range, size: int, now: datetime) -> Iterator[DeathGroup]:
    since = {f"since_{number}": now - window for number, window in enumerate(WINDOWS.values())}
    for row in connection.execute(deaths_statement(jobs, found), {**found.given(size), **since}).all():
        type_name, error, number, last_at, newest, *lately = row
        at = None if last_at is None else utc_from_driver(last_at)
        yield DeathGroup(type_name, error, number, dict(zip(WINDOWS, map(int, lately), strict=True)), at, newest)


def deaths_statement(jobs: JobTable, found: Range) -> str:
    lately = ", ".join(
        f"SUM(CASE WHEN died_at >= :since_{number} THEN 1 ELSE 0 END)" for number in range(len(WINDOWS))
    )
    return (
        f"SELECT job_type, fingerprint, COUNT(*), MAX(died_at), MAX(job_id), {lately}"
        f" FROM ({newest_dead(jobs, found)}) AS died GROUP BY job_type, fingerprint"
    )
