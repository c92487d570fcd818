"""Work done outside: jobs that somebody pulls, and what he says became of them. Fenced as in a runner."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache, partial
from typing import Any, NamedTuple

from mayfly.admission import turned_away
from mayfly.connection import Connection
from mayfly.dialect import utc_from_driver
from mayfly.engine import Database
from mayfly.errors import StaleClaim
from mayfly.fleet.runners import OUTSIDE, is_outside
from mayfly.hooks.deaths import Announce
from mayfly.job import Job
from mayfly.jobs.books import Books
from mayfly.jobs.claim import Claimant, claim, jobs_from
from mayfly.jobs.count import count_in
from mayfly.jobs.looks import wish_to_cancel
from mayfly.jobs.pauses import Pauses, load_pauses
from mayfly.jobs.rescue import held_jobs
from mayfly.jobs.settlement import Settlement
from mayfly.outcome import RELEASED, Kind, Outcome
from mayfly.schema import NAME_LENGTH, JobTable

MILLISECOND = timedelta(milliseconds=1)

Judge = Callable[[Job], Outcome]


class Hold(NamedTuple):
    """One claim of one job: the fencing token, as the worker gets it and gives it back."""

    job_id: int
    worker_id: str
    claims: int

    @property
    def text(self) -> str:
        return f"{self.claims}.{self.worker_id}"

    @classmethod
    def from_text(cls, job_id: int, text: str) -> "Hold":
        """Of a text that never was one, none that anybody holds."""
        claims, _, worker_id = text.partition(".")
        known = claims.isascii() and claims.isdigit() and len(claims) < 10 and is_outside(worker_id)
        return cls(job_id, worker_id[:NAME_LENGTH], int(claims)) if known else cls(job_id, "", 0)


class Wish(NamedTuple):
    """What a worker asks for. Jobs of one lane at a time: the first of these that has any."""

    by: str  # the name of its token
    lanes: Sequence[str]
    most: int
    lease: timedelta


class Pulled(NamedTuple):
    jobs: Sequence[Job]
    worker_id: str
    lease_until: datetime

    def hold(self, job: Job) -> Hold:
        return Hold(job.id, self.worker_id, job.claims)


class Extended(NamedTuple):
    lease_until: datetime
    cancel_reason: str | None  # somebody wants the job to end


class Finished(NamedTuple):
    job: Job
    outcome: Outcome
    is_repeated: bool = False


class Row(NamedTuple):
    """A job as it is under a claim."""

    job: Job
    status: str
    locked_at: datetime


def pull(database: Database, jobs: JobTable, books: Books, wish: Wish) -> Pulled:
    """Due jobs, now owned by a worker_id that is made for them and never used again."""
    worker_id = f"{OUTSIDE}{secrets.token_hex(8)}-{wish.by}"[:NAME_LENGTH]
    now = database.clock.now()
    pauses = database.read(lambda connection: load_pauses(connection, now))
    for lane in wish.lanes:
        if lane in pauses.lanes:
            continue
        claimant = Claimant(worker_id, lane, database.clock.now() + wish.lease)
        taken = _claim(database, jobs, claimant, wish.most)
        found = _admitted(books, worker_id, taken, pauses, now)
        if found:
            return Pulled(found, worker_id, claimant.lease_until)
    return Pulled((), worker_id, now)


def due(connection: Connection, jobs: JobTable, most: Mapping[str, int], now: datetime) -> Mapping[str, int]:
    """How many jobs a pull would find in each of these lanes, counted to about `most`. Takes nothing."""
    paused = load_pauses(connection, now).lanes
    return count_in(connection, jobs, {lane: cap for lane, cap in most.items() if lane not in paused}, now)


def _claim(database: Database, jobs: JobTable, claimant: Claimant, size: int) -> Sequence[Job]:
    """What a first try took whose COMMIT was not answered is ours, too: nobody else knows of it."""
    tries = 0

    def take(connection: Connection) -> Sequence[Job]:
        nonlocal tries
        tries += 1
        held = held_jobs(connection, jobs, claimant.lane, claimant.worker_id) if tries > 1 else []
        now = database.clock.now()
        return held or jobs_from(claim(connection, jobs, claimant, size, now), claimant.lane)

    return database.run(take)


def _admitted(books: Books, worker_id: str, taken: Sequence[Job], pauses: Pauses, now: datetime) -> list[Job]:
    """Those that are to be run; the others are settled as a runner would have."""
    outcomes = [(job, turned_away(job, pauses.types.get(job.type), now)) for job in taken]
    away = [Settlement(job, outcome) for job, outcome in outcomes if outcome is not None]
    if away:
        books.settle(worker_id, away)
    return [job for job, outcome in outcomes if outcome is None]


def give_back(books: Books, pulled: Pulled) -> None:
    """Whoever asked is gone before he had his answer: nobody has seen these jobs."""
    books.settle(pulled.worker_id, [Settlement(job, RELEASED) for job in pulled.jobs])


def finish(
    database: Database, jobs: JobTable, books: Books, hold: Hold, judge: Judge, announce: Announce | None = None
) -> Finished:
    """Settle a job as its worker says; nothing is done where the same claim has settled it so before.

    Raises StaleClaim, with nothing changed, if the claim does not hold any more.
    """
    row = _look(database, jobs, hold)
    outcome = judge(row.job)
    if row.status != jobs.processing:
        return _repeated(jobs, row, outcome)
    if outcome.kind is Kind.DEAD and announce is not None:
        announce(row.job)  # before it is written, as in a runner
    duration_ms = max(0, (database.clock.now() - row.locked_at) // MILLISECOND)
    settled = books.settle(hold.worker_id, [Settlement(row.job, outcome, duration_ms)])
    return _repeated(jobs, _look(database, jobs, hold), outcome) if settled.lost else Finished(row.job, outcome)


def _repeated(jobs: JobTable, row: Row, outcome: Outcome) -> Finished:
    if row.status != {Kind.DONE: jobs.done, Kind.DEAD: jobs.dead}.get(outcome.kind):
        raise StaleClaim(row.job.id)
    return Finished(row.job, outcome, is_repeated=True)


def extend(database: Database, jobs: JobTable, hold: Hold, lease: timedelta) -> Extended:
    """Not once it ran out: whoever rescues the job must not be met by its worker half-way."""
    now = database.clock.now()
    values = {**_whose(hold), "now": now, "lease_until": now + lease}
    if database.once(lambda connection: connection.execute(extend_statement(jobs), values).rowcount) != 1:
        raise StaleClaim(hold.job_id)
    mine = (hold.job_id, hold.worker_id, hold.claims)
    reason = database.read(lambda connection: wish_to_cancel(connection, jobs, *mine))
    return Extended(now + lease, reason)


def _look(database: Database, jobs: JobTable, hold: Hold) -> Row:
    found = database.read(partial(_row, jobs=jobs, hold=hold))
    if found is None:
        raise StaleClaim(hold.job_id)
    return found


def _row(connection: Connection, jobs: JobTable, hold: Hold) -> Row | None:
    found = connection.execute(row_statement(jobs), _whose(hold)).first()
    if found is None:
        return None
    status, locked_at, run_at, group_key, *columns = found
    job = Job(*columns)
    job.run_at, job.group_key = utc_from_driver(run_at), group_key
    return Row(job, status, utc_from_driver(locked_at))


@cache
def row_statement(jobs: JobTable) -> str:
    c = jobs.c
    columns = (
        c.status, c.locked_at, c.run_at, c.group_key, c.id, c.type, c.lane, c.payload, c.attempts, c.max_attempts,
        c.claims, c.crashes, c.interruptions,
    )  # fmt: skip
    return f"SELECT {', '.join(columns)} FROM {jobs.table} WHERE {_fence(jobs)}"


@cache
def extend_statement(jobs: JobTable) -> str:
    c = jobs.c
    held = f"{_fence(jobs)} AND {c.status} = '{jobs.processing}' AND {c.lease_until} > :now"
    return f"UPDATE {jobs.table} SET {c.lease_until} = :lease_until WHERE {held}"


def _fence(jobs: JobTable) -> str:
    return f"{jobs.c.id} = :id AND {jobs.c.worker_id} = :owner AND {jobs.c.claims} = :token"


def _whose(hold: Hold) -> dict[str, Any]:
    return {"id": hold.job_id, "owner": hold.worker_id, "token": hold.claims}
