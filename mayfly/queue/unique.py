"""Insert a job that has a unique key. Who holds it is said by a constraint of the table, never by a look before."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from mayfly.db.connection import AnyConnection
from mayfly.db.dialects import Dialect
from mayfly.errors import KeyHeld
from mayfly.queue.options import ERROR, LIVE, PENDING, REPLACE, TIME

# What becomes another's when it is replaced: all that its producer said, but for how long the key is held.
REPLACED = ("type", "payload", "lane", "max_attempts", "priority", "run_at", "group_key", "expires_at")


class InsertResult(NamedTuple):
    """To one try."""

    job_id: int | None  # None: the key has been set free, try again
    is_ours: bool = False  # inserted, or put in the holder's place


def insert_unique(
    connection: AnyConnection, row: Mapping[str, Any], on_conflict: str | None, now: datetime | None
) -> InsertResult:
    """The job that holds the key from now on. Without `now` the database's own clock is read in the statement."""
    ask = _insert_returning if connection.dialect.has_insert_returning else _insert_then_find
    holder = InsertResult(None)
    while holder.job_id is None:
        holder = ask(connection, row, on_conflict == REPLACE, now)
    if on_conflict == ERROR and not holder.is_ours:
        raise KeyHeld(row["unique_key"], holder.job_id)
    return holder


def _insert_returning(
    connection: AnyConnection, row: Mapping[str, Any], replaces: bool, now: datetime | None
) -> InsertResult:
    dialect, whose = connection.dialect, {"unique_key": row["unique_key"], "now": now}
    inserting = insert_or_leave_statement(dialect, tuple(row), replaces)
    found = connection.execute(inserting, {**row, "now": now} if replaces else row).scalar()
    if found is not None:
        return InsertResult(int(found), is_ours=True)
    found = connection.execute(holder_statement(dialect), whose).scalar()
    if found is None:
        return InsertResult(None)  # the holder ended between the two statements
    if found < 0:
        connection.execute(release_statement(dialect, ["unique_key"]), whose)
        return InsertResult(None)
    return InsertResult(int(found))


def _insert_then_find(
    connection: AnyConnection, row: Mapping[str, Any], replaces: bool, now: datetime | None
) -> InsertResult:
    """All in one statement: a second one would not see the holder inside an application's REPEATABLE READ."""
    dialect = connection.dialect
    finding = insert_or_find_statement(dialect, tuple(row), replaces)
    found = dialect.found(connection.execute(finding, {**row, "now": now}).lastrowid)
    return InsertResult(None) if found.is_released else InsertResult(found.id, is_ours=not found.is_held)


def release_finished(connection: AnyConnection, keys: Iterable[str], now: datetime | None) -> Collection[str]:
    """Set those keys free whose time is over; which they were."""
    values = {f"key_{number}": key for number, key in enumerate(sorted(keys))}
    look = finished_statement(connection.dialect, list(values))
    over = set(connection.execute(look, {**values, "now": now}).scalars())
    if over:
        connection.execute(release_statement(connection.dialect, list(values)), {**values, "now": now})
    return over


# --- statements -------------------------------------------------------------------------------------------


def held_keys() -> str:
    """Whether a row holds its key. A job of scope `pending` that was once claimed never does again.

    Written out, not bound: a partial index is matched by these words, and a parameter could be anything.
    """
    return (
        f"unique_key IS NOT NULL AND (unique_scope = '{LIVE}'"
        f" AND status IN ('pending', 'processing')"
        f" OR unique_scope = '{PENDING}' AND status = 'pending' AND claims = 0"
        f" OR unique_scope = '{TIME}')"
    )


def keeping_keys(dialect: Dialect) -> tuple[str, str]:
    """What stands before INTO and after the values so that the holder is left alone."""
    return dialect.keeping("unique_key", held_keys())


@cache
def insert_or_leave_statement(dialect: Dialect, columns: tuple[str, ...], replaces: bool = False) -> str:
    """One that returns no id where the holder was left alone."""
    before, after = keeping_keys(dialect)
    if replaces:
        after = dialect.replacing("unique_key", held_keys(), _replacement(dialect, columns), _replaceable(dialect))
    return f"{dialect.insert('mayfly_jobs', columns, before)}{after} RETURNING id"


@cache
def insert_or_find_statement(dialect: Dialect, columns: tuple[str, ...], replaces: bool) -> str:
    """One whose `lastrowid` is for the dialect to read."""
    changes = _replacement(dialect, columns) if replaces else {}
    over, replaceable = _is_finished(dialect), _replaceable(dialect) if replaces else "FALSE"
    return dialect.insert("mayfly_jobs", columns) + dialect.finding("id", "unique_key", over, changes, replaceable)


@cache
def holder_statement(dialect: Dialect) -> str:
    """The holder's id, negative if its time is over: one number is read alike through every driver."""
    told = f"CASE WHEN {_is_finished(dialect)} THEN -id ELSE id END"
    return f"SELECT {told} FROM mayfly_jobs WHERE unique_key = :unique_key AND {held_keys()}"


def finished_statement(dialect: Dialect, names: Collection[str]) -> str:
    look = f"SELECT unique_key FROM mayfly_jobs WHERE {_whose(dialect, names)}"
    return f"{look} AND {_is_finished(dialect)}{dialect.newest}"


def held_among_statement(dialect: Dialect, names: Collection[str]) -> str:
    """Those of these keys that somebody holds."""
    return f"SELECT unique_key FROM mayfly_jobs WHERE {_whose(dialect, names)}"


def release_statement(dialect: Dialect, names: Collection[str]) -> str:
    which = f"{_whose(dialect, names)} AND {_is_finished(dialect)}"
    return f"UPDATE mayfly_jobs SET unique_key = NULL WHERE {which}"


def _whose(dialect: Dialect, names: Collection[str]) -> str:
    """The holders of the keys that are given under these names, by the index."""
    listed = ", ".join(f":{name}" for name in names)
    return f"{dialect.held_key('unique_key')} IN ({listed}) AND {held_keys()}"


def _is_finished(dialect: Dialect) -> str:
    now = f"COALESCE(:now, {dialect.utc_now})"
    return f"mayfly_jobs.unique_scope = '{TIME}' AND mayfly_jobs.unique_until <= {now}"


def _replaceable(dialect: Dialect) -> str:
    """No runner has ever taken it, and it has not outlived its key."""
    return f"mayfly_jobs.status = 'pending' AND mayfly_jobs.claims = 0 AND NOT ({_is_finished(dialect)})"


def _replacement(dialect: Dialect, columns: Collection[str]) -> dict[str, str]:
    """The new value of each column; what is not said is what it would be for a new job."""
    unsaid = {"run_at": dialect.utc_now}
    return {name: dialect.given(name) if name in columns else unsaid.get(name, "NULL") for name in REPLACED}
