"""Time a claim and the queries of operators in this process. Prints one line per query: its name and milliseconds."""

import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from mayfly.admin.filters import JobFilter
from mayfly.admin.health import read_status
from mayfly.admin.job import read_job
from mayfly.admin.jobs import list_dead, list_jobs
from mayfly.db.connection import Connection
from mayfly.queue.claim import Claimant, claim
from mayfly.registry import Registry
from mayfly.schema import open_database
from mayfly.settings import Settings, load_settings

CLAIM_SIZE = 100
IN_TWO_DAYS = timedelta(days=2)  # the delayed jobs of the table are due then


class RolledBack(Exception):
    pass


def queries(settings: Settings, now: datetime) -> Mapping[str, Callable[[Connection], object]]:
    def jobs(**filters: Any) -> Callable[[Connection], object]:
        return lambda connection: list_jobs(connection, JobFilter(**filters))

    def claim_some(connection: Connection) -> None:
        claimant = Claimant("bench", "default", now + timedelta(minutes=1))
        assert len(claim(connection, claimant, CLAIM_SIZE, now + IN_TWO_DAYS).rows) == CLAIM_SIZE
        raise RolledBack  # the next claim finds the same rows

    def one_job(connection: Connection) -> None:
        assert read_job(connection, 1, settings, Registry(), now) is not None

    return {
        "claim": claim_some,
        "status": lambda connection: read_status(connection, settings, now),
        "list of jobs": jobs(),
        "list of jobs of one lane": jobs(lane="default"),
        "list of dead jobs": jobs(status="dead"),
        "list of jobs by error": jobs(error="error-1"),
        "one job": one_job,
        "dead jobs by error": lambda connection: list_dead(connection, None, now),
    }


def main() -> None:
    settings, times = load_settings(), int(sys.argv[1])
    database = open_database(settings)
    for name, query in queries(settings, database.clock.now()).items():
        values = [timed_ms(partial(database.run, query)) for _ in range(times + 1)]
        print(f"{name}:", *(f"{value:.3f}" for value in values[1:]))  # noqa: T201 - the result
    database.close()


def timed_ms(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    with suppress(RolledBack):
        run()
    return (time.perf_counter() - started) * 1000


if __name__ == "__main__":
    main()
