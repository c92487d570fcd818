"""Which jobs somebody means, and the ranges of indexes in which they are found."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from mayfly.connection import Connection
from mayfly.errors import BadField, WhichJobs
from mayfly.jobs.looks import find_lanes
from mayfly.jobs.ranges import Range
from mayfly.schema import PRIORITIES, STATUSES, JobTable
from mayfly.wording import storable

MOST_ID = 2**63 - 1
IDS_SHOWN = 20
IDS_PER_RANGE = 1000

ATTEMPTS = "mayfly_attempts AS a"
# A job is known by the error of its last attempt.
IS_LAST = "NOT EXISTS (SELECT 1 FROM mayfly_attempts AS later WHERE later.job_id = a.job_id AND later.id > a.id)"


class Which(NamedTuple):
    """The jobs that have all of what is named here."""

    ids: tuple[int, ...] | None = None
    group_key: str | None = None
    lane: str | None = None
    type: str | None = None
    status: str | None = None
    created_before: datetime | None = None
    created_after: datetime | None = None
    error: str | None = None  # the fingerprint of its last failed attempt
    finished_after: datetime | None = None

    def checked(self) -> "Which":
        """Or the sentence that says what is wrong."""
        if self.status not in (None, *STATUSES):
            raise BadField("status", self.status, f"one of {', '.join(STATUSES)}")
        for each in self.ids or ():
            if type(each) is not int or not 1 <= each <= MOST_ID:
                raise BadField("id", each, "a whole number above 0, as large as an id can be")
        for name in ("group_key", "lane", "type", "error"):
            given = getattr(self, name)
            if given is not None and (not isinstance(given, str) or storable(given) != given):
                raise BadField(name, given, "a text that every database can hold")
        return self

    def open_to(self, statuses: Sequence[str], verb: str) -> "Which":
        """The same, for one who changes what is found. Everything is never meant."""
        if self._replace(status=None) == Which():
            raise WhichJobs
        if self.checked().status not in (None, *statuses):
            raise BadField("status", self.status, f"one of {', '.join(statuses)}: {verb} changes no other")
        return self

    def __str__(self) -> str:
        """As the audit says it."""
        named = {name: value for name, value in self._asdict().items() if value is not None}
        return " ".join(f"{name}={_told(value)}" for name, value in named.items()) or "all"


def _told(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    if isinstance(value, tuple):
        more = f",… ({len(value)})" if len(value) > IDS_SHOWN else ""
        return ",".join(map(str, value[:IDS_SHOWN])) + more
    return str(value)


Open = Mapping[str, str]  # statuses in Mayfly's words, and what must hold besides, if anything


def ranges(
    connection: Connection, jobs: JobTable, which: Which, statuses: Open, given: Mapping[str, Any]
) -> list[Range]:
    """Those in which all that is meant lies, and nothing twice."""
    c, values = jobs.c, {**_values(which), **given}
    wanted = {status: also for status, also in statuses.items() if which.status in (None, status)}
    conditions = _conditions(jobs, which)
    if len(wanted) < len(STATUSES) or any(wanted.values()):
        conditions["status"] = f"({' OR '.join(f'({_is(jobs, *each)})' for each in wanted.items())})"
    if which.ids is not None:
        where, also = f"{{ids of {c.id}}}", _all_but(conditions)
        return [Range(jobs.table, c.id, (c.id,), where, values, also, part) for part in _parts(which.ids)]
    if which.error is not None:
        source = f"{ATTEMPTS} JOIN {jobs.table} ON {jobs.table}.{c.id} = a.job_id"
        also, key = _all_but({"last": IS_LAST, **conditions}), ("a.finished_at", "a.id")
        return [Range(source, "a.job_id", key, "a.fingerprint = :error", values, also, indexed=ATTEMPTS)]
    if which.group_key is not None:
        also = _all_but(conditions, "group_key")
        return [Range(jobs.table, c.id, (c.id,), conditions["group_key"], values, also)]
    lanes = [which.lane] if which.lane is not None else find_lanes(connection, jobs)
    also = _all_but(conditions, "lane", "status")
    return [
        Range(jobs.table, c.id, (c.run_at, c.id), along, {**values, "lane": lane}, also)
        for lane in lanes
        for along in _along_claim_index(jobs, wanted)
    ]


def everything(jobs: JobTable, which: Which, given: Mapping[str, Any]) -> Range:
    """The whole table, in the order of arrival."""
    c = jobs.c
    return Range(jobs.table, c.id, (c.id,), "", {**_values(which), **given}, _all_but(_conditions(jobs, which)))


def _along_claim_index(jobs: JobTable, wanted: Open) -> Iterator[str]:
    """Lane, status and priority are equalities, so that run_at is a pure range."""
    for status, also in wanted.items():
        for priority in PRIORITIES:
            yield f"{jobs.c.lane} = :lane AND {_is(jobs, status, also)} AND {jobs.c.priority} = {priority}"


def _is(jobs: JobTable, status: str, also: str) -> str:
    word = f"{jobs.c.status} = '{getattr(jobs, status)}'"
    return f"{word} AND {also}" if also else word


def _conditions(jobs: JobTable, which: Which) -> dict[str, str]:
    """By the name of what is asked for."""
    c = jobs.c
    told = {name: f"{getattr(c, name)} = :{name}" for name in ("group_key", "lane", "type")}
    told |= {"created_before": f"{c.created_at} < :created_before"}
    told |= {"created_after": f"{c.created_at} >= :created_after"}
    told |= {"finished_after": f"{jobs.table}.{c.finished_at} >= :finished_after"}
    return {name: condition for name, condition in told.items() if getattr(which, name) is not None}


def _all_but(conditions: Mapping[str, str], *known: str) -> str:
    return " AND ".join(condition for name, condition in conditions.items() if name not in known)


def _values(which: Which) -> dict[str, Any]:
    named = which._asdict()
    return {name: value for name, value in named.items() if value is not None and name not in ("ids", "status")}


def _parts(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    distinct = sorted(set(ids))
    return (distinct[start : start + IDS_PER_RANGE] for start in range(0, len(distinct), IDS_PER_RANGE))
