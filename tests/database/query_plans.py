"""How a database carries out a statement, told alike for all of them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.db.dialects import Values

BITMAP = "Bitmap Heap Scan"


@dataclass(frozen=True)
class Look:
    """What was done to the tables of one statement, which was really run where the database can say so."""

    indexes: tuple[str, ...]  # that rows were found by
    scans: tuple[str, ...]  # tables or indexes that were read from one end to the other
    sorts: bool
    rows: int | None  # that were read; SQLite does not tell


def explained(database: Database, statement: str, values: Values) -> Look:
    return database.run(lambda connection: explain(connection, statement, values))


def explain(connection: Connection, statement: str, values: Values) -> Look:
    plan = plan_of(connection, statement, values)
    readers = {"sqlite": _of_sqlite, "mysql": _of_mariadb, "postgresql": _of_postgres}
    return readers[connection.dialect.name](plan)


def plan_of(connection: Connection, statement: str, values: Values) -> Any:
    """In the database's own words: lines, or an object."""
    if connection.dialect.name == "sqlite":
        return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values).all()]
    analysing = "ANALYZE FORMAT=JSON" if connection.dialect.name == "mysql" else "EXPLAIN (ANALYZE, FORMAT JSON)"
    return json.loads(connection.execute(f"{analysing} {statement}", values).scalar())


def _of_sqlite(details: list[str]) -> Look:
    """`SEARCH mayfly_jobs USING INDEX mayfly_jobs_claim (lane=? …)`, or `SCAN mayfly_jobs`."""
    searches = [detail for detail in details if detail.startswith("SEARCH")]
    return Look(
        indexes=tuple(detail.split(" INDEX ")[-1].split()[0] for detail in searches),
        scans=tuple(detail for detail in details if detail.startswith("SCAN mayfly")),
        sorts=any("TEMP B-TREE" in detail for detail in details),
        rows=None,
    )


def _of_mariadb(plan: Any) -> Look:
    """Each `table` says how it was read, and `r_rows` how many rows that gave, each of `r_loops` times."""
    tables = [node for node in _nodes(plan) if str(node.get("table_name", "<")).startswith("mayfly")]
    ranges = ("range", "ref", "const", "eq_ref")
    return Look(
        indexes=tuple(node["key"] for node in tables if node["access_type"] in ranges),
        scans=tuple(node["table_name"] for node in tables if node["access_type"] not in ranges),
        sorts=any("filesort" in node or "temporary_table" in node for node in _nodes(plan)),
        rows=round(sum((node["r_rows"] or 0) * node["r_loops"] for node in tables)),
    )


def _of_postgres(plan: Any) -> Look:
    """An index scan with a condition is a search, and a bitmap only carries what one has found to the table."""
    nodes = [node for node in _nodes(plan) if "Node Type" in node]
    reads = [node for node in nodes if "Relation Name" in node or "Index Name" in node]
    searches = [node for node in reads if "Index Cond" in node]
    removed = ("Rows Removed by Filter", "Rows Removed by Index Recheck")
    return Look(
        indexes=tuple(node["Index Name"] for node in searches),
        scans=tuple(node["Node Type"] for node in reads if node not in searches and node["Node Type"] != BITMAP),
        sorts=any("Sort" in node["Node Type"] for node in nodes),
        rows=sum((node["Actual Rows"] + sum(node.get(key, 0) for key in removed)) * node["Actual Loops"]
                 for node in searches),
    )  # fmt: skip


def _nodes(plan: Any) -> Iterator[dict[str, Any]]:
    """Every object in the plan, however deep."""
    if isinstance(plan, dict):
        yield plan
        plan = list(plan.values())
    if isinstance(plan, list):
        for each in plan:
            yield from _nodes(each)
