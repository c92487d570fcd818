"""Insert a job that has a unique key. Who holds it is said by a constraint of the table, never by a look before."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from mayfly.db.connection import AnyConnection
from mayfly.db.dialects import Dialect
from mayfly.errors import KeyHeld
from mayfly.queue.options import ERROR, LIVE, PENDING, REPLACE, TIME
from mayfly.schema.tables import JobTable

# What becomes another's when it is replaced: all that its producer said, but for how long the key is held.
REPLACED = ("type", "payload", "lane", "max_attempts", "priority", "run_at", "group_key", "expires_at")


class InsertResult(NamedTuple):
    """To one try."""

    job_id: int | None  # None: the key has been set free, try again
    is_ours: bool = False  # inserted, or put in the holder's place


def insert_unique(
    connection: AnyConnection, jobs: JobTable, row: Mapping[str, Any], on_conflict: str | None, now: datetime | None
) -> InsertResult:
    """The job that holds the key from now on. Without `now` the database's own clock is read in the statement."""
    ask = _insert_returning if connection.dialect.has_insert_returning else _insert_then_find
    holder = InsertResult(None)
    while holder.job_id is None:
        holder = ask(connection, jobs, row, on_conflict == REPLACE, now)
    if on_conflict == ERROR and not holder.is_ours:
        raise KeyHeld(row["unique_key"], holder.job_id)
    return holder


def _insert_returning(
    connection: AnyConnection, jobs: JobTable, row: Mapping[str, Any], replaces: bool, now: datetime | None
) -> InsertResult:
    dialect, whose = connection.dialect, {"unique_key": row["unique_key"], "now": now}
    inserting = insert_or_leave_statement(dialect, jobs, tuple(row), replaces)
    found = connection.execute(inserting, {**row, "now": now} if replaces else row).scalar()
    if found is not None:
        return InsertResult(int(found), is_ours=True)
    found = connection.execute(holder_statement(dialect, jobs), whose).scalar()
    if found is None:
        return InsertResult(None)  # the holder ended between the two statements
    if found < 0:
        connection.execute(release_statement(dialect, jobs, ["unique_key"]), whose)
        return InsertResult(None)
    return InsertResult(int(found))


def _insert_then_find(
    connection: AnyConnection, jobs: JobTable, row: Mapping[str, Any], replaces: bool, now: datetime | None
) -> InsertResult:
    """All in one statement: a second one would not see the holder inside an application's REPEATABLE READ."""
    dialect = connection.dialect
    finding = insert_or_find_statement(dialect, jobs, tuple(row), replaces)
    found = dialect.found(connection.execute(finding, {**row, "now": now}).lastrowid)
    return InsertResult(None) if found.is_released else InsertResult(found.id, is_ours=not found.is_held)


def release_finished(
    connection: AnyConnection, jobs: JobTable, keys: Iterable[str], now: datetime | None
) -> Collection[str]:
    """Set those keys free whose time is over; which they were."""
    values = {f"key_{number}": key for number, key in enumerate(sorted(keys))}
    look = finished_statement(connection.dialect, jobs, list(values))
    over = set(connection.execute(look, {**values, "now": now}).scalars())
    if over:
        connection.execute(release_statement(connection.dialect, jobs, list(values)), {**values, "now": now})
    return over


# --- statements -------------------------------------------------------------------------------------------


def held_keys(jobs: JobTable) -> str:
    """Whether a row holds its key. A job of scope `pending` that was once claimed never does again.

    Written out, not bound: a partial index is matched by these words, and a parameter could be anything.
    """
    c = jobs.c
    return (
        f"{c.unique_key} IS NOT NULL AND ({c.unique_scope} = '{LIVE}'"
        f" AND {c.status} IN ('{jobs.pending}', '{jobs.processing}')"
        f" OR {c.unique_scope} = '{PENDING}' AND {c.status} = '{jobs.pending}' AND {c.claims} = 0"
        f" OR {c.unique_scope} = '{TIME}')"
    )


