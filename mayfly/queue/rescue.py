"""Rescue jobs of dead runners, by liveness and never by age. Also renews the leases of runners in long lanes."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from mayfly.db.connection import Connection, numbered_parameters, placeholders
from mayfly.db.database import Database
from mayfly.db.dialects import Dialect
from mayfly.fleet.runners import LOST, Death, EndedRunner, LiveRunner, close_runner, live_runners
from mayfly.job import Job
from mayfly.log_messages import LogMessage, job_failed
from mayfly.process import timing
from mayfly.process.identity import Host, Process
from mayfly.process.status_page import RunnerStatus
from mayfly.queue.claim import JOB_COLUMNS, job_from_row
from mayfly.queue.outcome import Outcome, OutcomeKind, Settlement, Settler
from mayfly.queue.settle import Settled, settle
from mayfly.stats.histograms import Tally

RENEW_RUNNER = (
    "UPDATE mayfly_runners SET lease_until = :lease_until, heartbeat_at = :now, pid = :pid,"
    " pid_started = :pid_started WHERE worker_id = :worker_id AND finished_at IS NULL"
)
RENEW_JOBS = (
    "UPDATE mayfly_jobs SET lease_until = :lease_until"
    " WHERE {ids of id} AND worker_id = :worker_id AND status = 'processing'"
)

Judge = Callable[[Job, int], tuple[Outcome, int | None]]  # job, number of jobs held → outcome, duration in ms


def dead_runners(database: Database, here: Host) -> list[LiveRunner]:
    now = database.clock.now()
    return [each for each in database.run(live_runners) if is_dead(each, here, now)]


def is_dead(runner: LiveRunner, here: Host, now: datetime) -> bool:
    """On this machine the process is checked; of another host or a launcher, only the lease is known."""
    if runner.host == here and runner.launcher is None:
        return not runner.process.is_alive
    return runner.lease_until <= now


def rescue_runner(database: Database, settler: Settler, lane: str, judge: Judge, tally: Tally) -> Settled:
    """Settle all jobs that a runner still holds according to their rows, not to its exit code."""
    held = database.read(lambda connection: held_jobs(connection, lane, settler.worker_id))
    return rescue_jobs(database, settler, held, judge, tally)


def rescue_jobs(database: Database, settler: Settler, held: Sequence[Job], judge: Judge, tally: Tally) -> Settled:
    """Settle these jobs, and no others that their owner may hold."""
    settlements = [Settlement(job, *judge(job, len(held))) for job in held]
    return settle(database, settler, settlements, tally) if settlements else Settled((), (), tally)


def rescue_messages(settled: Settled) -> list[LogMessage]:
    """What is to be logged: the jobs that were not simply released, and the messages of follow-ups."""
    judged = [each for each in settled.settlements if each.outcome.kind is not OutcomeKind.RELEASED]
    return [*map(_message, judged), *settled.events]


def _message(settlement: Settlement) -> LogMessage:
    job, kind = settlement.job, settlement.outcome.kind.value
    reason = (settlement.outcome.error or "").partition("\n")[0].removeprefix(f"{kind}: ")
    return job_failed(job.id, job.type, job.attempt, job.max_attempts, kind, reason)


def held_jobs(connection: Connection, lane: str, worker_id: str) -> list[Job]:
    return jobs_held_by(connection, {worker_id: lane}).get(worker_id, [])


def jobs_held_by(connection: Connection, runners: Mapping[str, str]) -> dict[str, list[Job]]:
    """The jobs of several runners by worker_id, given their lanes by worker_id."""
    lanes = numbered_parameters(sorted(set(runners.values())), "lane")
    owners = numbered_parameters(runners, "owner")
    held = f"{processing_jobs(connection.dialect, lanes)} AND worker_id IN ({placeholders(owners)})"
    found: dict[str, list[Job]] = defaultdict(list)
    for worker_id, *row in connection.execute(held, {**lanes, **owners}).all():
        found[worker_id].append(job_from_row(row))
    return found


def processing_jobs(dialect: Dialect, lanes: Iterable[str]) -> str:
    """Along the claim index: reads only jobs that are being processed, and there are few. `lanes` are parameters.

    Without the hint MariaDB reads the whole table after a drain of a large lane: of the entries of its jobs in the
    index some are not removed yet, and count as jobs that are being processed.
    """
    return (
        f"SELECT worker_id, {JOB_COLUMNS} FROM mayfly_jobs{dialect.along('mayfly_jobs_claim')}"
        f" WHERE lane IN ({placeholders(lanes)}) AND status = 'processing'"
    )


def expired_jobs(connection: Connection, lanes: Sequence[str], now: datetime) -> dict[tuple[str, str], list[Job]]:
    """Jobs whose lease has expired, by lane and owner: a fallback for jobs whose owner has no runner row."""
    expired = f"{processing_jobs(connection.dialect, ['lane'])} AND lease_until <= :now"
    found: dict[tuple[str, str], list[Job]] = defaultdict(list)
    for lane in lanes:
        for worker_id, *row in connection.execute(expired, {"lane": lane, "now": now}).all():
            found[lane, worker_id].append(job_from_row(row))
    return found


def close_lost(database: Database, worker_id: str, status: RunnerStatus | None, death: Death | None = None) -> None:
    """The row keeps the figures that the lease keeper of a submitted runner has noted with its death."""
    ended = EndedRunner(LOST if death is None else death.ending)
    if status is not None:
        ended = EndedRunner(LOST, jobs_done=status.done, jobs_failed=status.failed, average_ms=status.average_ms)
    now = database.clock.now()
    database.run(lambda connection: close_runner(connection, worker_id, ended, now))


def long_lease() -> timedelta:
    """The lease of a runner in a long lane: its host may be unreachable for this long."""
    return timedelta(seconds=timing().long_lease_seconds)


def renew(connection: Connection, lane: str, worker_id: str, runner: Process, now: datetime) -> None:
    """Fenced like every write of a runner: jobs that were rescued in the meantime are not changed."""
    lease = {"worker_id": worker_id, "lease_until": now + long_lease()}
    process = {"pid": runner.pid, "pid_started": runner.started}  # its planner may exit before its first claim
    connection.execute(RENEW_RUNNER, {**lease, **process, "now": now})
    held = held_jobs(connection, lane, worker_id)
    if held:
        connection.execute(RENEW_JOBS, lease, ids=[job.id for job in held])
