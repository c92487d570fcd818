"""Give the jobs of dead runners back: by liveness, never by age; each with what is known of how it ended."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, select

from mayfly.engine import Database
from mayfly.fleet.place import Place
from mayfly.fleet.runners import LOST, Ended, LiveRunner, close_runner, live_runners
from mayfly.job import Job
from mayfly.jobs.settle import settle
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


def rescue_runner(
    database: Database, jobs: JobTable, settler: Settler, lane: str, judge: Judge, tally: Tally
) -> Rescued:
    """Settle all that a runner still holds, as the judge says. The row decides, not the exit code."""
    held = database.run(lambda connection: held_jobs(connection, jobs, lane, settler.worker_id))
    settlements = [Settlement(job, *judge(job, len(held))) for job in held]
    if not settlements:
        return Rescued(settler.worker_id, lane, (), tally)
    settled = settle(database, jobs, settler, settlements, tally)
    lost = {job.id for job in settled.lost}
    ours = tuple(each for each in settlements if each.job.id not in lost)
    return Rescued(settler.worker_id, lane, ours, settled.tally)


def held_jobs(connection: Connection, jobs: JobTable, lane: str, worker_id: str) -> list[Job]:
    held = processing_statement(jobs, lane).where(jobs.c.worker_id == worker_id)
    return [_job(row) for row in connection.execute(held)]


def expired_jobs(
    connection: Connection, jobs: JobTable, lanes: Sequence[str], now: datetime
) -> dict[tuple[str, str], list[Job]]:
    """Jobs whose lease ran out, by lane and owner: what no runner's row accounts for."""
    found: dict[tuple[str, str], list[Job]] = defaultdict(list)
    for lane in lanes:
        for row in connection.execute(processing_statement(jobs, lane).where(jobs.c.lease_until <= now)):
            found[lane, row.worker_id].append(_job(row))
    return found


def processing_statement(jobs: JobTable, lane: str) -> Select[*tuple[Any, ...]]:
    """Along the claim index: only what is being processed is read, and that is little."""
    c = jobs.c
    return select(
        c.id, c.type, c.lane, c.payload, c.attempts, c.max_attempts, c.claims, c.crashes, c.interruptions,
        c.suspect, c.run_at, c.worker_id,
    ).where(c.lane == lane, c.status == jobs.processing)  # fmt: skip


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


def _job(row: Row[Any]) -> Job:
    return Job(
        id=row.id,
        type=row.type,
        lane=row.lane,
        payload_text=row.payload,
        attempt=row.attempts,
        max_attempts=row.max_attempts,
        claims=row.claims,
        crashes=row.crashes,
        interruptions=row.interruptions,
        suspect=bool(row.suspect),
        run_at=row.run_at,
    )
