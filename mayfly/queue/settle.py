"""Write what the owner of a running job reports: checkpoints, progress, and in the end the outcome.

Every write is fenced by id, worker_id and claims: a process that has lost its lease changes no row and learns so.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.errors import CancelRequested, HandlerEnded, LeaseGone
from mayfly.job import MOVED, Job, cancel_request
from mayfly.log_messages import LogMessage
from mayfly.queue.followups import FOLLOW_UPS, has_followups, write_buffered
from mayfly.queue.outcome import DONE, FINAL_KINDS, Outcome, OutcomeKind, Settlement, Settler
from mayfly.schema.tables import CANCELLED, DEAD, FENCE, OWNED, PENDING
from mayfly.schema.tables import DONE as DONE_STATUS
from mayfly.stats.histograms import Count, Key, Tally, add
from mayfly.stats.totals import add_to_totals, count

STATUS_OF = {OutcomeKind.DONE: DONE_STATUS, OutcomeKind.DEAD: DEAD, OutcomeKind.CANCELLED: CANCELLED}
# The handler had its chance: releases are counted in a row.
ENDS_RELEASES = (OutcomeKind.FAILED, OutcomeKind.TIMED_OUT, OutcomeKind.CRASHED, OutcomeKind.SLICED)
SELECT_OWN_DONE = f"SELECT id FROM mayfly_jobs WHERE {FENCE} AND status = 'done'"
SELECT_OWN_TOTALS = (
    "SELECT lane, type, outcome, jobs FROM mayfly_totals WHERE cycle_id = :cycle_id AND worker_id = :worker_id"
)

STORE_CHECKPOINT = (
    "UPDATE mayfly_jobs SET checkpoint = :checkpoint"
    f" WHERE {FENCE} AND status = 'processing' AND cancel_reason IS NULL"
)
# A job that makes progress is no suspect: an import of hours must not die of the third crash in a week. Its crashes
# are forgiven, not forgotten: MySQL sets columns from left to right, so they are added before they are reset.
STORE_CHANGED_CHECKPOINT = (
    f"UPDATE mayfly_jobs SET checkpoint = :checkpoint, stalled = {MOVED}, forgiven = forgiven + crashes,"
    f" crashes = 0, interruptions = 0, suspect = 0 WHERE {FENCE} AND status = 'processing' AND cancel_reason IS NULL"
)
# Whatever its status: the last progress of a handler that has committed its `done` itself comes after that.
STORE_PROGRESS = f"UPDATE mayfly_jobs SET progress = :progress WHERE {FENCE}"


@dataclass(frozen=True)
class Settled:
    settlements: tuple[Settlement, ...]  # what was written
    lost: tuple[Job, ...]  # jobs that another process owns now; nothing was changed
    tally: Tally  # everything this process has counted so far
    events: tuple[LogMessage, ...] = ()  # of follow-ups: to be logged after the commit


class _NotAllOurs(Exception):
    """A statement for several jobs met one that is no longer ours."""


def settle(
    database: Database, settler: Settler, settlements: Sequence[Settlement], tally: Tally, with_totals: bool = True
) -> Settled:
    """Write the outcomes in one transaction. Jobs that are no longer ours are left alone and reported.

    With `with_totals=False` the totals are left to a later `add_to_totals`: one commit per job is expensive enough.
    """
    now = database.clock.now()

    def write(one_by_one: bool) -> Settled:
        transaction = SettleTransaction(
            settler, settlements, now, tally, with_totals=with_totals, one_by_one=one_by_one
        )
        run = database.once if transaction.is_single_statement else database.run
        return transaction.after_commit(database, run(transaction.write))

    try:
        return write(one_by_one=False)
    except _NotAllOurs:
        return write(one_by_one=True)


def settle_done(database: Database, worker_id: str, settlement: Settlement) -> bool:
    """One job that is done without result or follow-ups, its totals left to later: one statement and nothing else.

    False if it changed no row; `settle` then finds out why.
    """
    statement, values = _update(worker_id, [settlement], database.clock.now())
    return database.once(lambda connection: connection.execute(statement, values).rowcount) == 1


def is_done(database: Database, worker_id: str, job: Job) -> bool:
    """Whether its owner has committed that it is done, although the answer to the COMMIT was lost."""
    return database.read(lambda connection: _has_own_done(connection, worker_id, job))


class SettleTransaction:
    """Outcomes prepared for writing: in the transaction, while others wait for its locks, nothing is computed."""

    def __init__(
        self,
        settler: Settler,
        settlements: Sequence[Settlement],
        now: datetime,
        tally: Tally,
        *,
        with_totals: bool = True,
        one_by_one: bool = False,
    ) -> None:
        self._settler = settler
        self._settlements = settlements
        self._now = now
        self._tally = tally  # what this process has counted before
        self._counted = count(settlements, now) if with_totals else None
        groups = [[each] for each in settlements] if one_by_one else _grouped(settlements)
        self._updates = [(*_update(settler.worker_id, group, now), group) for group in groups]
        self._followed = [each for each in settlements if has_followups(each.job)]

    @property
    def is_single_statement(self) -> bool:
        is_alone = len(self._settlements) == 1 and self._counted is None and not self._followed
        return is_alone and self._settlements[0].outcome.attempt_ending is None

    def write(self, connection: Connection) -> Settled:
        settled, lost = self._write_outcomes(connection)
        events: list[LogMessage] = []
        if self._followed:
            ours = [each for each in self._followed if each.job not in lost]
            for step in FOLLOW_UPS:
                events += step.write(connection, ours, self._now)
        if lost and (written := self._written_before(connection, settled, lost)):
            if self._counted is not None:
                return Settled(tuple(written), (), add(self._tally, self._counted))
            lost = [job for job in lost if all(job is not each.job for each in written)]
        else:
            written = []
        _write_attempts(connection, self._settler.worker_id, settled, self._now)
        tally = self._write_totals(connection, settled) if self._counted is not None else self._tally
        return Settled((*settled, *written), tuple(lost), tally, tuple(events))

    def after_commit(self, database: Database, settled: Settled) -> Settled:
        """The same with what the follow-ups have to log."""
        if not self._followed:
            return settled
        events = list(settled.events)
        for step in FOLLOW_UPS:
            events += step.after_commit(database, self._followed, self._settler.known_live_jobs)
        return replace(settled, events=tuple(events))

    def _write_outcomes(self, connection: Connection) -> tuple[list[Settlement], list[Job]]:
        """What was written, and the jobs that are no longer ours."""
        settled: list[Settlement] = []
        lost: list[Job] = []
        for statement, values, group in self._updates:
            ids = [each.job.id for each in group] if len(group) > 1 else None
            changed = connection.execute(statement, values, ids).rowcount
            if changed == len(group):
                settled += group
            elif len(group) > 1:
                raise _NotAllOurs
            else:
                lost.append(group[0].job)
        return settled, lost

    def _written_before(
        self, connection: Connection, settled: Sequence[Settlement], lost: Sequence[Job]
    ) -> Sequence[Settlement]:
        """By a first try whose COMMIT was not answered: these jobs are not lost, they are settled."""
        worker_id = self._settler.worker_id
        if self._counted is None:
            done = [each for each in self._settlements if each.job in lost and each.outcome.kind is OutcomeKind.DONE]
            return [each for each in done if _has_own_done(connection, worker_id, each.job)]
        return self._settlements if not settled and self._is_counted(connection, self._counted) else ()

    def _is_counted(self, connection: Connection, counted: Mapping[Key, Count]) -> bool:
        """Only this process writes these totals, in the same transaction: they are further than it knows of."""
        key = {"cycle_id": self._settler.cycle_id, "worker_id": self._settler.totals_key}
        found = connection.execute(SELECT_OWN_TOTALS, key).all()
        stored = {(lane, type_name, outcome): jobs for lane, type_name, outcome, jobs in found}
        total = add(self._tally, counted)
        return all(stored.get(key) == total[key].jobs for key in counted)

    def _write_totals(self, connection: Connection, settled: Sequence[Settlement]) -> Tally:
        is_complete = len(settled) == len(self._settlements) and self._counted is not None
        counted = self._counted if is_complete else count(settled, self._now)
        return add_to_totals(connection, self._settler, self._tally, counted or {})


# --- the statements of outcomes ---------------------------------------------------------------------------


def _grouped(settlements: Sequence[Settlement]) -> Iterable[list[Settlement]]:
    """Jobs with the same token and the same outcome share a statement: a batch of fast jobs is one UPDATE.

    One UPDATE per job costs a drain 2.4 times the CPU on MariaDB, 3.7 times on PostgreSQL.
    """
    groups: dict[object, list[Settlement]] = {}
    for each in settlements:
        # Most are DONE itself; hashing an Outcome takes as long as everything else that is done here for a job.
        outcome = None if each.outcome is DONE else each.outcome
        groups.setdefault((each.job.claims, outcome, each.duration_ms), []).append(each)
    return groups.values()


def _update(worker_id: str, group: Sequence[Settlement], now: datetime) -> tuple[str, dict[str, Any]]:
    """One statement for jobs that share token and outcome, and its values. One changed row means it was ours.

    A single job is named by a parameter, so that the database need not parse the statement again.
    """
    job, outcome, duration_ms = group[0]
    values = _values(outcome, duration_ms, now)
    changes = {**_changes(outcome), **{name: f":{name}" for name in values}}
    changed = ", ".join(f"{name} = {value}" for name, value in changes.items())
    jobs = "id = :id" if len(group) == 1 else "{ids of id}"
    statement = f"UPDATE mayfly_jobs SET {changed} WHERE {jobs} AND {OWNED} AND status = 'processing'"
    return statement, {**values, **_fence(worker_id, job)}


def _changes(outcome: Outcome) -> dict[str, str]:
    """Columns set by expressions. A finished job keeps its worker_id: it shows where the job ran."""
    changes = {"status": f"'{STATUS_OF.get(outcome.kind, PENDING)}'", "lease_until": "NULL"}
    if outcome.kind not in FINAL_KINDS:
        changes |= {"worker_id": "NULL", "locked_at": "NULL"}
    if outcome.keeps_attempt:
        changes["attempts"] = "attempts - 1"
    if outcome.kind is OutcomeKind.SLICED:
        # `stalled` becomes 0 where the checkpoint has changed; after the end of a slice crashes count from 0 again.
        changes |= {"slices": "slices + 1", "stalled": "stalled + 1", "forgiven": "0"}
    if outcome.interrupted:
        changes["interruptions"] = "interruptions + 1"
    if outcome.counts_release:
        changes["releases"] = "releases + 1"
    elif outcome.kind in ENDS_RELEASES:
        changes["releases"] = "0"
    if outcome.crashed:
        changes["crashes"] = "crashes + 1"
    if outcome.suspect:
        changes["suspect"] = "1"
    return changes


def _values(outcome: Outcome, duration_ms: int | None, now: datetime) -> dict[str, Any]:
    """Columns set to values."""
    values: dict[str, Any] = {}
    if outcome.kind in FINAL_KINDS:
        values["finished_at"] = now
    if duration_ms is not None:
        values["duration_ms"] = duration_ms
        values["started_at"] = now - timedelta(milliseconds=duration_ms)
    if outcome.run_at is not None:
        values["run_at"] = outcome.run_at
        values["waiting_for"] = outcome.waiting_for  # why it was postponed, NULL after a retry
    if outcome.result is not None:
        values["result"] = outcome.result
    if outcome.error is not None:
        values["last_error"] = outcome.error
    return values


def _write_attempts(connection: Connection, worker_id: str, settled: Sequence[Settlement], now: datetime) -> None:
    rows = [
        {
            "job_id": job.id,
            "attempt": job.attempt,
            "worker_id": worker_id,
            "outcome": outcome.attempt_ending.value,
            "error": outcome.error or "",
            "fingerprint": outcome.fingerprint or "",
            "finished_at": now,
            "duration_ms": duration_ms,
        }
        for job, outcome, duration_ms in settled
        if outcome.attempt_ending is not None
    ]
    if rows:
        connection.execute_many(connection.dialect.insert("mayfly_attempts", rows[0]), rows)


# --- while a job runs -------------------------------------------------------------------------------------


def store_checkpoint(database: Database, worker_id: str, job: Job, text: str, moved: bool) -> None:
    """In one statement, which writes nothing if cancellation was requested.

    What its handler has enqueued so far is inserted with it: the next run continues after this point.
    """
    values = {**_fence(worker_id, job), "checkpoint": text}
    statement, buffered = STORE_CHANGED_CHECKPOINT if moved else STORE_CHECKPOINT, job.held

    def write(connection: Connection) -> int:
        changed = connection.execute(statement, values).rowcount
        if changed and buffered:
            write_buffered(connection, buffered, database.clock.now())
        return changed

    if (database.run(write, twice=False) if buffered else database.once(write)) == 0:
        raise _why_not_stored(database, worker_id, job)
    job.held = None


def store_progress(database: Database, worker_id: str, job: Job, text: str) -> None:
    values = {**_fence(worker_id, job), "progress": text}
    if database.once(lambda connection: connection.execute(STORE_PROGRESS, values).rowcount) == 0:
        raise LeaseGone


def _why_not_stored(database: Database, worker_id: str, job: Job) -> HandlerEnded:
    reason = database.read(lambda connection: cancel_request(connection, job.id, worker_id, job.claims))
    return LeaseGone() if reason is None else CancelRequested(reason)


def _has_own_done(connection: Connection, worker_id: str, job: Job) -> bool:
    """Only its owner writes that a job is done."""
    return connection.execute(SELECT_OWN_DONE, _fence(worker_id, job)).first() is not None


def _fence(worker_id: str, job: Job) -> dict[str, Any]:
    return {"id": job.id, "owner": worker_id, "token": job.claims}
