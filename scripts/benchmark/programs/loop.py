"""The yardstick: lock, update, run nothing, update, in a plain loop on Mayfly's table or an application's.

With `companions`, on both: the SQL that each row of a source needs at least, without any of Mayfly's Python.
"""

import os
import sys
from collections.abc import Callable, Sequence

from scripts.benchmark.ledger import record
from scripts.benchmark.programs.connect import DRIVER, connect, load_driver

DUE = (
    "SELECT id, type, payload FROM mayfly_jobs WHERE lane = 'default' AND status = 'pending' AND priority = 1"
    " AND run_at <= {now} ORDER BY run_at, id LIMIT {size}{lock}"
)
TAKE = (
    "UPDATE mayfly_jobs SET status = 'processing', worker_id = '{worker}', locked_at = {now}, lease_until = {now},"
    " attempts = attempts + 1, claims = claims + 1 WHERE id IN ({ids})"
)
FINISH = (
    "UPDATE mayfly_jobs SET status = 'done', lease_until = NULL, started_at = {now}, finished_at = {now},"
    " duration_ms = 0 WHERE id IN ({ids}) AND worker_id = '{worker}' AND claims = 1 AND status = 'processing'"
)
ROWS = (
    "SELECT id, post_detail_id, channel FROM post_schedule WHERE status = 'pending' AND run_at <= {now}"
    " ORDER BY run_at, id LIMIT {size}{lock}",
    "UPDATE post_schedule SET status = 'processing', worker_id = '{worker}', locked_at = {now} WHERE id IN ({ids})",
    "UPDATE post_schedule SET status = 'published', published_at = {now} WHERE id IN ({ids})"
    " AND worker_id = '{worker}' AND status = 'processing'",
)
STATEMENTS = {"jobs": (DUE, TAKE, FINISH), "rows": ROWS, "companions": ROWS}
INSERT_COMPANIONS = (
    "INSERT INTO mayfly_jobs (type, payload, lane, run_at, unique_key, status, worker_id, locked_at, lease_until,"
    " attempts, claims, row_worker_id) SELECT 'nothing_row',"
    " {object}('post_detail_id', post_detail_id, 'channel', channel), 'post_schedule', {now},"
    " {key}, 'processing', '{worker}', {now}, {now}, 1, 1, '{worker}'"
    " FROM post_schedule WHERE id IN ({ids}) ORDER BY id RETURNING id"
)
CLOCKS = {
    "pymysql": "UTC_TIMESTAMP(6)",
    "psycopg": "clock_timestamp()",
    "sqlite3": "strftime('%Y-%m-%d %H:%M:%f000')",
}
KEYS = {
    "pymysql": "CONCAT('source:post_schedule:', id)",
    "psycopg": "'source:post_schedule:' || id",
    "sqlite3": "'source:post_schedule:' || id",
}
OBJECTS = {"pymysql": "JSON_OBJECT", "psycopg": "json_build_object", "sqlite3": "json_object"}


class Loop:
    """Lock, update, run nothing, update; until nothing is left."""

    def __init__(self, size: int, ack: str, table: str) -> None:
        self._due, self._claim, self._end = STATEMENTS[table]
        self._connection = connect()
        self._cursor = self._connection.cursor()
        self._is_embedded = DRIVER == "sqlite3"
        self._ack = ack
        self._words = {
            "now": CLOCKS[DRIVER],
            "worker": f"bare-{os.getpid()}",
            "lock": "" if self._is_embedded else " FOR UPDATE SKIP LOCKED",
            "size": size,
            "key": KEYS[DRIVER],
            "object": OBJECTS[DRIVER],
        }

    def run(self) -> None:
        while ids := self._take():
            for group in [[each] for each in ids] if self._ack == "each" else [ids]:
                for job_id in group:
                    record(job_id)
                self._finish(group)

    def _take(self) -> list[int]:
        self._begin()
        self._cursor.execute(self._due.format(**self._words))
        ids = [row[0] for row in self._cursor.fetchall()]
        if ids:
            self._write_claim(ids)
        self._commit()
        return ids

    def _finish(self, ids: Sequence[int]) -> None:
        self._begin()
        self._write_end(ids)
        self._commit()

    def _write_claim(self, ids: Sequence[int]) -> None:
        self._execute(self._claim, ids)

    def _write_end(self, ids: Sequence[int]) -> None:
        self._execute(self._end, ids)

    def _execute(self, statement: str, ids: Sequence[int]) -> None:
        self._cursor.execute(statement.format(ids=",".join(map(str, ids)), **self._words))

    def _begin(self) -> None:
        if self._is_embedded:
            self._cursor.execute("BEGIN IMMEDIATE")

    def _commit(self) -> None:
        if self._is_embedded:
            self._cursor.execute("COMMIT")
        else:
            self._connection.commit()


class CompanionLoop(Loop):
    """Also insert the jobs of the rows, and settle them."""

    def _write_claim(self, ids: Sequence[int]) -> None:
        self._execute(INSERT_COMPANIONS, ids)
        self._jobs = [row[0] for row in self._cursor.fetchall()]
        super()._write_claim(ids)

    def _write_end(self, ids: Sequence[int]) -> None:
        self._execute(FINISH, self._jobs)
        super()._write_end(ids)


def in_processes(number: int, work: Callable[[], None]) -> int:
    """Returns how many of them failed."""
    children = []
    for _ in range(number):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                work()
                code = 0
            finally:
                sys.stderr.flush()
                os._exit(code)
        children.append(pid)
    return sum(os.waitpid(pid, 0)[1] != 0 for pid in children)


def main() -> None:
    processes, size, ack, table = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    load_driver()  # once, before the fork
    loop = CompanionLoop if table == "companions" else Loop
    sys.exit(1 if in_processes(processes, lambda: loop(size, ack, table).run()) else 0)


if __name__ == "__main__":
    main()