def keeping_keys(dialect: Dialect, jobs: JobTable) -> tuple[str, str]:
    """What stands before INTO and after the values so that the holder is left alone."""
    return dialect.keeping(jobs.c.unique_key, held_keys(jobs))


@cache
def insert_or_leave_statement(
    dialect: Dialect, jobs: JobTable, columns: tuple[str, ...], replaces: bool = False
) -> str:
    """One that returns no id where the holder was left alone."""
    before, after = keeping_keys(dialect, jobs)
    if replaces:
        after = dialect.replacing(
            jobs.c.unique_key, held_keys(jobs), _replacement(dialect, columns), _replaceable(dialect, jobs)
        )
    return f"{dialect.insert(jobs.table, columns, before)}{after} RETURNING {jobs.c.id}"


@cache
def insert_or_find_statement(dialect: Dialect, jobs: JobTable, columns: tuple[str, ...], replaces: bool) -> str:
    """One whose `lastrowid` is for the dialect to read."""
    changes = _replacement(dialect, columns) if replaces else {}
    over, replaceable = _is_finished(dialect, jobs), _replaceable(dialect, jobs) if replaces else "FALSE"
    return dialect.insert(jobs.table, columns) + dialect.finding(
        jobs.c.id, jobs.c.unique_key, over, changes, replaceable
    )


@cache
def holder_statement(dialect: Dialect, jobs: JobTable) -> str:
    """The holder's id, negative if its time is over: one number is read alike through every driver."""
    c = jobs.c
    told = f"CASE WHEN {_is_finished(dialect, jobs)} THEN -{c.id} ELSE {c.id} END"
    return f"SELECT {told} FROM {jobs.table} WHERE {c.unique_key} = :unique_key AND {held_keys(jobs)}"


def finished_statement(dialect: Dialect, jobs: JobTable, names: Collection[str]) -> str:
    look = f"SELECT {jobs.c.unique_key} FROM {jobs.table} WHERE {_whose(dialect, jobs, names)}"
    return f"{look} AND {_is_finished(dialect, jobs)}{dialect.newest}"


def held_among_statement(dialect: Dialect, jobs: JobTable, names: Collection[str]) -> str:
    """Those of these keys that somebody holds."""
    return f"SELECT {jobs.c.unique_key} FROM {jobs.table} WHERE {_whose(dialect, jobs, names)}"


def release_statement(dialect: Dialect, jobs: JobTable, names: Collection[str]) -> str:
    which = f"{_whose(dialect, jobs, names)} AND {_is_finished(dialect, jobs)}"
    return f"UPDATE {jobs.table} SET {jobs.c.unique_key} = NULL WHERE {which}"


def _whose(dialect: Dialect, jobs: JobTable, names: Collection[str]) -> str:
    """The holders of the keys that are given under these names, by the index."""
    listed = ", ".join(f":{name}" for name in names)
    return f"{dialect.held_key(jobs.c.unique_key)} IN ({listed}) AND {held_keys(jobs)}"


def _is_finished(dialect: Dialect, jobs: JobTable) -> str:
    c, table = jobs.c, jobs.table
    now = f"COALESCE(:now, {dialect.utc_now})"
    return f"{table}.{c.unique_scope} = '{TIME}' AND {table}.{c.unique_until} <= {now}"


def _replaceable(dialect: Dialect, jobs: JobTable) -> str:
    """No runner has ever taken it, and it has not outlived its key."""
    c, table = jobs.c, jobs.table
    return f"{table}.{c.status} = '{jobs.pending}' AND {table}.{c.claims} = 0 AND NOT ({_is_finished(dialect, jobs)})"


def _replacement(dialect: Dialect, columns: Collection[str]) -> dict[str, str]:
    """The new value of each column; what is not said is what it would be for a new job."""
    unsaid = {"run_at": dialect.utc_now}
    return {name: dialect.given(name) if name in columns else unsaid.get(name, "NULL") for name in REPLACED}
