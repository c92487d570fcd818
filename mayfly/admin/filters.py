"""Select jobs: the filter that CLI, API and console share, and the index ranges that it reads.

A range is read page by page in the order of its key, so that no job is skipped or repeated where times are equal.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from mayfly import json_text
from mayfly.db.connection import Connection
from mayfly.db.dialects import Dialect, utc_from_driver, utc_text
from mayfly.errors import BadField, NoJobsSelected
from mayfly.job import SourceRow
from mayfly.queue.count import find_lanes
from mayfly.queue.insert import HOLDERS
from mayfly.queue.outcome import storable
from mayfly.schema.tables import DONE, FAILED_ATTEMPTS, PENDING, PRIORITIES, PROCESSING, RELEASED, SLICED, STATUSES

MAX_ID = 2**63 - 1  # in every database
Position = tuple[Any, ...]  # values of a key: where a page ended
FoundRows = Sequence[tuple[Any, ...]]  # the id of each job, and the values of its key


class Range(NamedTuple):
    """Rows of an index, and the conditions that the index does not cover."""

    source: str  # after FROM
    id: str
    key: tuple[str, ...]  # the order of the index: a time and a number, or a number alone
    where: str  # covered by the index
    values: Mapping[str, Any]
    unindexed: str = ""  # conditions that the index does not cover
    ids: Sequence[int] | None = None
    index_table: str = ""  # the table of the index, where `source` joins another to it

    def find(
        self,
        connection: Connection,
        size: int,
        after: Position | None = None,
        newest_first: bool = False,
        floor: Position | None = None,
    ) -> FoundRows:
        """The next rows after a position, none beyond the floor."""
        statement = self.statement(after is not None, newest_first, floor is not None)
        return connection.execute(statement, self.given(size, after, floor), self.ids).all()

    def floor(
        self, connection: Connection, depth: int, after: Position | None = None, newest_first: bool = True
    ) -> Position | None:
        """The position after `depth` rows of the index; None if it has fewer."""
        bare = self._replace(unindexed="", source=self.index_table or self.source)
        whole = bare.statement(after is not None, newest_first)
        statement = f"{whole.removesuffix(':size')}1 OFFSET :size"
        found = connection.execute(statement, self.given(depth - 1, after), self.ids).first()
        return None if found is None else position_of(found)

    def number(self, connection: Connection, cap: int, floor: Position | None = None) -> int:
        """Number of rows above the floor, up to the cap."""
        order = ", ".join(self.key)
        rest = self._rest(past(self.key, ">", "floor", or_equal=True) if floor is not None else "")
        counting = f"SELECT COUNT(*) FROM (SELECT {self.id} {rest} ORDER BY {order} LIMIT :size) AS found"
        return int(connection.execute(counting, self.given(cap, floor=floor), self.ids).scalar())

    def statement(self, continues: bool = False, newest_first: bool = False, has_floor: bool = False) -> str:
        beyond, within, direction = ("<", ">", " DESC") if newest_first else (">", "<", "")
        after = past(self.key, beyond, "after") if continues else ""
        floor = past(self.key, within, "floor", or_equal=True) if has_floor else ""
        order = ", ".join(f"{column}{direction}" for column in self.key)
        return f"SELECT {', '.join((self.id, *self.key))} {self._rest(after, floor)} ORDER BY {order} LIMIT :size"

    def newest(self, columns: str) -> str:
        order = ", ".join(f"{column} DESC" for column in self.key)
        return f"SELECT {columns} {self._rest()} ORDER BY {order} LIMIT :size"

    def _rest(self, *further: str) -> str:
        conditions = " AND ".join(each for each in (self.where, self.unindexed, *further) if each)
        return f"FROM {self.source} WHERE {conditions}" if conditions else f"FROM {self.source}"

    def given(self, size: int, after: Position | None = None, floor: Position | None = None) -> Mapping[str, Any]:
        named = {f"after_{number}": value for number, value in enumerate(after or ())}
        named |= {f"floor_{number}": value for number, value in enumerate(floor or ())}
        return {**self.values, **named, "size": size}


def not_empty(connection: Connection, found: Sequence[Range], after: Position | None = None) -> list[Range]:
    """Ranges with a row after the position. The others need no share of a search."""
    return [each for each in found if each.floor(connection, 1, after) is not None]


def past(key: Sequence[str], beyond: str, name: str, or_equal: bool = False) -> str:
    """A condition for rows beyond a position. It also bounds the time alone, so that the index range is used."""
    equal = "=" if or_equal else ""
    if len(key) == 1:
        return f"{key[0]} {beyond}{equal} :{name}_0"
    time, number = key
    later = f"{time} {beyond} :{name}_0 OR {number} {beyond}{equal} :{name}_1"
    return f"{time} {beyond}= :{name}_0 AND ({later})"


def position_of(found: Sequence[Any]) -> Position:
    """Of a row from `find`. SQLite stores times as text and compares them as text, so they stay text."""
    return tuple(each if isinstance(each, str | int) else utc_from_driver(each) for each in found[1:])


def position_text(position: Position) -> str:
    """For the URL of the next page."""
    return "~".join(
        utc_text(each).replace(" ", "T") if isinstance(each, datetime) else str(each).replace(" ", "T")
        for each in position
    )


def read_position(dialect: Dialect, text: str, length: int) -> Position:
    *times, number = text.split("~")
    try:
        position = *(dialect.moment(each.replace("T", " ")) for each in times), int(number)
    except ValueError:
        position = ()
    if len(position) != length or abs(position[-1]) > MAX_ID:
        raise BadField("after", text, "the `next` of the previous page")
    return position


def refuse_past(until: datetime | None, now: datetime) -> None:
    if until is not None and until <= now:
        raise BadField("until", until.isoformat(timespec="seconds"), "a time in the future")


MAX_ROWS_SEARCHED = 10_000  # in one statement, for conditions that no index covers
IDS_SHOWN = 20
IDS_PER_RANGE = 1000
LIVE_STATUSES = {PENDING, PROCESSING}  # the unique key of such a job is indexed

ATTEMPTS = "mayfly_attempts AS a"
_ESCAPE = "'!'"

# A job is found by the error of its last failed attempt only.
IS_LAST = (
    "NOT EXISTS (SELECT 1 FROM mayfly_attempts AS later WHERE later.job_id = a.job_id AND later.id > a.id"
    f" AND later.outcome NOT IN ('{DONE}', '{SLICED}', '{RELEASED}'))"
)


def newest_failures(columns: str, size: int) -> str:
    """A subquery: failed attempts since :since, the newest of each outcome. Reads no successful ones."""
    each_outcome = (
        f"SELECT * FROM (SELECT {columns} FROM mayfly_attempts WHERE outcome = '{each}'"
        f" AND finished_at >= :since ORDER BY finished_at DESC LIMIT {size}) AS {each.replace(' ', '_')}"
        for each in FAILED_ATTEMPTS
    )
    return f"({' UNION ALL '.join(each_outcome)})"


class JobFilter(NamedTuple):
    """Jobs that match all given fields."""

    ids: tuple[int, ...] | None = None
    group_key: str | None = None
    lane: str | None = None
    type: str | None = None
    status: str | None = None
    created_before: datetime | None = None
    created_after: datetime | None = None
    error: str | None = None  # the fingerprint of its last failed attempt
    finished_after: datetime | None = None
    text: str | None = None  # in payload, error or keys
    payload: tuple[tuple[str, str], ...] | None = None  # fields, such as ("order.id", "7"), at any depth
    source: str | None = None  # jobs of its rows
    row: str | None = None  # the primary key of one of them; without a source it matches no job

    @property
    def searches_content(self) -> bool:
        """Whether every job of the other conditions has to be read."""
        return self.text is not None or self.payload is not None

    def checked(self) -> "JobFilter":
        """Raises BadField for a value that no job can have."""
        if self.status not in (None, *STATUSES):
            raise BadField("status", self.status, f"one of {', '.join(STATUSES)}")
        for each in self.ids or ():
            if type(each) is not int or not 1 <= each <= MAX_ID:
                raise BadField("id", each, "a positive integer")
        for name in ("group_key", "lane", "type", "error", "source", "row"):
            given = getattr(self, name)
            if given is not None and (not isinstance(given, str) or storable(given) != given):
                raise BadField(name, given, "text without NUL or unpaired surrogates")
        if self.payload == ():  # it would match every job
            raise BadField("payload", "[]", "at least one field and its value")
        _patterns(self)
        return self

    def without(self, masked: Sequence[str]) -> "JobFilter":
        """The filter itself. Raises if it searches a field of REDACT: counts would reveal its value."""
        for name, _value in self.payload or ():
            if not {name.lower(), *name.lower().split(".")}.isdisjoint(masked):
                raise BadField("payload", name, "a field that is not masked by REDACT")
        return self

    def allowed_for(self, statuses: Sequence[str], verb: str) -> "JobFilter":
        """The filter itself. Raises for one that selects all jobs, or a status that the verb cannot change."""
        if self._replace(status=None, row=None) == JobFilter():
            raise NoJobsSelected
        if self.checked().status not in (None, *statuses):
            raise BadField("status", self.status, f"one of {', '.join(statuses)}, for {verb}")
        return self

    def __str__(self) -> str:
        named = {name: value for name, value in self._asdict().items() if value is not None and name != "payload"}
        named |= {f"payload.{name}": value for name, value in self.payload or ()}
        return " ".join(f"{name}={_time_text(value)}" for name, value in named.items()) or "all"


def _time_text(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    if isinstance(value, tuple):
        more = f",… ({len(value)})" if len(value) > IDS_SHOWN else ""
        return ",".join(map(str, value[:IDS_SHOWN])) + more
    return str(value)


StatusConditions = Mapping[str, str]  # by status: a further condition, or an empty text


def ranges(
    connection: Connection, job_filter: JobFilter, statuses: StatusConditions, given: Mapping[str, Any]
) -> list[Range]:
    """Ranges that together contain every matching job exactly once."""
    values = {**_values(job_filter), **given}
    wanted = {status: extra for status, extra in statuses.items() if job_filter.status in (None, status)}
    conditions = _conditions(job_filter, connection.dialect)
    if len(wanted) < len(STATUSES) or any(wanted.values()):
        conditions["status"] = f"({' OR '.join(f'({_status_is(*each)})' for each in wanted.items())})"
    if job_filter.ids is not None:
        where, rest = "{ids of id}", _all_but(conditions)
        return [Range("mayfly_jobs", "id", ("id",), where, values, rest, part) for part in _parts(job_filter.ids)]
    if job_filter.error is not None:
        source = f"{ATTEMPTS} JOIN mayfly_jobs ON mayfly_jobs.id = a.job_id"
        rest, key = _all_but({"last": IS_LAST, **conditions}), ("a.finished_at", "a.id")
        return [Range(source, "a.job_id", key, "a.fingerprint = :error", values, rest, index_table=ATTEMPTS)]
    if job_filter.group_key is not None:
        rest = _all_but(conditions, "group_key")
        return [Range("mayfly_jobs", "id", ("id",), conditions["group_key"], values, rest)]
    if job_filter.row is not None and not wanted.keys() - LIVE_STATUSES:
        held, rest = f"{connection.dialect.held_key('unique_key')} = :row AND {HOLDERS}", _all_but(conditions, "row")
        return [Range("mayfly_jobs", "id", ("run_at", "id"), held, values, rest)]
    lanes = [job_filter.lane] if job_filter.lane is not None else find_lanes(connection)
    rest = _all_but(conditions, "lane", "status")
    return [
        Range("mayfly_jobs", "id", ("run_at", "id"), along, {**values, "lane": lane}, rest)
        for lane in lanes
        for along in _along_claim_index(wanted)
    ]


def all_jobs(job_filter: JobFilter, dialect: Dialect) -> Range:
    """The whole table, in order of arrival."""
    return Range("mayfly_jobs", "id", ("id",), "", _values(job_filter), _all_but(_conditions(job_filter, dialect)))


class FoundSlice(NamedTuple):
    ids: Sequence[int]
    next: Position | None  # where the next slice begins; None at the end of the range


def find_slice(
    connection: Connection, found: Range, job_filter: JobFilter, size: int, after: Position | None = None
) -> FoundSlice:
    """The next matching jobs, oldest first. A search in contents stops after MAX_ROWS_SEARCHED rows."""
    end = (
        found.floor(connection, MAX_ROWS_SEARCHED, after, newest_first=False) if job_filter.searches_content else None
    )
    rows = found.find(connection, size, after, floor=end)
    is_full = bool(rows) and (end is None or len(rows) == size)
    return FoundSlice(
        matching(connection, job_filter, [row[0] for row in rows]), position_of(rows[-1]) if is_full else end
    )


def matching(connection: Connection, job_filter: JobFilter, ids: Sequence[int]) -> Sequence[int]:
    """Of jobs that a database has found, those whose payload has the fields: LIKE finds some others too."""
    if job_filter.payload is None:
        return ids
    payloads = read_payloads(connection, ids)
    return [each for each in ids if all(has_field(payloads.get(each), *field) for field in job_filter.payload)]


def _along_claim_index(wanted: StatusConditions) -> Iterator[str]:
    """Lane, status and priority are equalities, so that run_at is a pure range."""
    for status, extra in wanted.items():
        for priority in PRIORITIES:
            yield f"lane = :lane AND {_status_is(status, extra)} AND priority = {priority}"


def _status_is(status: str, extra: str) -> str:
    word = f"status = '{status}'"
    return f"{word} AND {extra}" if extra else word


def _conditions(job_filter: JobFilter, dialect: Dialect) -> dict[str, str]:
    payload = dialect.as_text("payload")
    texts = (payload, "last_error", "type", "unique_key", "group_key")
    conditions = {name: f"{name} = :{name}" for name in ("group_key", "lane", "type")} | {
        "created_before": "created_at < :created_before",
        "created_after": "created_at >= :created_after",
        "finished_after": "mayfly_jobs.finished_at >= :finished_after",
        "text": f"({' OR '.join(f'LOWER({each}) LIKE :text ESCAPE {_ESCAPE}' for each in texts)})",
    }
    if job_filter.row is not None:
        conditions["row"] = "unique_key = :row"
    elif job_filter.source is not None:
        conditions["source"] = f"SUBSTR(unique_key, 1, {len(_row_key(job_filter))}) = :source"
    fields = [name for name in _patterns(job_filter) if name != "text"]
    return {name: condition for name, condition in conditions.items() if getattr(job_filter, name) is not None} | {
        name: f"LOWER({payload}) LIKE :{name} ESCAPE {_ESCAPE}" for name in fields
    }


def _all_but(conditions: Mapping[str, str], *covered: str) -> str:
    return " AND ".join(condition for name, condition in conditions.items() if name not in covered)


def _values(job_filter: JobFilter) -> dict[str, Any]:
    named = {name: value for name, value in job_filter._asdict().items() if value is not None}
    named |= {name: _row_key(job_filter) for name in ("source", "row") if name in named}
    return {name: named[name] for name in named if name not in ("ids", "status", "payload")} | _patterns(job_filter)


def _row_key(job_filter: JobFilter) -> str:
    """The unique key of the job of a row, or how those of a source begin."""
    return SourceRow(job_filter.source or "", job_filter.row or "").unique_key


def _patterns(job_filter: JobFilter) -> dict[str, str]:
    """The parameters for LIKE, by name. Raises BadField for a text that cannot be searched."""
    fields = {f"field_{number}": _field_pattern(*each) for number, each in enumerate(job_filter.payload or ())}
    return fields if job_filter.text is None else {"text": f"%{_literal('text', job_filter.text)}%", **fields}


def _parts(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    distinct = sorted(set(ids))
    return (distinct[start : start + IDS_PER_RANGE] for start in range(0, len(distinct), IDS_PER_RANGE))


def parse_field(text: str) -> tuple[str, str]:
    """From `order.id=7` or `payload.order.id=7`."""
    name, equal, value = text.partition("=")
    name = name.removeprefix("payload.")
    if not equal or not all(name.split(".")):
        raise BadField("payload", text, "a field and its value, such as order.id=7")
    return name, value


def _field_pattern(name: str, value: str) -> str:
    """A LIKE pattern that every payload with the field matches, and some others."""
    _literal("value", value)
    path = "%".join(_literal("field", each) for each in name.split("."))
    return f'%"{path}"%{_literal("value", _as_in_json(value))}%'


def has_field(payload: str | None, name: str, value: str) -> bool:
    """Whether a field of this name or path, at any depth, has this value, ignoring case. Pure."""
    if payload is None:
        return False
    try:
        found = _fields(json_text.decode(payload), name.lower().split("."))
        return any(_written(each).lower() == value.lower() for each in found)
    except ValueError:  # inserted by plain SQL, and nested too deeply for Python
        return False


def read_payloads(connection: Connection, ids: Sequence[int]) -> dict[int, str]:
    if not ids:
        return {}
    rows = connection.execute("SELECT id, payload FROM mayfly_jobs WHERE {ids of id}", ids=ids).all()
    return {job_id: payload if isinstance(payload, str) else json.dumps(payload) for job_id, payload in rows}


def _fields(value: Any, path: Sequence[str]) -> Iterator[Any]:
    """The values at a path that begins at any depth."""
    yield from _at(value, path)
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _fields(each, path)


def _at(value: Any, path: Sequence[str]) -> Iterator[Any]:
    """The values at a path that begins here. It passes through lists below its first name; names may have dots."""
    if not path:
        yield value
    for key, each in value.items() if isinstance(value, dict) else ():
        for length in range(1, len(path) + 1):
            if key.lower() == ".".join(path[:length]):
                yield from _inside(each, path[length:])


def _inside(value: Any, path: Sequence[str]) -> Iterator[Any]:
    yield from _at(value, path)
    for each in value if path and isinstance(value, list) else ():
        yield from _inside(each, path)


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _as_in_json(text: str) -> str:
    """The longest word that needs no escape: quotes and non-ASCII letters may be written in several ways."""
    plain = [
        part for part in text.split() if part.isascii() and part.isprintable() and not {*part} & {'"', "\\", "/"}
    ]
    return max(plain, key=len, default="")


def _literal(name: str, text: str) -> str:
    if not isinstance(text, str) or (not text and name != "value") or storable(text) != text:
        raise BadField(name, text, "text without NUL or unpaired surrogates")
    for each in "!%_":
        text = text.replace(each, f"!{each}")
    return text.lower()
