"""Give the jobs of dead runners back: by liveness, never by age; each with what is known of how it ended."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.db.dialects import utc_from_driver
from mayfly.fleet.runners import LOST, EndedRunner, LiveRunner, close_runner, live_runners
from mayfly.job import Job, RareFields
from mayfly.process.identity import Host, Process
from mayfly.process.status_page import RunnerStatus
from mayfly.process.timing import timing
from mayfly.queue.count import processing_statement
from mayfly.queue.outcome import Outcome, Settlement, Settler
from mayfly.queue.settle import Settled, settle
from mayfly.stats.histograms import Tally

Judge = Callable[[Job, int], tuple[Outcome, int | None]]  # a job, and how many were held: outcome, duration in ms


@dataclass(frozen=True)
class Rescued:
    """What was done about one dead runner."""

    worker_id: str
    lane: str
    settlements: tuple[Settlement, ...]
    tally: Tally
    settled: Settled | None = None  # None: it held nothing


def rescue_runner(database: Database, settler: Settler, lane: str, judge: Judge, tally: Tally) -> Rescued:
    """Settle all that a runner still holds, as the judge says. The row decides, not the exit code."""
    held = database.run(lambda connection: held_jobs(connection, lane, settler.worker_id))
    return rescue_jobs(database, settler, lane, held, judge, tally)


def rescue_jobs(
    database: Database, settler: Settler, lane: str, held: Sequence[Job], judge: Judge, tally: Tally
) -> Rescued:
    """Settle these, and nothing else that their owner may hold."""
    settlements = [Settlement(job, *judge(job, len(held))) for job in held]
    if not settlements:
        return Rescued(settler.worker_id, lane, (), tally)
    settled = settle(database, settler, settlements, tally)
    lost = {job.id for job in settled.lost}
    ours = tuple(each for each in settlements if each.job.id not in lost)
    return Rescued(settler.worker_id, lane, ours, settled.tally, settled)


def held_jobs(connection: Connection, lane: str, worker_id: str) -> list[Job]:
    held = f"{processing_statement()} AND worker_id = :worker_id"
    found = connection.execute(held, {"lane": lane, "worker_id": worker_id}).all()
    return [_job(lane, *row) for row in found]


def expired_jobs(connection: Connection, lanes: Sequence[str], now: datetime) -> dict[tuple[str, str], list[Job]]:
    """Jobs whose lease ran out, by lane and owner: what no runner's row accounts for."""
    found: dict[tuple[str, str], list[Job]] = defaultdict(list)
    expired = f"{processing_statement()} AND lease_until <= :now"
    for lane in lanes:
        for row in connection.execute(expired, {"lane": lane, "now": now}).all():
            found[lane, row[0]].append(_job(lane, *row))
    return found


def is_dead(runner: LiveRunner, here: Host, now: datetime) -> bool:
    """On this machine a process is there or not. Of another host's only the lease can tell."""
    if runner.host == here:
        return not runner.process.is_alive
    return runner.lease_until <= now


def close_lost(database: Database, worker_id: str, seen: RunnerStatus | None) -> None:
    page = seen or RunnerStatus()
    ended = EndedRunner(LOST, jobs_done=page.done, jobs_failed=page.failed)
    now = database.clock.now()
    database.run(lambda connection: close_runner(connection, worker_id, ended, now))


def dead_runners(database: Database, here: Host) -> list[LiveRunner]:
    now = database.clock.now()
    return [each for each in database.run(live_runners) if is_dead(each, here, now)]


def _job(lane: str, _worker_id: str, job_id: int, type_name: str, payload: str, *rest: Any) -> Job:
    attempts, max_attempts, claims, crashes, interruptions, suspect, run_at, group_key, stalled, forgiven = rest
    special = RareFields(stalled=stalled, forgiven=forgiven) if stalled or forgiven else None
    return Job(
        job_id, type_name, lane, payload, attempts, max_attempts, claims, crashes, interruptions,
        suspect == 1, utc_from_driver(run_at), group_key, special,
    )  # fmt: skip


RENEW_RUNNER = (
    "UPDATE mayfly_runners SET lease_until = :lease_until, heartbeat_at = :now, pid = :pid,"
    " pid_started = :pid_started WHERE worker_id = :worker_id AND finished_at IS NULL"
)


def long_lease() -> timedelta:
    """Of a runner in a long lane: its host may be silent for this long."""
    return timedelta(seconds=timing().long_lease_seconds)


def renew(connection: Connection, lane: str, worker_id: str, runner: Process, now: datetime) -> None:
    """Fenced like every write of a runner: what somebody has rescued meanwhile stays as it is."""
    lease = {"worker_id": worker_id, "lease_until": now + long_lease()}
    itself = {"pid": runner.pid, "pid_started": runner.started}  # its planner may be gone before its first claim
    connection.execute(RENEW_RUNNER, {**lease, **itself, "now": now})
    held = held_jobs(connection, lane, worker_id)
    if held:
        connection.execute(renew_statement(), lease, ids=[job.id for job in held])


def renew_statement() -> str:
    return (
        "UPDATE mayfly_jobs SET lease_until = :lease_until"
        " WHERE {ids of id} AND worker_id = :worker_id AND status = 'processing'"
    )
