"""The SQL of a source: an application's own table whose rows become jobs. Pure: values in, statements out.

A due row has a pending status, a time that has passed, and no live job. For each pending value and priority, due rows
are one range of an index on status, priority and time, so a large table costs no more than a small one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cached_property
from typing import Any, NamedTuple

from mayfly.db.connection import in_list, placeholders
from mayfly.db.dialects import Dialect, TableColumns
from mayfly.queue.insert import HOLDERS
from mayfly.schema.tables import NORMAL, PRIORITIES, SOURCE
from mayfly.settings.values import SourceSettings

MICROSECOND = timedelta(microseconds=1)
SECOND = timedelta(seconds=1)
ALIAS = "source_row"  # of the table in each SELECT

# Below every stored time, by format. The number is within the range of BIGINT.
EARLIEST = {
    "datetime": "'-infinity'",
    "text": "''",
    "epoch": "-9223372036854775807",
    "epoch_ms": "-9223372036854775807",
}

Value = str | int | None


# --- times ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TimeFormat:
    """How the application stores its times."""

    kind: str  # datetime, text, epoch or epoch_ms
    timezone: str = "UTC"

    @property
    def is_number(self) -> bool:
        return self.kind in ("epoch", "epoch_ms")

    @cached_property
    def _zone(self) -> tzinfo:
        if self.timezone == "UTC":
            return UTC
        from zoneinfo import ZoneInfo  # slow to import, and most tables store UTC

        return ZoneInfo(self.timezone)

    def stored(self, now: datetime) -> str | int:
        """A time as it is written: in whole seconds, which every column can store."""
        if self.is_number:
            return self._number(now)
        return self._local(now).replace(microsecond=0).isoformat(" ")

    def latest_due(self, now: datetime) -> str | int:
        """The latest stored time that has passed."""
        return self._number(now) if self.is_number else _latest_passed(now, self._zone).isoformat(" ", "microseconds")

    def utc(self, stored: object) -> datetime | None:
        """None for a value that is not a time. A local time that occurs twice means the first one."""
        try:
            if self.is_number:
                seconds = float(str(stored)) / (1000 if self.kind == "epoch_ms" else 1)
                return datetime.fromtimestamp(seconds, UTC)
            time = stored if isinstance(stored, datetime) else datetime.fromisoformat(str(stored))
        except (ValueError, OverflowError, OSError):
            return None
        return (time if time.tzinfo else time.replace(tzinfo=self._zone)).astimezone(UTC)

    def _local(self, now: datetime) -> datetime:
        return now.astimezone(self._zone).replace(tzinfo=None, fold=0)

    def _number(self, now: datetime) -> int:
        return int(now.timestamp() * (1000 if self.kind == "epoch_ms" else 1))


def _latest_passed(now: datetime, zone: tzinfo) -> datetime:
    """The latest local time that has occurred. While an hour is repeated in autumn, all of it has."""
    local = now.astimezone(zone)
    if not local.fold:
        return local.replace(tzinfo=None)
    repeated = local.replace(fold=0).utcoffset() or timedelta()
    low, high = 0, (repeated - (local.utcoffset() or timedelta())) // SECOND
    while low < high:  # the first second that does not occur twice
        middle = (low + high) // 2
        later = local + middle * SECOND
        is_ambiguous = later.replace(fold=0).utcoffset() != later.replace(fold=1).utcoffset()
        low, high = (middle + 1, high) if is_ambiguous else (low, middle)
    return local.replace(tzinfo=None, fold=0, microsecond=0) + low * SECOND - MICROSECOND


# --- statements -------------------------------------------------------------------------------------------


class Statement(NamedTuple):
    sql: str
    values: Mapping[str, Any]


class RowPosition(NamedTuple):
    """A due row in the order of a claim: high priority first, then the oldest, then the lowest key."""

    priority: int
    time: Any
    key: Any

    @property
    def plain(self) -> tuple[int, str | int, str | int]:
        """As a file can store it, and as a parameter: a driver might convert a time that has no zone."""
        return self.priority, _plain(self.time), _plain(self.key)


def _plain(value: Any) -> str | int:
    return value if isinstance(value, int) else str(value)


@dataclass(frozen=True)
class SourceTable:
    """The statements of one source in the dialect of its database."""

    source: SourceSettings
    dialect: Dialect

    @cached_property
    def times(self) -> TimeFormat:
        return TimeFormat(self.source.run_at_format, self.source.timezone)

    @cached_property
    def table(self) -> str:
        return self.dialect.quoted(self.source.table)

    @cached_property
    def id(self) -> str:
        return f"{ALIAS}.{self.dialect.quoted(self.source.id)}"

    def column(self, name: str) -> str:
        return f"{ALIAS}.{self.dialect.quoted(name)}"

    # --- due rows ---

    def count(self, now: datetime, cap: int) -> Statement:
        """The number of due rows in one row per range; each count stops at the cap.

        In the order of the index: PostgreSQL would take rows with a past time for likely to be pending, and scan.
        """
        parts, values = [], self._due_values(now)
        order = f" ORDER BY {self._time}, {self.id}" if self.source.run_at else ""
        for number, condition in enumerate(self._due_conditions()):
            rows = f"SELECT {self.id} FROM {self.table} AS {ALIAS} WHERE {condition}{order} LIMIT {cap}"
            parts.append(f"SELECT COUNT(*) FROM ({rows}) AS range_{number}")
        return Statement(" UNION ALL ".join(parts), values)

    def candidates(
        self, now: datetime, priority: int, size: int, after: RowPosition | None = None
    ) -> list[list[Statement]]:
        """Time and key of due rows, in their order, read without locks.

        Two groups if they begin after a position: rows of the same time, then later ones. With one condition for
        both, a database would pass over all earlier rows of that time. A group has one statement per range.
        """
        order = f"{self._time}, {self.id}" if self.source.run_at else self.id
        values, beginnings = self._due_values(now), [""]
        if after is not None:
            _priority, values["after_time"], values["after_key"] = after.plain
            later = f" AND {self.id} > :after_key"
            beginnings = [later]
            if self.source.run_at:
                beginnings = [f" AND {self._time} = :after_time{later}", f" AND {self._time} > :after_time"]
        selected = f"SELECT {self._time}, {self.id} FROM {self.table} AS {ALIAS}"
        return [
            [
                Statement(f"{selected} WHERE {condition}{beginning} ORDER BY {order} LIMIT {size}", values)
                for condition in self._due_conditions(priority)
            ]
            for beginning in beginnings
        ]

    def oldest(self, now: datetime) -> list[Statement]:
        """The time of the oldest due row of each range."""
        selected = f"SELECT {self._time} FROM {self.table} AS {ALIAS}"
        return [
            Statement(f"{selected} WHERE {condition} ORDER BY {self._time} LIMIT 1", self._due_values(now))
            for condition in self._due_conditions()
            if self.source.run_at
        ]

    @property
    def priorities(self) -> Sequence[int]:
        """The priorities that rows can have, high first."""
        return PRIORITIES if self.source.priority else (NORMAL,)

    @property
    def _time(self) -> str:
        return self.column(self.source.run_at or self.source.id)

    def _due_conditions(self, priority: int | None = None) -> list[str]:
        """One for each pending value, and one for stale locks."""
        statuses = [self._is_pending(number, value) for number, value in self._pending]
        if self.source.adopt_after is not None:
            statuses.append(self._is_stale)
        conditions = []
        for status in statuses:
            parts = [status, self._has_priority(priority), self._is_due, self._meets_where, self._has_no_job]
            conditions.append(" AND ".join(filter(None, parts)))
        return conditions

    @property
    def _pending(self) -> list[tuple[int, Value]]:
        return list(enumerate(self.source.pending))

    def _is_pending(self, number: int, value: Value) -> str:
        equal = self._equals(self.source.status, f"pending_{number}", value)
        if value is None or not self.dialect.needs_both_bounds:
            return equal
        status = self.column(self.source.status)
        return f"{equal} AND {status} >= :pending_{number} AND {status} <= :pending_{number}"

    def _equals(self, column: str, parameter: str, value: Value) -> str:
        return f"{self.column(column)} {'IS NULL' if value is None else f'= :{parameter}'}"

    @property
    def _is_stale(self) -> str:
        """Claimed by an earlier worker that never finished."""
        assert self.source.locked_at is not None
        locked_at = self.column(self.source.locked_at)
        return f"{self.column(self.source.status)} = :processing AND {self._passed(locked_at, 'stale')}"

    @property
    def _is_due(self) -> str:
        if not self.source.run_at:
            return ""
        passed = self._passed(self._time, "due")
        if not self.dialect.needs_both_bounds:
            return passed
        return f"{self._time} >= {EARLIEST[self.times.kind]} AND {passed}"

    def _passed(self, column: str, parameter: str) -> str:
        """Texts are compared: with a T or a space between date and time. The first condition uses an index."""
        if self.times.is_number or (self.times.kind == "datetime" and self.dialect.has_times):
            return f"{column} <= :{parameter}"
        return f"{column} <= :{parameter}_t AND REPLACE({column}, 'T', ' ') <= :{parameter}"

    def _has_priority(self, priority: int | None) -> str:
        if priority is None or self.source.priority is None:
            return ""
        column = self.column(self.source.priority)
        named = {each: placeholders(self._priority_names(each)) for each in PRIORITIES}
        if priority != NORMAL:
            return f"{column} IN ({named[priority]})" if named[priority] else "1 = 0"
        others = ", ".join(filter(None, (named[each] for each in PRIORITIES if each != NORMAL)))
        return f"({column} IS NULL OR {column} NOT IN ({others}))" if others else ""

    def _priority_names(self, priority: int) -> list[str]:
        meanings = enumerate(self.source.priorities.values())
        return [f"priority_{number}" for number, meaning in meanings if meaning == priority]

    @property
    def _meets_where(self) -> str:
        return f"({self.dialect.verbatim(self.source.where)})" if self.source.where else ""

    @property
    def _has_no_job(self) -> str:
        """A row that was set back to pending waits until its job has ended."""
        held = f"{self.dialect.held_key('unique_key')} = {self._unique_key}"
        return f"NOT EXISTS (SELECT 1 FROM mayfly_jobs WHERE {held} AND {HOLDERS}{self.dialect.for_each_row})"

    @property
    def _unique_key(self) -> str:
        return self.dialect.row_key(f"{SOURCE}{self.source.name}:", self.id)

    def _due_values(self, now: datetime) -> dict[str, Any]:
        source = self.source
        values: dict[str, Any] = {f"pending_{number}": value for number, value in self._pending if value is not None}
        values |= {f"priority_{number}": value for number, value in enumerate(source.priorities)}
        values["processing"] = source.processing
        times = {"due": now, "stale": now - timedelta(seconds=source.adopt_after or 0)}
        for name, time in times.items():
            latest = self.times.latest_due(time)
            values |= {name: latest, f"{name}_t": latest.replace(" ", "T") if isinstance(latest, str) else latest}
        return values

    # --- claim ---

    def lock(self, columns: TableColumns, names: Sequence[str], keys: Sequence[Any], now: datetime) -> Statement:
        """Lock the rows that are still due; selects time, payload, and the named columns."""
        values = self._due_values(now)
        statuses = [self._equals(self.source.status, f"pending_{number}", value) for number, value in self._pending]
        if self.source.adopt_after is not None:
            statuses.append(f"({self._is_stale})")
        still_due = " AND ".join(filter(None, [f"({' OR '.join(statuses)})", self._is_due, self._meets_where]))
        condition = f"{self.among(keys, values)} AND {checked(still_due)}"
        return self._select_rows(columns, names, condition, self.dialect.claim_lock, values)

    def lock_processing(
        self, columns: TableColumns, names: Sequence[str], keys: Sequence[Any], worker_id: str | None
    ) -> Statement:
        """Lock the rows of retries that the application has not changed since this worker; selects the same."""
        values: dict[str, Any] = {"processing": self.source.processing}
        unchanged = f"{self.column(self.source.status)} = :processing"
        if self.source.worker_id is not None and worker_id is not None:
            values["worker_id"] = worker_id
            unchanged += f" AND {self.column(self.source.worker_id)} = :worker_id"
        condition = f"{self.among(keys, values)} AND {checked(unchanged)}"
        return self._select_rows(columns, names, condition, self.dialect.row_lock, values)

    def _select_rows(
        self, columns: TableColumns, names: Sequence[str], condition: str, lock: str, values: Mapping[str, Any]
    ) -> Statement:
        chosen = ", ".join([self._time, self._payload(columns), *map(self.column, names)])
        return Statement(
            f"SELECT {chosen} FROM {self.table} AS {ALIAS} WHERE {condition} ORDER BY {self.id}{lock}", values
        )

    @property
    def returns_jobs(self) -> bool:
        """Whether `insert_jobs` selects the id and the unique key of each new job."""
        return self.dialect.has_insert_returning

    def insert_jobs(self, columns: TableColumns, keys: Sequence[Any], job: Mapping[str, Any]) -> Statement:
        """Insert the jobs of locked rows, already claimed. A row that has a live job gets no second one."""
        before, after = self.dialect.keeping("unique_key", HOLDERS)
        returning = " RETURNING id, unique_key" if self.returns_jobs else ""
        values = {**job, **{f"priority_{number}": value for number, value in enumerate(self.source.priorities)}}
        selected = {
            "type": ":type",
            "payload": self._payload(columns),
            "lane": ":lane",
            "max_attempts": ":max_attempts",
            "priority": self._priority,
            "run_at": ":now",
            "unique_key": self._unique_key,
            "status": "'processing'",
            "worker_id": ":worker_id",
            "locked_at": ":now",
            "lease_until": ":lease_until",
            "attempts": "1",
            "claims": "1",
        }
        if self.source.worker_id is not None:
            selected["row_worker_id"] = ":worker_id"
        return Statement(
            f"INSERT {before}INTO mayfly_jobs ({', '.join(selected)}) SELECT {', '.join(selected.values())}"
            f" FROM {self.table} AS {ALIAS} WHERE {self.among(keys, values)} ORDER BY {self.id}{after}{returning}",
            values,
        )

    def _payload(self, columns: TableColumns) -> str:
        names = self.source.payload or tuple(columns)
        return self.dialect.json_object({name: self._json_value(name, columns) for name in names})

    def _json_value(self, name: str, columns: TableColumns) -> str:
        return f"HEX({self.column(name)})" if columns[name].is_binary else self.column(name)

    @property
    def _priority(self) -> str:
        if self.source.priority is None or not self.source.priorities:
            return str(NORMAL)
        meanings = enumerate(self.source.priorities.values())
        cases = " ".join(f"WHEN :priority_{number} THEN {meaning}" for number, meaning in meanings)
        return f"CASE {self.column(self.source.priority)} {cases} ELSE {NORMAL} END"

    # --- write back ---

    def update(self, keys: Sequence[Any], changes: Mapping[str, Any], guard: Mapping[str, Any]) -> Statement:
        """Set columns, given by their names, of the rows in which the columns of the guard have these values."""
        values: dict[str, Any] = {}
        quoted, numbered = self.dialect.quoted, enumerate(changes.items())
        assigned = []
        for number, (column, value) in numbered:
            values[f"new_{number}"] = value
            assigned.append(f"{quoted(column)} = :new_{number}")
        condition = self._unaliased(keys, values, guard)
        return Statement(f"UPDATE {self.table} SET {', '.join(assigned)} WHERE {condition}", values)

    def find(self, keys: Sequence[Any], guard: Mapping[str, Any]) -> Statement:
        """The keys of those rows in which the columns of the guard have these values."""
        values: dict[str, Any] = {}
        condition = self._unaliased(keys, values, guard)
        return Statement(f"SELECT {self.dialect.quoted(self.source.id)} FROM {self.table} WHERE {condition}", values)

    def _unaliased(self, keys: Sequence[Any], values: dict[str, Any], guard: Mapping[str, Any]) -> str:
        parts = []
        found = among(self.dialect.quoted(self.source.id), keys, values)
        for number, (column, value) in enumerate(guard.items()):
            values[f"old_{number}"] = value
            parts.append(f"{self.dialect.quoted(column)} = :old_{number}")
        return f"{found} AND {checked(' AND '.join(parts))}" if parts else found

    def among(self, keys: Sequence[Any], values: dict[str, Any]) -> str:
        return among(self.id, keys, values)


def checked(condition: str) -> str:
    """A condition for rows that are found by their keys: no index serves a CASE.

    A database without current statistics would otherwise read all rows with this status to find a few keys.
    """
    return f"CASE WHEN {condition} THEN 1 ELSE 0 END = 1"


def among(column: str, keys: Sequence[Any], values: dict[str, Any]) -> str:
    """That the column is one of the keys, in ascending order; keys that are not numbers are added to the values."""
    if all(isinstance(key, int) for key in keys):
        return in_list(column, sorted(keys))
    named = {f"key_{number}": key for number, key in enumerate(sorted(keys, key=str))}
    values |= named
    return f"{column} IN ({placeholders(named)})"
