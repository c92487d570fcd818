"""The yardstick: what a driver can do on the same table in a loop with nothing around it. Run as a program."""

import json
import os
import sqlite3
import sys
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy.engine import make_url

from mayfly.clock import monotonic

DUE = (
    "SELECT id, type, payload FROM mayfly_jobs WHERE lane = 'default' AND status = 'pending' AND priority = 1"
    " AND run_at <= {now} ORDER BY run_at, id LIMIT {size}{lock}"
)
TAKE = (
    "UPDATE mayfly_jobs SET status = 'processing', worker_id = '{worker}', locked_at = {now}, lease_until = {now},"
    " attempts = attempts + 1, claims = claims + 1 WHERE id IN ({ids})"
)
FINISH = (
    "UPDATE mayfly_jobs SET status = 'done', started_at = {now}, finished_at = {now}, duration_ms = 0"
    " WHERE id IN ({ids}) AND worker_id = '{worker}' AND claims = 1 AND status = 'processing'"
)
CLOCKS = {
    "mysql": "UTC_TIMESTAMP(6)",
    "postgresql": "clock_timestamp()",
    "sqlite": "strftime('%Y-%m-%d %H:%M:%f000')",
}


def connect(url: str) -> Any:
    """As plainly as the driver's first example does it, but for READ COMMITTED and SQLite's write lock."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        embedded = sqlite3.connect(parsed.database or "", timeout=60, isolation_level=None)
        embedded.execute("PRAGMA synchronous=FULL")
        return embedded
    if parsed.get_backend_name() == "postgresql":
        import psycopg

        return psycopg.connect(
            host=parsed.host, port=parsed.port, user=parsed.username, password=parsed.password, dbname=parsed.database
        )
    import pymysql

    connection = pymysql.connect(
        host=parsed.host, port=parsed.port or 3306, user=parsed.username, password=parsed.password or "",
        database=parsed.database,
    )  # fmt: skip
    connection.cursor().execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
    return connection


class Loop:
    """Lock, update, run nothing, update; until nothing is left."""

    def __init__(self, url: str, size: int, each: bool) -> None:
        backend = make_url(url).get_backend_name()
        self._connection = connect(url)
        self._cursor = self._connection.cursor()
        self._words = {
            "now": CLOCKS[backend],
            "worker": f"bare-{os.getpid()}",
            "lock": "" if backend == "sqlite" else " FOR UPDATE SKIP LOCKED",
            "size": size,
        }
        self._is_embedded = backend == "sqlite"
        self._each = each

    def run(self) -> int:
        done = 0
        while ids := self._take():
            if self._each:
                for each in ids:
                    self._finish([each])
            else:
                self._finish(ids)
            done += len(ids)
        return done

    def _take(self) -> list[int]:
        self._begin()
        self._cursor.execute(DUE.format(**self._words))
        ids = [row[0] for row in self._cursor.fetchall()]
        if ids:
            self._cursor.execute(TAKE.format(ids=",".join(map(str, ids)), **self._words))
        self._commit()
        return ids

    def _finish(self, ids: Sequence[int]) -> None:
        self._begin()
        self._cursor.execute(FINISH.format(ids=",".join(map(str, ids)), **self._words))
        self._commit()

    def _begin(self) -> None:
        if self._is_embedded:
            self._cursor.execute("BEGIN IMMEDIATE")

    def _commit(self) -> None:
        if self._is_embedded:
            self._cursor.execute("COMMIT")
        else:
            self._connection.commit()


def in_processes(number: int, work: Callable[[], int]) -> None:
    children = []
    for _ in range(number):
        pid = os.fork()
        if pid == 0:
            work()
            os._exit(0)
        children.append(pid)
    for pid in children:
        os.waitpid(pid, 0)


def main() -> None:
    url, processes, size, each = os.environ["BARE_URL"], int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "each"
    started = monotonic()
    in_processes(processes, lambda: Loop(url, size, each).run())
    print(json.dumps({"seconds": monotonic() - started}))  # noqa: T201 - its answer


if __name__ == "__main__":
    main()
