"""The keeper of a runner in a long lane: renews its lease from a process of its own, and dies with it.

A thread would be starved by a handler whose C code holds the GIL.
"""

import os

from mayfly import exits
from mayfly.clock import monotonic, pause
from mayfly.engine import Database
from mayfly.errors import MayflyError
from mayfly.fleet.place import Process, this_process
from mayfly.fleet.runners import Assignment
from mayfly.jobs.renew import LEASE, renew
from mayfly.prctl import die_with_parent
from mayfly.schema import JOBS
from runner.guard import HARD_SECONDS

RENEWALS_A_LEASE = 4  # three may fail in a row: a database that restarts costs no runner its jobs


def start_keeper(assignment: Assignment, database: Database) -> None:
    """No connection may be open, and no thread may run yet. The kernel ends it with us, however we end."""
    runner = this_process()
    if os.fork():
        return
    try:
        die_with_parent(runner.pid)
        _keep(assignment, runner, database)
    finally:
        os._exit(exits.SUCCESS)


def _keep(assignment: Assignment, runner: Process, database: Database) -> None:
    """No longer than the runner may live: one that cannot be ended even from C must lose its lease."""
    while monotonic() < assignment.deadline + HARD_SECONDS:
        try:
            _renew(assignment, runner, database)
        except MayflyError:
            database.close()  # the next try has a new connection
        pause(LEASE.total_seconds() / RENEWALS_A_LEASE)


def _renew(assignment: Assignment, runner: Process, database: Database) -> None:
    lane, worker_id, now = assignment.lane, assignment.worker_id, database.clock.now()
    database.run(lambda connection: renew(connection, JOBS, lane, worker_id, runner, now))
