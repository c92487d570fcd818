"""The plan of a statement, in the same form for every database."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.db.dialects import Values

BITMAP = "Bitmap Heap Scan"
TABLES = ("mayfly", "source_row")  # how the names of our tables begin, and the alias of an application's


@dataclass(frozen=True)
class QueryPlan:
    """What a statement does to its tables. It is really run, except on SQLite."""

    indexes: tuple[str, ...]  # used to find rows
    scans: tuple[str, ...]  # tables or indexes that were read completely
    sorts: bool
    rows: int | None  # that were read; SQLite does not report it


def query_plan(database: Database, statement: str, values: Values) -> QueryPlan:
    return database.run(lambda connection: explain_on(connection, statement, values))


def explain_on(connection: Connection, statement: str, values: Values) -> QueryPlan:
    plan = raw_plan(connection, statement, values)
    readers = {"sqlite": _of_sqlite, "mysql": _of_mariadb, "postgresql": _of_postgres}
    return readers[connection.dialect.name](plan)


def raw_plan(connection: Connection, statement: str, values: Values) -> Any:
    """As the database returns it: lines, or an object."""
    if connection.dialect.name == "sqlite":
        return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values).all()]
    analysing = "ANALYZE FORMAT=JSON" if connection.dialect.name == "mysql" else "EXPLAIN (ANALYZE, FORMAT JSON)"
    return json.loads(connection.execute(f"{analysing} {statement}", values).scalar())


def _of_sqlite(details: list[str]) -> QueryPlan:
    """`SEARCH mayfly_jobs USING INDEX mayfly_jobs_claim (lane=? …)`, or `SCAN mayfly_jobs`."""
    searches = [detail for detail in details if detail.startswith("SEARCH")]
    return QueryPlan(
        indexes=tuple(detail.split(" INDEX ")[-1].split()[0] for detail in searches),
        scans=tuple(detail for detail in details if detail.startswith(tuple(f"SCAN {name}" for name in TABLES))),
        sorts=any("TEMP B-TREE" in detail for detail in details),
        rows=None,
    )


def _of_mariadb(plan: Any) -> QueryPlan:
    """Each `table` has its access type, and `r_rows`, the rows per loop of `r_loops`."""
    tables = [node for node in _nodes(plan) if str(node.get("table_name", "<")).startswith(TABLES)]
    ranges = ("range", "ref", "const", "eq_ref")
    return QueryPlan(
        indexes=tuple(node["key"] for node in tables if node["access_type"] in ranges),
        scans=tuple(node["table_name"] for node in tables if node["access_type"] not in ranges),
        sorts=any("filesort" in node or "temporary_table" in node for node in _nodes(plan)),
        rows=round(sum((node["r_rows"] or 0) * node["r_loops"] for node in tables)),
    )


def _of_postgres(plan: Any) -> QueryPlan:
    """An index scan with a condition is a search; a bitmap scan only fetches what a search has found."""
    nodes = [node for node in _nodes(plan) if "Node Type" in node]
    reads = [node for node in nodes if "Relation Name" in node or "Index Name" in node]
    searches = [node for node in reads if "Index Cond" in node]
    removed = ("Rows Removed by Filter", "Rows Removed by Index Recheck")
    return QueryPlan(
        indexes=tuple(node["Index Name"] for node in searches),
        scans=tuple(node["Node Type"] for node in reads if node not in searches and node["Node Type"] != BITMAP),
        sorts=any("Sort" in node["Node Type"] for node in nodes),
        rows=sum((node["Actual Rows"] + sum(node.get(key, 0) for key in removed)) * node["Actual Loops"]
                 for node in searches),
    )  # fmt: skip


def _nodes(plan: Any) -> Iterator[dict[str, Any]]:
    """Every object in the plan, at any depth."""
    if isinstance(plan, dict):
        yield plan
        plan = list(plan.values())
    if isinstance(plan, list):
        for each in plan:
            yield from _nodes(each)
