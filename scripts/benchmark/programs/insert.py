"""The yardstick of enqueueing: INSERT and COMMIT, one row or a thousand at a time. Prints the seconds it took."""

import json
import sys
import time
from typing import Any

from scripts.benchmark.programs.connect import DRIVER, connect

COLUMNS = ("type", "payload", "lane", "max_attempts", "priority")
ROWS_PER_STATEMENT = 1000
MARK = "?" if DRIVER == "sqlite3" else "%s"


def insert(connection: Any, rows: list[tuple[object, ...]]) -> None:
    values = ", ".join([f"({', '.join([MARK] * len(COLUMNS))})"] * len(rows))
    cursor = connection.cursor()
    if DRIVER == "sqlite3":
        cursor.execute("BEGIN IMMEDIATE")
    statement = f"INSERT INTO mayfly_jobs ({', '.join(COLUMNS)}) VALUES {values}"
    cursor.execute(statement, [value for row in rows for value in row])
    if DRIVER == "sqlite3":
        cursor.execute("COMMIT")
    else:
        connection.commit()


def row(number: int) -> tuple[object, ...]:
    return "nothing", json.dumps({"number": number}), "default", 5, 1


def main() -> None:
    size, count = {"one": 1, "many": ROWS_PER_STATEMENT}[sys.argv[1]], int(sys.argv[2])
    connection = connect()
    insert(connection, [row(-1)])  # not measured, as in produce.py
    started = time.perf_counter()
    for begin in range(0, count, size):
        insert(connection, [row(number) for number in range(begin, min(begin + size, count))])
    print(time.perf_counter() - started)  # noqa: T201 - the result


if __name__ == "__main__":
    main()
