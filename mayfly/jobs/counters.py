"""Figures that only grow, whatever is pruned: all jobs ever settled, by lane, type and outcome."""

from collections.abc import Mapping

from mayfly.connection import Connection
from mayfly.tally import Count, Key, Tally, add, histogram_text, stored_count

KEY = ("lane", "type", "outcome")
FIGURES = ("jobs", "durations", "waits")
NOTHING = {"jobs": 0, "durations": "{}", "waits": "{}"}

# One statement, so that nobody sees totals between the two tables: a counter must never seem to shrink.
ALL = (
    "SELECT lane, type, outcome, jobs, durations, waits FROM mayfly_counters UNION ALL"
    " SELECT lane, type, outcome, jobs, durations, waits FROM mayfly_totals WHERE worker_id > ''"
)
COUNTED = (
    "SELECT jobs, durations, waits FROM mayfly_counters WHERE lane = :lane AND type = :type AND outcome = :outcome"
)


def read_counters(connection: Connection) -> Tally:
    """Of all times, what runners that are still at work have written included."""
    tally: dict[Key, Count] = {}
    for lane, type_name, outcome, *figures in connection.execute(ALL).all():
        tally = add(tally, {(lane, type_name, outcome): stored_count(*figures)})
    return tally


def add_to_counters(connection: Connection, counted: Tally) -> None:
    """In the transaction that takes the same totals away, or a repeated one would count them twice."""
    where = " AND ".join(f"{name} = :{name}" for name in KEY)
    for key, count in sorted(counted.items()):
        row = dict(zip(KEY, key, strict=True))
        total = _locked(connection, row).plus(count)
        figures = {
            "jobs": total.jobs,
            "durations": histogram_text(total.durations),
            "waits": histogram_text(total.waits),
        }
        changes = connection.dialect.assignments(figures)
        connection.execute(f"UPDATE mayfly_counters SET {changes} WHERE {where}", {**row, **figures})


def _locked(connection: Connection, row: Mapping[str, str]) -> Count:
    """What was counted so far. A row must be there to be locked: of two who bring a new type, the second waits.

    Not inserted on the off-chance: MySQL locks what it finds for reading then, and two who go on wait for each other.
    """
    dialect = connection.dialect
    found = connection.execute(COUNTED + dialect.row_lock, row).first()
    if found is None:
        connection.execute(dialect.insert_missing("mayfly_counters", KEY, (*KEY, *FIGURES)), {**row, **NOTHING})
        found = connection.execute(COUNTED + dialect.row_lock, row).first()
    return stored_count(*found)
