"""External workers pull jobs over HTTP, extend leases and report outcomes. Also counts these jobs.

A claim holds until its job is settled or redelivered, even if its lease has expired: the lease only says when the job
may be redelivered. So late reports and extensions are accepted as long as no other worker can have the job.
"""

import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from threading import Lock
from typing import Any, NamedTuple

from mayfly.clock import milliseconds, monotonic
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.db.dialects import utc_from_driver
from mayfly.errors import StaleClaim
from mayfly.fleet.runners import EXTERNAL_PREFIX, is_external
from mayfly.job import Job, cancel_request
from mayfly.log_messages import LogMessage, runner_lost
from mayfly.monitoring.hooks import Announce
from mayfly.queue.claim import JOB_COLUMNS, Claimant, claim, job_from_row, jobs_from
from mayfly.queue.count import count_in
from mayfly.queue.outcome import RELEASED, Outcome, OutcomeKind, Settlement, Settler
from mayfly.queue.pauses import Pauses, load_pauses
from mayfly.queue.policy import after_expired_lease, skip_outcome
from mayfly.queue.rescue import expired_jobs, held_jobs, rescue_messages
from mayfly.queue.settle import Settled, settle
from mayfly.schema.tables import FENCE, NAME_LENGTH, PROCESSING
from mayfly.stats.histograms import Tally
from mayfly.stats.totals import STRAY_AGE

CYCLE_POLL_SECONDS = 20.0  # how often the newest finished cycle is read
PERIOD_MS = STRAY_AGE / timedelta(milliseconds=2)  # half of it: totals must not be added up while they are written
MILLISECOND = timedelta(milliseconds=1)

LAST_CLOSED_CYCLE = "SELECT id FROM mayfly_cycles WHERE finished_at IS NOT NULL ORDER BY id DESC LIMIT 1"
SELECT_CLAIMED = (
    f"SELECT status, locked_at, {JOB_COLUMNS} FROM mayfly_jobs WHERE {{ids of id}} AND worker_id = :owner"
)
EXTEND_LEASE = f"UPDATE mayfly_jobs SET lease_until = :lease_until WHERE {FENCE} AND status = 'processing'"

Judge = Callable[[Job], Outcome]


class ExternalTotals:
    """Settles jobs of external workers, one call at a time, and writes their totals as absolute figures.

    They are counted under a finished cycle, whose own totals have been added up: no dispatcher adds up these rows
    while this process still writes them. If no cycle has finished recently, the id is the current millisecond.
    """

    def __init__(self, database: Database, name: str, success_lanes: Collection[str] = ()) -> None:
        self._database = database
        self._name = name
        self._success_lanes = success_lanes
        self._lock = Lock()
        self._cycle_id = 0
        self._next_poll_at = 0.0
        self._tally: Tally = {}
        self._known_live_jobs: dict[str, int] = {}

    def settle(
        self, worker_id: str, settlements: Sequence[Settlement], expired_at: datetime | None = None
    ) -> Settled:
        with self._lock:
            self._roll_cycle()
            settler = Settler(
                worker_id, self._cycle_id, self._name, self._known_live_jobs, expired_at, self._success_lanes
            )
            settled = settle(self._database, settler, settlements, self._tally)
            self._tally = settled.tally
            return settled

    def _roll_cycle(self) -> None:
        """Count under a newer cycle, starting at 0."""
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
        """An invalid text becomes a claim that matches no job."""
        claims, _, worker_id = text.partition(".")
        is_valid = claims.isascii() and claims.isdigit() and len(claims) < 10 and is_external(worker_id)
        return cls(job_id, worker_id[:NAME_LENGTH], int(claims)) if is_valid else cls(job_id, "", 0)

    @property
    def fence(self) -> dict[str, Any]:
        return {"id": self.job_id, "owner": self.worker_id, "token": self.claims}


class PullOptions(NamedTuple):
    """What a worker requests. The jobs of one pull are all from one lane: the first of these that has due jobs."""

    by: str  # the name of its token
    lanes: Sequence[str]
    most: int  # jobs
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


class _ClaimedJob(NamedTuple):
    job: Job
    status: str
    locked_at: datetime


class Finished(NamedTuple):
    job: Job
    outcome: Outcome
    is_repeated: bool = False


def due(connection: Connection, most: Mapping[str, int], now: datetime) -> Mapping[str, int]:
    """How many jobs a pull would find in each of these lanes, counted up to about `most`. Claims nothing."""
    paused = load_pauses(connection, now).lanes
    return count_in(connection, {lane: cap for lane, cap in most.items() if lane not in paused}, now)


def redeliver(
    database: Database, totals: ExternalTotals, lanes: Sequence[str], announce: Announce | None = None
) -> list[LogMessage]:
    """Settle jobs of these lanes whose lease expired before their worker reported: they are due again, or dead.

    A lease that is extended meanwhile holds. Returns what is to be logged.
    """
    now = database.clock.now()
    expired = database.read(lambda connection: expired_jobs(connection, lanes, now))
    messages: list[LogMessage] = []
    for (lane, worker_id), held in expired.items():
        if is_external(worker_id):  # others have a runner, which the dispatcher rescues
            judged = [Settlement(job, after_expired_lease(len(held), job, now)) for job in held]
            _announce_dead(judged, announce)
            settled = totals.settle(worker_id, judged, expired_at=now)
            messages += rescue_messages(settled)
            if settled.settlements:  # none: another process was faster
                messages.append(runner_lost(worker_id, lane, len(settled.settlements)))
    return messages


