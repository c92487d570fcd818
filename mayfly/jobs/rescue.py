"""Give the jobs of dead runners back: by liveness, never by age; each with what is known of how it ended."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mayfly.connection import Connection
from mayfly.dialect import utc_from_driver
from mayfly.engine import Database
from mayfly.fleet.place import Place
from mayfly.fleet.runners import LOST, Ended, LiveRunner, close_runner, live_runners
from mayfly.job import Job, Special
from mayfly.jobs.looks import processing_statement
from mayfly.jobs.settle import Settled, settle
from mayfly.jobs.settlement import Settlement, Settler
from mayfly.outcome import Outcome
from mayfly.page import Seen
from mayfly.schema import JobTable
from mayfly.tally import Tally

Judge = Callable[[Job, int], tuple[Outcome, int | None]]  # a job, and how many were held: outcome, duration in ms


@dataclass(frozen=True)
class Rescued:
    """What was done about one dead runner."""

    worker_id: str
    lane: str
    settlements: tuple[Settlement, ...]
    tally: Tally
    settled: Settled | None = None  # None: it held nothing


def rescue_runner(
    database: Database, jobs: JobTable, settler: Settler, lane: str, judge: Judge, tally: Tally
) -> Rescued:
    """Settle all that a runner still holds, as the judge says. The row decides, not the exit code."""
    held = database.run(lambda connection: held_jobs(connection, jobs, lane, settler.worker_id))
    return rescue_jobs(database, jobs, settler, lane, held, judge, tally)


def rescue_jobs(
    database: Database, jobs: JobTable, settler: Settler, lane: str, held: Sequence[Job], judge: Judge, tally: Tally
) -> Rescued:
    """Settle these, and nothing else that their owner may hold."""
    settlements = [Settlement(job, *judge(job, len(held))) for job in held]
    if not settlements:
        return Rescued(settler.worker_id, lane, (), tally)
    settled = settle(database, jobs, settler, settlements, tally)
    lost = {job.id for job in settled.lost}
    ours = tuple(each for each in settlements if each.job.id not in lost)
    return Rescued(settler.worker_id, lane, ours, settled.tally, settled)


def held_jobs(connection: Connection, jobs: JobTable, lane: str, worker_id: str) -> list[Job]:
    held = f"{processing_statement(jobs)} AND {jobs.c.worker_id} = :worker_id"
    found = connection.execute(held, {"lane": lane, "worker_id": worker_id}).all()
    return [_job(lane, *row) for row in found]


def expired_jobs(
    connection: Connection, jobs: JobTable, lanes: Sequence[str], now: datetime
) -> dict[tuple[str, str], list[Job]]:
    """Jobs whose lease ran out, by lane and owner: what no runner's row accounts for."""
    found: dict[tuple[str, str], list[Job]] = defaultdict(list)
    expired = f"{processing_statement(jobs)} AND {jobs.c.lease_until} <= :now"
    for lane in lanes:
        for row in connection.execute(expired, {"lane": lane, "now": now}).all():
            found[lane, row[0]].append(_job(lane, *row))
    return found


def is_dead(runner: LiveRunner, here: Place, now: datetime) -> bool:
    """On this machine a process is there or not. Of another host's only the lease can tell."""
    if runner.place == here:
        return not runner.process.is_alive
    return runner.lease_until <= now


def close_lost(database: Database, worker_id: str, seen: Seen | None) -> None:
    page = seen or Seen()
    ended = Ended(LOST, jobs_done=page.done, jobs_failed=page.failed)
    now = database.clock.now()
    database.run(lambda connection: close_runner(connection, worker_id, ended, now))


def dead_runners(database: Database, here: Place) -> list[LiveRunner]:
    now = database.clock.now()
    return [each for each in database.run(live_runners) if is_dead(each, here, now)]


def _job(lane: str, _worker_id: str, job_id: int, type_name: str, payload: str, *rest: Any) -> Job:
    attempts, max_attempts, claims, crashes, interruptions, suspect, run_at, group_key, stalled, forgiven = rest
    special = Special(stalled=stalled, forgiven=forgiven) if stalled or forgiven else None
    return Job(
        job_id, type_name, lane, payload, attempts, max_attempts, claims, crashes, interruptions,
        suspect == 1, utc_from_driver(run_at), group_key, special,
    )  # fmt: skip
