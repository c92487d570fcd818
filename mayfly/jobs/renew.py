"""Move the lease of a living runner on: its row's, and those of the jobs that it holds."""

from datetime import datetime, timedelta

from mayfly.connection import Connection
from mayfly.fleet.place import Process
from mayfly.jobs.rescue import held_jobs
from mayfly.schema import JobTable
from mayfly.timing import timing

RENEW_RUNNER = (
    "UPDATE mayfly_runners SET lease_until = :lease_until, heartbeat_at = :now, pid = :pid,"
    " pid_started = :pid_started WHERE worker_id = :worker_id AND finished_at IS NULL"
)


def long_lease() -> timedelta:
    """Of a runner in a long lane: its host may be silent for this long."""
    return timedelta(seconds=timing().long_lease_seconds)


def renew(connection: Connection, jobs: JobTable, lane: str, worker_id: str, runner: Process, now: datetime) -> None:
    """Fenced like every write of a runner: what somebody has rescued meanwhile stays as it is."""
    lease = {"worker_id": worker_id, "lease_until": now + long_lease()}
    itself = {"pid": runner.pid, "pid_started": runner.started}  # its planner may be gone before its first claim
    connection.execute(RENEW_RUNNER, {**lease, **itself, "now": now})
    held = held_jobs(connection, jobs, lane, worker_id)
    if held:
        connection.execute(renew_statement(jobs), lease, ids=[job.id for job in held])


def renew_statement(jobs: JobTable) -> str:
    c = jobs.c
    return (
        f"UPDATE {jobs.table} SET {c.lease_until} = :lease_until"
        f" WHERE {{ids of {c.id}}} AND {c.worker_id} = :worker_id AND {c.status} = '{jobs.processing}'"
    )
