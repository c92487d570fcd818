"""Dead jobs by type and error, and how many of each died lately."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from mayfly.connection import Connection
from mayfly.dialect import utc_from_driver
from mayfly.jobs.browse.dead import messages_statement
from mayfly.jobs.browse.jobs import one_line
from mayfly.jobs.ranges import Range, not_empty
from mayfly.jobs.which import Which, ranges
from mayfly.schema import DEAD, JobTable

LOOKED_AT = 5_000  # the newest: to find the last attempt of each takes its time
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
    rows = [row for each in found for row in _rows(connection, jobs, each, share)]
    groups = grouped(rows, now)
    is_cut = len(groups) > MOST_GROUPS or any(each.floor(connection, share + 1) for each in found)
    shown = groups[:MOST_GROUPS]
    ids = [each.newest_id for each in shown]
    messages = dict(connection.execute(messages_statement(jobs), ids=ids).all()) if ids else {}
    told = tuple(each._replace(message=one_line(messages.get(each.newest_id))) for each in shown)
    return Deaths(told, len(rows), is_cut)


def grouped(rows: Sequence[Sequence[Any]], now: datetime) -> list[DeathGroup]:
    """Rows of id, type, when it died, fingerprint. Pure."""
    known: dict[tuple[str, str], list[tuple[int, datetime | None]]] = defaultdict(list)
    for job_id, type_name, died_at, fingerprint in rows:
        known[type_name, fingerprint].append((job_id, died_at))
    groups = [_group(*names, deaths, now) for names, deaths in known.items()]
    return sorted(groups, key=lambda each: (each.last_at is not None, each.last_at, each.newest_id), reverse=True)


def _group(type_name: str, error: str, deaths: Sequence[tuple[int, datetime | None]], now: datetime) -> DeathGroup:
    times = [at for _id, at in deaths if at is not None]
    lately = {name: sum(at >= now - window for at in times) for name, window in WINDOWS.items()}
    newest = max(job_id for job_id, _at in deaths)
    return DeathGroup(type_name, error, len(deaths), lately, max(times, default=None), newest)


def _rows(connection: Connection, jobs: JobTable, found: Range, size: int) -> list[tuple[Any, ...]]:
    rows = connection.execute(deaths_statement(jobs, found), found.given(size)).all()
    return [(row[0], row[1], None if row[2] is None else utc_from_driver(row[2]), row[3]) for row in rows]


def deaths_statement(jobs: JobTable, found: Range) -> str:
    c = jobs.c
    newest = found.newest(f"{c.id} AS job_id, {c.type} AS job_type, {c.finished_at} AS died_at")
    # Not MAX(id): PostgreSQL would go through the primary key from its end until it meets one of this job.
    last = "(SELECT MAX(id + 0) FROM mayfly_attempts WHERE job_id = d.job_id)"
    return (
        "SELECT d.job_id, d.job_type, d.died_at, COALESCE(a.fingerprint, '')"
        f" FROM ({newest}) AS d LEFT JOIN mayfly_attempts AS a ON a.id = {last}"
    )
