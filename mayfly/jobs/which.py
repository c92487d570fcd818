"""Which unfinished jobs somebody means, and how they are found: by id, by group, or along the claim index."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from mayfly.connection import Connection
from mayfly.errors import BadField, WhichJobs
from mayfly.jobs.looks import find_lanes
from mayfly.schema import LIVE, PENDING, PRIORITIES, PROCESSING, JobTable
from mayfly.wording import storable

MOST_ID = 2**63 - 1
LONG_AGO = datetime(1, 1, 1, tzinfo=UTC)


class Which(NamedTuple):
    """The unfinished jobs that have all of what is named here."""

    ids: tuple[int, ...] | None = None
    group_key: str | None = None
    lane: str | None = None
    type: str | None = None
    status: str | None = None  # one of LIVE
    created_before: datetime | None = None

    def checked(self) -> "Which":
        """Or the sentence that says what is wrong. Everything is never meant."""
        if self._replace(status=None) == Which():
            raise WhichJobs
        if self.status not in (None, *LIVE):
            raise BadField("status", self.status, f"one of {', '.join(LIVE)}: what has ended stays as it is")
        for each in self.ids or ():
            if type(each) is not int or not 1 <= each <= MOST_ID:
                raise BadField("id", each, "a whole number above 0, as large as an id can be")
        for name in ("group_key", "lane", "type"):
            given = getattr(self, name)
            if given is not None and (not isinstance(given, str) or storable(given) != given):
                raise BadField(name, given, "a text that every database can hold")
        return self


class Search(NamedTuple):
    """Finds jobs along one index. Those that run and were told to end are not found any more."""

    table: str
    columns: str  # the id and the run_at
    where: str
    values: Mapping[str, Any]
    order: str = ""
    ids: Sequence[int] | None = None

    def find(self, connection: Connection, size: int, after: datetime = LONG_AGO) -> Sequence[tuple[Any, ...]]:
        """The next ones, due from a time on: where the last slice has ended."""
        return connection.execute(self.statement, self.given(size, after), self.ids).all()

    def number(self, connection: Connection, most: int) -> int:
        counting = f"SELECT COUNT(*) FROM ({self.statement}) AS found"
        return int(connection.execute(counting, self.given(most, LONG_AGO), self.ids).scalar())

    @property
    def statement(self) -> str:
        return f"SELECT {self.columns} FROM {self.table} WHERE {self.where}{self.order} LIMIT :size"

    def given(self, size: int, after: datetime) -> Mapping[str, Any]:
        return {**self.values, "size": size, "after": after}


def searches(connection: Connection, jobs: JobTable, which: Which, slice_size: int) -> list[Search]:
    c, values = jobs.c, _values(which)
    columns, conditions = f"{c.id}, {c.run_at}", _conditions(jobs, which)
    running = f"{c.status} = '{jobs.processing}' AND {c.cancel_reason} IS NULL"
    live = f"({c.status} = '{jobs.pending}' OR {running})"
    if which.ids is not None:
        where = " AND ".join((f"{{ids of {c.id}}}", live, *conditions))
        return [Search(jobs.table, columns, where, values, ids=part) for part in _parts(which.ids, slice_size)]
    if which.group_key is not None:
        return [Search(jobs.table, columns, " AND ".join((*conditions, live)), values, f" ORDER BY {c.id}")]
    lanes = [which.lane] if which.lane is not None else find_lanes(connection, jobs)
    order = f" ORDER BY {c.run_at}, {c.id}"
    return [
        Search(jobs.table, columns, " AND ".join((*along, *conditions)), {**values, "lane": lane}, order)
        for lane in lanes
        for along in _along_claim_index(jobs, running)
    ]


def _along_claim_index(jobs: JobTable, running: str) -> Iterator[tuple[str, ...]]:
    """Lane, status and priority are equalities, so that run_at is a pure range."""
    c = jobs.c
    for status in (f"{c.status} = '{jobs.pending}'", running):
        for priority in PRIORITIES:
            yield f"{c.lane} = :lane", status, f"{c.priority} = {priority}", f"{c.run_at} >= :after"


def _conditions(jobs: JobTable, which: Which) -> list[str]:
    c = jobs.c
    equal = [f"{getattr(c, name)} = :{name}" for name in ("group_key", "lane", "type") if getattr(which, name)]
    if which.status is not None:
        words = {PENDING: jobs.pending, PROCESSING: jobs.processing}
        equal.append(f"{c.status} = '{words[which.status]}'")
    if which.created_before is not None:
        equal.append(f"{c.created_at} < :created_before")
    return equal


def _values(which: Which) -> dict[str, Any]:
    names = ("group_key", "lane", "type", "created_before")
    return {name: getattr(which, name) for name in names if getattr(which, name) is not None}


def _parts(ids: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    distinct = sorted(set(ids))
    return (distinct[start : start + size] for start in range(0, len(distinct), size))