def pull(database: Database, totals: ExternalTotals, options: PullOptions) -> Pulled:
    """Claim due jobs under a new worker_id, which is never used again."""
    worker_id = f"{EXTERNAL_PREFIX}{secrets.token_hex(8)}-{options.by}"[:NAME_LENGTH]
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
    """If the reply to a first COMMIT was lost, the jobs that it claimed are returned: their worker_id is ours."""
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
    """The jobs to run; the others are settled as a runner would settle them."""
    outcomes = [(job, skip_outcome(job, pauses.types.get(job.type), now)) for job in claimed]
    skipped = [Settlement(job, outcome) for job, outcome in outcomes if outcome is not None]
    if skipped:
        totals.settle(worker_id, skipped)
    return [job for job, outcome in outcomes if outcome is None]


def release_pulled(totals: ExternalTotals, pulled: Pulled) -> None:
    """The client disconnected before the response was sent: no worker has these jobs."""
    totals.settle(pulled.worker_id, [Settlement(job, RELEASED) for job in pulled.jobs])


def finish(
    database: Database, totals: ExternalTotals, claim_ref: ClaimRef, judge: Judge, announce: Announce | None = None
) -> Finished:
    """Settle a job as its worker reports. A repeated report of the same claim changes nothing.

    Raises StaleClaim, with nothing changed, if the claim no longer holds.
    """
    finished = finish_all(database, totals, {claim_ref: judge}, announce)
    if claim_ref not in finished:
        raise StaleClaim(claim_ref.job_id)
    return finished[claim_ref]


def finish_all(
    database: Database, totals: ExternalTotals, reports: Mapping[ClaimRef, Judge], announce: Announce | None = None
) -> dict[ClaimRef, Finished]:
    """Without the claims that no longer hold. One transaction per pull: its jobs have the same worker_id."""
    by_owner: dict[str, dict[ClaimRef, Judge]] = {}
    for claim_ref, judge in reports.items():
        by_owner.setdefault(claim_ref.worker_id, {})[claim_ref] = judge
    finished: dict[ClaimRef, Finished] = {}
    for worker_id, own in by_owner.items():
        finished |= _finish_own(database, totals, worker_id, own, announce)
    return finished


def _finish_own(
    database: Database,
    totals: ExternalTotals,
    worker_id: str,
    reports: Mapping[ClaimRef, Judge],
    announce: Announce | None,
) -> dict[ClaimRef, Finished]:
    claimed, now = _read_claimed(database, worker_id, reports), database.clock.now()
    outcomes = {claim_ref: reports[claim_ref](each.job) for claim_ref, each in claimed.items()}
    running = [
        Settlement(each.job, outcomes[claim_ref], max(0, (now - each.locked_at) // MILLISECOND))
        for claim_ref, each in claimed.items()
        if each.status == PROCESSING
    ]
    _announce_dead(running, announce)
    settled = totals.settle(worker_id, running).settlements if running else ()
    finished = {
        ClaimRef(each.job.id, worker_id, each.job.claims): Finished(each.job, each.outcome) for each in settled
    }
    if len(settled) < len(running):  # another request was faster
        claimed = _read_claimed(database, worker_id, reports)
    for claim_ref in (claimed.keys() & outcomes.keys()) - finished.keys():
        job, status, _locked_at = claimed[claim_ref]
        outcome = outcomes[claim_ref]
        if outcome.kind in (OutcomeKind.DONE, OutcomeKind.DEAD) and status == outcome.kind.status:
            finished[claim_ref] = Finished(job, outcome, is_repeated=True)
    return finished


def _read_claimed(database: Database, worker_id: str, claim_refs: Iterable[ClaimRef]) -> dict[ClaimRef, _ClaimedJob]:
    """Those that this worker_id owns, or has settled."""
    ids = {each.job_id for each in claim_refs}
    values = {"owner": worker_id}
    rows = database.read(lambda connection: connection.execute(SELECT_CLAIMED, values, ids).all())
    found = [_ClaimedJob(job_from_row(columns), status, utc_from_driver(at)) for status, at, *columns in rows]
    known = {ClaimRef(each.job.id, worker_id, each.job.claims): each for each in found}
    return {each: known[each] for each in claim_refs if each in known}


def _announce_dead(judged: Iterable[Settlement], announce: Announce | None) -> None:
    """Before the outcomes are written, as in a runner."""
    for each in judged:
        if announce is not None and each.outcome.kind is OutcomeKind.DEAD:
            announce(each.job)


def extend(database: Database, claim_ref: ClaimRef, lease: timedelta) -> ExtendedLease:
    """Also after the lease has expired. Raises StaleClaim if the job was redelivered or settled."""
    now = database.clock.now()
    values = {**claim_ref.fence, "lease_until": now + lease}
    if database.once(lambda connection: connection.execute(EXTEND_LEASE, values).rowcount) != 1:
        raise StaleClaim(claim_ref.job_id)
    reason = database.read(lambda connection: cancel_request(connection, claim_ref.fence))
    return ExtendedLease(now + lease, reason)
