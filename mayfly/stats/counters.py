"""Figures that only grow, whatever is pruned: all jobs ever settled, by lane, type and outcome."""

from collections.abc import Mapping, Sequence
from typing import Any

from mayfly.db.connection import Connection
from mayfly.stats.histograms import Count, Key, Tally, add, histogram_text, stored_count

KEY = ("lane", "type", "outcome")
FIGURES = ("jobs", "durations", "waits")
NOTHING = {"jobs": 0, "durations": "{}", "waits": "{}"}

# One statement, so that nobody sees totals between the two tables: a counter must never seem to shrink.
ALL = (
    "SELECT lane, type, outcome, jobs, durations, waits FROM mayfly_counters UNION ALL"
    " SELECT lane, type, outcome, jobs, durations, waits FROM mayfly_totals WHERE worker_id > ''"
)


def read_counters(connection: Connection) -> Tally:
    """Of all times, what runners that are still at work have written included."""
    tally: dict[Key, Count] = {}
    for lane, type_name, outcome, *figures in connection.execute(ALL).all():
        tally = add(tally, {(lane, type_name, outcome): stored_count(*figures)})
    return tally


def add_to_counters(connection: Connection, counted: Tally) -> None:
    """In the transaction that takes the same totals away, or a repeated one would count them twice."""
    add_counts(connection, "mayfly_counters", KEY, counted)


def add_counts(
    connection: Connection, table: str, key: Sequence[str], counted: Mapping[tuple[Any, ...], Count]
) -> None:
    """To the rows of a table, in one order for all: who comes second waits, and neither waits for the other."""
    where = " AND ".join(f"{name} = :{name}" for name in key)
    for values, count in sorted(counted.items()):
        row = dict(zip(key, values, strict=True))
        total = _locked(connection, table, row).plus(count)
        figures = {
            "jobs": total.jobs,
            "durations": histogram_text(total.durations),
            "waits": histogram_text(total.waits),
        }
        changes = connection.dialect.assignments(figures)
        connection.execute(f"UPDATE {table} SET {changes} WHERE {where}", {**row, **figures})


def _locked(connection: Connection, table: str, row: Mapping[str, Any]) -> Count:
    """What was counted so far. A row must be there to be locked: of two who bring a new one, the second waits.

    Not inserted on the off-chance: MySQL locks what it finds for reading then, and two who go on wait for each other.
    """
    dialect = connection.dialect
    where = " AND ".join(f"{name} = :{name}" for name in row)
    looking = f"SELECT {', '.join(FIGURES)} FROM {table} WHERE {where}{dialect.row_lock}"
    found = connection.execute(looking, row).first()
    if found is None:
        connection.execute(dialect.insert_missing(table, tuple(row), (*row, *FIGURES)), {**row, **NOTHING})
        found = connection.execute(looking, row).first()
    return stored_count(*found)
