"""External workers: pull jobs over HTTP, extend leases, report outcomes; and the totals of these jobs."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
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
from mayfly.queue.claim import JOB_COLUMNS, Claimant, claim, job_from_row, jobs_from
from mayfly.queue.count import count_in
from mayfly.queue.outcome import RELEASED, Outcome, OutcomeKind, Settlement, Settler
from mayfly.queue.pauses import Pauses, load_pauses
from mayfly.queue.policy import skip_outcome
from mayfly.queue.rescue import held_jobs
from mayfly.queue.settle import STATUS_OF, Settled, settle
from mayfly.schema.tables import FENCE, NAME_LENGTH, PROCESSING
from mayfly.stats.histograms import Tally
from mayfly.stats.totals import STRAYS

CYCLE_POLL_SECONDS = 20.0  # how often the newest finished cycle is read
PERIOD_MS = STRAYS / timedelta(milliseconds=2)  # half of it: totals that are still written are not added up yet
MILLISECOND = timedelta(milliseconds=1)

LAST_CLOSED_CYCLE = "SELECT id FROM mayfly_cycles WHERE finished_at IS NOT NULL ORDER BY id DESC LIMIT 1"
SELECT_CLAIMED = f"SELECT status, locked_at, {JOB_COLUMNS} FROM mayfly_jobs WHERE {FENCE}"
EXTEND_LEASE = (
    "UPDATE mayfly_jobs SET lease_until = :lease_until"
    f" WHERE {FENCE} AND status = 'processing' AND lease_until > :now"
)

Judge = Callable[[Job], Outcome]


class ExternalTotals:
    """Settles jobs of external workers, one call at a time, and counts them as absolute figures of this process.

    They are counted under a cycle that has finished: its own totals have been added up, so that these are not added
    to them while this process still writes them. Without cron, under a number of its own, for the same reason.
    """

    def __init__(self, database: Database, name: str) -> None:
        self._database = database
        self._name = name
        self._lock = Lock()
        self._cycle_id = 0
        self._next_poll_at = 0.0
        self._tally: Tally = {}
        self._known_live_jobs: dict[str, int] = {}

    def settle(self, worker_id: str, settlements: Sequence[Settlement]) -> Settled:
        with self._lock:
            self._roll_cycle()
            settler = Settler(worker_id, self._cycle_id, self._name, self._known_live_jobs)
            settled = settle(self._database, settler, settlements, self._tally)
            self._tally = settled.tally
            return settled

    def _roll_cycle(self) -> None:
        """Count under a newer cycle, and from 0 again."""
        if monotonic() < self._next_poll_at:
            return
        found: int | None = self._database.read(lambda connection: connection.execute(LAST_CLOSED_CYCLE).scalar())
        self._next_poll_at = monotonic() + CYCLE_POLL_SECONDS
        now_ms, cycle_id = milliseconds(self._database.clock.now()), max(found or 0, self._cycle_id)
        if cycle_id < now_ms - PERIOD_MS:
            cycle_id = now_ms
        if cycle_id != self._cycle_id:
            self._cycle_id, self._tally = cycle_id, {}


class ClaimRef(NamedTuple):
    """One claim of one job: the fencing token, as the worker gets it and sends it back."""

    job_id: int
    worker_id: str
    claims: int

    @property
    def text(self) -> str:
        return f"{self.claims}.{self.worker_id}"

    @classmethod
    def from_text(cls, job_id: int, text: str) -> "ClaimRef":
        """Of an invalid text: a claim that no job has."""
        claims, _, worker_id = text.partition(".")
        is_valid = claims.isascii() and claims.isdigit() and len(claims) < 10 and is_outside(worker_id)
        return cls(job_id, worker_id[:NAME_LENGTH], int(claims)) if is_valid else cls(job_id, "", 0)

    @property
    def fence(self) -> dict[str, Any]:
        return {"id": self.job_id, "owner": self.worker_id, "token": self.claims}


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

    def claim_of(self, job: Job) -> ClaimRef:
        return ClaimRef(job.id, self.worker_id, job.claims)


class ExtendedLease(NamedTuple):
    lease_until: datetime
    cancel_reason: str | None  # cancellation was requested


class Finished(NamedTuple):
    job: Job
    outcome: Outcome
    is_repeated: bool = False


class ExternalJob(NamedTuple):
    """A job under a claim."""

    job: Job
    status: str
    locked_at: datetime


def due(connection: Connection, most: Mapping[str, int], now: datetime) -> Mapping[str, int]:
    """How many jobs a pull would find in each of these lanes, counted to about `most`. Claims nothing."""
    paused = load_pauses(connection, now).lanes
    return count_in(connection, {lane: cap for lane, cap in most.items() if lane not in paused}, now)


def pull(database: Database, totals: ExternalTotals, options: PullOptions) -> Pulled:
    """Claim due jobs under a new worker_id, which is never used again."""
    worker_id = f"{OUTSIDE}{secrets.token_hex(8)}-{options.by}"[:NAME_LENGTH]
    now = database.clock.now()
    pauses = database.read(lambda connection: load_pauses(connection, now))
    for lane in options.lanes:
        if lane in pauses.lanes:
            continue
        claimant = Claimant(worker_id, lane, database.clock.now() + options.lease)
        claimed = _claim(database, claimant, options.most)
        found = _admitted(totals, worker_id, claimed, pauses, now)
        if found:
            return Pulled(found, worker_id, claimant.lease_until)
    return Pulled((), worker_id, now)


def _claim(database: Database, claimant: Claimant, size: int) -> Sequence[Job]:
    """Jobs claimed by a first try whose COMMIT was not answered are ours, too: no other process knows them."""
    tries = 0

    def take(connection: Connection) -> Sequence[Job]:
        nonlocal tries
        tries += 1
        held = held_jobs(connection, claimant.lane, claimant.worker_id) if tries > 1 else []
        now = database.clock.now()
        return held or jobs_from(claim(connection, claimant, size, now), claimant.lane)

    return database.run(take)


def _admitted(
    totals: ExternalTotals, worker_id: str, claimed: Sequence[Job], pauses: Pauses, now: datetime
) -> list[Job]:
    """The jobs to run; the others are settled as a runner would."""
    outcomes = [(job, skip_outcome(job, pauses.types.get(job.type), now)) for job in claimed]
    skipped = [Settlement(job, outcome) for job, outcome in outcomes if outcome is not None]
    if skipped:
        totals.settle(worker_id, skipped)
    return [job for job, outcome in outcomes if outcome is None]


def release_pulled(totals: ExternalTotals, pulled: Pulled) -> None:
    """The client has disconnected before the answer was sent: no worker has these jobs."""
    totals.settle(pulled.worker_id, [Settlement(job, RELEASED) for job in pulled.jobs])


def finish(
    database: Database,
    totals: ExternalTotals,
    claim_ref: ClaimRef,
    judge: Judge,
    announce: Announce | None = None,
) -> Finished:
    """Settle a job as its worker reports; nothing is done if the same claim has reported the same before.

    Raises StaleClaim, with nothing changed, if the claim no longer holds.
    """
    row = _read_claimed(database, claim_ref)
    outcome = judge(row.job)
    if row.status != PROCESSING:
        return _repeated(row, outcome)
    if outcome.kind is OutcomeKind.DEAD and announce is not None:
        announce(row.job)  # before it is written, as in a runner
    duration_ms = max(0, (database.clock.now() - row.locked_at) // MILLISECOND)
    settled = totals.settle(claim_ref.worker_id, [Settlement(row.job, outcome, duration_ms)])
    return _repeated(_read_claimed(database, claim_ref), outcome) if settled.lost else Finished(row.job, outcome)


def _repeated(row: ExternalJob, outcome: Outcome) -> Finished:
    is_reported = outcome.kind in (OutcomeKind.DONE, OutcomeKind.DEAD) and row.status == STATUS_OF[outcome.kind]
    if not is_reported:
        raise StaleClaim(row.job.id)
    return Finished(row.job, outcome, is_repeated=True)


def extend(database: Database, claim_ref: ClaimRef, lease: timedelta) -> ExtendedLease:
    """Not after it has expired: a rescue may have begun."""
    now = database.clock.now()
    values = {**claim_ref.fence, "now": now, "lease_until": now + lease}
    if database.once(lambda connection: connection.execute(EXTEND_LEASE, values).rowcount) != 1:
        raise StaleClaim(claim_ref.job_id)
    owner = (claim_ref.job_id, claim_ref.worker_id, claim_ref.claims)
    reason = database.read(lambda connection: cancel_request(connection, *owner))
    return ExtendedLease(now + lease, reason)


def _read_claimed(database: Database, claim_ref: ClaimRef) -> ExternalJob:
    row = database.read(lambda connection: connection.execute(SELECT_CLAIMED, claim_ref.fence).first())
    if row is None:
        raise StaleClaim(claim_ref.job_id)
    status, locked_at, *columns = row
    return ExternalJob(job_from_row(columns), status, utc_from_driver(locked_at))
