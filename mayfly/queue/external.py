"""The books of a process that settles jobs outside of any cycle: its figures go beside the last cycle's totals."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache, partial
from threading import Lock
from typing import Any, NamedTuple

from mayfly.clock import milliseconds, monotonic
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.db.dialects import utc_from_driver
from mayfly.errors import StaleClaim
from mayfly.fleet.runners import OUTSIDE, is_outside
from mayfly.job import Job, cancel_request
from mayfly.monitoring.hooks import Announce
from mayfly.queue.claim import Claimant, claim, jobs_from
from mayfly.queue.count import count_in
from mayfly.queue.outcome import RELEASED, Outcome, OutcomeKind, Settlement, Settler
from mayfly.queue.pauses import Pauses, load_pauses
from mayfly.queue.policy import skip_outcome
from mayfly.queue.rescue import held_jobs
from mayfly.queue.settle import Settled, settle
from mayfly.schema.tables import DEAD, DONE, NAME_LENGTH, PROCESSING
from mayfly.stats.histograms import Tally
from mayfly.stats.totals import STRAYS

CYCLE_POLL_SECONDS = 20.0  # how often it is asked which cycle was the last
PERIOD_MS = STRAYS / timedelta(milliseconds=2)  # half of it: nobody adds up a page that is still written to
LAST_CLOSED_CYCLE = "SELECT id FROM mayfly_cycles WHERE finished_at IS NOT NULL ORDER BY id DESC LIMIT 1"


class ExternalTotals:
    """Absolute figures under a name of their own, one settlement at a time.

    They are counted under a cycle that is over: its own figures have been added up, so that nobody adds these to
    them and leaves us to write them again. Where cron is not at work, under a number of our own, for the same reason.
    """

    def __init__(self, database: Database, name: str) -> None:
        self._database = database
        self._name = name
        self._turn = Lock()
        self._cycle_id = 0
        self._look_again_at = 0.0
        self._tally: Tally = {}
        self._witnesses: dict[str, int] = {}

    def settle(self, worker_id: str, settlements: Sequence[Settlement]) -> Settled:
        with self._turn:
            self._turn_page()
            settler = Settler(worker_id, self._cycle_id, self._name, self._witnesses)
            settled = settle(self._database, settler, settlements, self._tally)
            self._tally = settled.tally
            return settled

    def _turn_page(self) -> None:
        if monotonic() < self._look_again_at:
            return
        found = self._database.read(_last_closed_cycle)
        self._look_again_at = monotonic() + CYCLE_POLL_SECONDS
        now_ms, cycle_id = milliseconds(self._database.clock.now()), max(found or 0, self._cycle_id)
        if cycle_id < now_ms - PERIOD_MS:
            cycle_id = now_ms
        if cycle_id != self._cycle_id:
            self._cycle_id, self._tally = cycle_id, {}


def _last_closed_cycle(connection: Connection) -> int | None:
    found: int | None = connection.execute(LAST_CLOSED_CYCLE).scalar()
    return found


MILLISECOND = timedelta(milliseconds=1)

Judge = Callable[[Job], Outcome]


class ClaimRef(NamedTuple):
    """One claim of one job: the fencing token, as the worker gets it and gives it back."""

    job_id: int
    worker_id: str
    claims: int

    @property
    def text(self) -> str:
        return f"{self.claims}.{self.worker_id}"

    @classmethod
    def from_text(cls, job_id: int, text: str) -> "ClaimRef":
        """Of a text that never was one, none that anybody holds."""
        claims, _, worker_id = text.partition(".")
        known = claims.isascii() and claims.isdigit() and len(claims) < 10 and is_outside(worker_id)
        return cls(job_id, worker_id[:NAME_LENGTH], int(claims)) if known else cls(job_id, "", 0)


class PullOptions(NamedTuple):
    """What a worker asks for. Jobs of one lane at a time: the first of these that has any."""

    by: str  # the name of its token
    lanes: Sequence[str]
    most: int
    lease: timedelta


class Pulled(NamedTuple):
    jobs: Sequence[Job]
    worker_id: str
    lease_until: datetime

    def hold(self, job: Job) -> ClaimRef:
        return ClaimRef(job.id, self.worker_id, job.claims)


class ExtendedLease(NamedTuple):
    lease_until: datetime
    cancel_reason: str | None  # somebody wants the job to end


class Finished(NamedTuple):
    job: Job
    outcome: Outcome
    is_repeated: bool = False


class ExternalJob(NamedTuple):
    """A job as it is under a claim."""

    job: Job
    status: str
    locked_at: datetime


def pull(database: Database, books: ExternalTotals, wish: PullOptions) -> Pulled:
    """Due now owned by a worker_id that is made for them and never used again."""
    worker_id = f"{OUTSIDE}{secrets.token_hex(8)}-{wish.by}"[:NAME_LENGTH]
    now = database.clock.now()
    pauses = database.read(lambda connection: load_pauses(connection, now))
    for lane in wish.lanes:
        if lane in pauses.lanes:
            continue
        claimant = Claimant(worker_id, lane, database.clock.now() + wish.lease)
        taken = _claim(database, claimant, wish.most)
        found = _admitted(books, worker_id, taken, pauses, now)
        if found:
            return Pulled(found, worker_id, claimant.lease_until)
    return Pulled((), worker_id, now)


def due(connection: Connection, most: Mapping[str, int], now: datetime) -> Mapping[str, int]:
    """How many jobs a pull would find in each of these lanes, counted to about `most`. Takes nothing."""
    paused = load_pauses(connection, now).lanes
    return count_in(connection, {lane: cap for lane, cap in most.items() if lane not in paused}, now)


def _claim(database: Database, claimant: Claimant, size: int) -> Sequence[Job]:
    """What a first try took whose COMMIT was not answered is ours, too: nobody else knows of it."""
    tries = 0

    def take(connection: Connection) -> Sequence[Job]:
        nonlocal tries
        tries += 1
        held = held_jobs(connection, claimant.lane, claimant.worker_id) if tries > 1 else []
        now = database.clock.now()
        return held or jobs_from(claim(connection, claimant, size, now), claimant.lane)

    return database.run(take)


def _admitted(
    books: ExternalTotals, worker_id: str, taken: Sequence[Job], pauses: Pauses, now: datetime
) -> list[Job]:
    """Those that are to be run; the others are settled as a runner would have."""
    outcomes = [(job, skip_outcome(job, pauses.types.get(job.type), now)) for job in taken]
    away = [Settlement(job, outcome) for job, outcome in outcomes if outcome is not None]
    if away:
        books.settle(worker_id, away)
    return [job for job, outcome in outcomes if outcome is None]


def release_pulled(books: ExternalTotals, pulled: Pulled) -> None:
    """Whoever asked is gone before he had his answer: nobody has seen these jobs."""
    books.settle(pulled.worker_id, [Settlement(job, RELEASED) for job in pulled.jobs])


def finish(
    database: Database,
    books: ExternalTotals,
    hold: ClaimRef,
    judge: Judge,
    announce: Announce | None = None,
) -> Finished:
    """Settle a job as its worker says; nothing is done where the same claim has settled it so before.

    Raises StaleClaim, with nothing changed, if the claim does not hold any more.
    """
    row = _read_job(database, hold)
    outcome = judge(row.job)
    if row.status != PROCESSING:
        return _repeated(row, outcome)
    if outcome.kind is OutcomeKind.DEAD and announce is not None:
        announce(row.job)  # before it is written, as in a runner
    duration_ms = max(0, (database.clock.now() - row.locked_at) // MILLISECOND)
    settled = books.settle(hold.worker_id, [Settlement(row.job, outcome, duration_ms)])
    return _repeated(_read_job(database, hold), outcome) if settled.lost else Finished(row.job, outcome)


def _repeated(row: ExternalJob, outcome: Outcome) -> Finished:
    if row.status != {OutcomeKind.DONE: DONE, OutcomeKind.DEAD: DEAD}.get(outcome.kind):
        raise StaleClaim(row.job.id)
    return Finished(row.job, outcome, is_repeated=True)


def extend(database: Database, hold: ClaimRef, lease: timedelta) -> ExtendedLease:
    """Not once it ran out: whoever rescues the job must not be met by its worker half-way."""
    now = database.clock.now()
    values = {**_whose(hold), "now": now, "lease_until": now + lease}
    if database.once(lambda connection: connection.execute(extend_statement(), values).rowcount) != 1:
        raise StaleClaim(hold.job_id)
    mine = (hold.job_id, hold.worker_id, hold.claims)
    reason = database.read(lambda connection: cancel_request(connection, *mine))
    return ExtendedLease(now + lease, reason)


def _read_job(database: Database, hold: ClaimRef) -> ExternalJob:
    found = database.read(partial(_row, hold=hold))
    if found is None:
        raise StaleClaim(hold.job_id)
    return found


def _row(connection: Connection, hold: ClaimRef) -> ExternalJob | None:
    found = connection.execute(row_statement(), _whose(hold)).first()
    if found is None:
        return None
    status, locked_at, run_at, group_key, *columns = found
    job = Job(*columns)
    job.run_at, job.group_key = utc_from_driver(run_at), group_key
    return ExternalJob(job, status, utc_from_driver(locked_at))


@cache
def row_statement() -> str:
    columns = (
        "status", "locked_at", "run_at", "group_key", "id", "type", "lane", "payload", "attempts", "max_attempts",
        "claims", "crashes", "interruptions",
    )  # fmt: skip
    return f"SELECT {', '.join(columns)} FROM mayfly_jobs WHERE {_fence()}"


@cache
def extend_statement() -> str:
    held = f"{_fence()} AND status = 'processing' AND lease_until > :now"
    return f"UPDATE mayfly_jobs SET lease_until = :lease_until WHERE {held}"


def _fence() -> str:
    return "id = :id AND worker_id = :owner AND claims = :token"


def _whose(hold: ClaimRef) -> dict[str, Any]:
    return {"id": hold.job_id, "owner": hold.worker_id, "token": hold.claims}
