"""Counters of all jobs ever settled, by lane, type and outcome: they only increase, whatever is pruned."""

from collections.abc import Mapping, Sequence
from typing import Any

from mayfly.db.connection import Connection
from mayfly.stats.histograms import Count, Key, Tally, add, histogram_text, stored_count

KEY = ("lane", "type", "outcome")
FIGURES = ("jobs", "durations", "waits")
NOTHING = {"jobs": 0, "durations": "{}", "waits": "{}"}

# One statement, so that no reader misses totals on their way between the two tables: a counter must never shrink.
SELECT_ALL = (
    "SELECT lane, type, outcome, jobs, durations, waits FROM mayfly_counters UNION ALL"
    " SELECT lane, type, outcome, jobs, durations, waits FROM mayfly_totals WHERE worker_id > ''"
)


def read_counters(connection: Connection) -> Tally:
    """Including what runners that are still working have written."""
    tally: dict[Key, Count] = {}
    for lane, type_name, outcome, *figures in connection.execute(SELECT_ALL).all():
        tally = add(tally, {(lane, type_name, outcome): stored_count(*figures)})
    return tally


def add_to_counters(connection: Connection, counted: Tally) -> None:
    """In the transaction that deletes the same totals, or a repeated one would count them twice."""
    add_counts(connection, "mayfly_counters", KEY, counted)


def add_counts(
    connection: Connection, table: str, key: Sequence[str], counted: Mapping[tuple[Any, ...], Count]
) -> None:
    """Add to the rows of a table, always in the same order, so that two transactions cannot deadlock."""
    where = " AND ".join(f"{name} = :{name}" for name in key)
    for values, count in sorted(counted.items()):
        row = dict(zip(key, values, strict=True))
        total = _lock_row(connection, table, row).plus(count)
        figures = {
            "jobs": total.jobs,
            "durations": histogram_text(total.durations),
            "waits": histogram_text(total.waits),
        }
        changes = connection.dialect.assignments(figures)
        connection.execute(f"UPDATE {table} SET {changes} WHERE {where}", {**row, **figures})


def _lock_row(connection: Connection, table: str, row: Mapping[str, Any]) -> Count:
    """What was counted so far. A row must exist to be locked: of two transactions that insert it, the second waits.

    Not inserted without a SELECT before: MySQL would take a shared lock on an existing row, and two transactions that
    both hold one deadlock at the UPDATE.
    """
    dialect = connection.dialect
    where = " AND ".join(f"{name} = :{name}" for name in row)
    select = f"SELECT {', '.join(FIGURES)} FROM {table} WHERE {where}{dialect.row_lock}"
    found = connection.execute(select, row).first()
    if found is None:
        connection.execute(dialect.insert_missing(table, tuple(row), (*row, *FIGURES)), {**row, **NOTHING})
        found = connection.execute(select, row).first()
    return stored_count(*found)
