"""Outcomes that are not yet written: several per transaction if jobs are fast, each at once if they are slow."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from mayfly import log_messages
from mayfly.clock import monotonic, pause_between
from mayfly.db.database import Database
from mayfly.db.dialects import ROWS_PER_STATEMENT
from mayfly.errors import DatabaseAway, DatabaseError, LostLease
from mayfly.job import Job
from mayfly.log import Log
from mayfly.process.status_page import StatusPage
from mayfly.queue.followups import has_followups, inserted_jobs
from mayfly.queue.insert import NewJob
from mayfly.queue.outcome import DONE, OutcomeKind, Settlement, Settler
from mayfly.queue.settle import Settled, SettleTransaction, is_done, is_kept_success, settle, settle_done
from mayfly.stats.histograms import Count, Tally, add
from mayfly.stats.totals import LOST_TOTALS, add_to_totals, count
from runner.job_runtime import JobTransaction

MAX_BUFFER_SECONDS = 0.05  # after a crash, at most the jobs that finished in this time are repeated
MAX_BUFFERED = 1000
MAX_UNCOUNTED = 300
MAX_PLAIN_BATCH = 100  # jobs: in larger batches the totals cost little
MAX_UNCOUNTED_SECONDS = 1.0
FAST_SECONDS = 0.005
COMMIT_CHECK_SECONDS = 5.0  # usually enough for the restart of a server; counts as part of the job's time
COMMIT_CHECK_PAUSE_SECONDS = (0.1, 0.3)


class SettleBuffer:
    """If the process dies, the jobs in the buffer are run again."""

    def __init__(
        self,
        database: Database,
        settler: Settler,
        page: StatusPage,
        log: Log,
        announce: Callable[[Iterable[NewJob]], None] = lambda _new: None,
    ) -> None:
        """`announce` is called with new jobs, after their commit."""
        self._database = database
        self._announce = announce
        self._settler = settler
        self._page = page
        self._log = log
        self._buffered: list[Settlement] = []
        self._oldest_at = 0.0
        # Settled, but not yet in the totals. The next write of totals includes all of them, so that the dispatcher
        # can tell whether they were counted if this process dies.
        self._uncounted: list[Settlement] = []
        self._uncounted_at = 0.0
        self._lost: Tally = {}  # jobs whose lease was lost, not yet in the totals
        self._counted = 0  # jobs in the totals
        self._seconds: dict[str, float] = {}  # the recent duration of each type
        self.fast_types: set[str] = set()  # the buffer is written before a job of any other type
        self._unwritten_rows = 0
        self.tally: Tally = {}

    def add(self, settlement: Settlement, commit_now: bool = False) -> None:
        if settlement.duration_ms or settlement.job.type not in self.fast_types:
            self._note_duration(settlement)
        if commit_now:
            self._settle_now(settlement)
            return
        now = monotonic()
        if not self._buffered:
            self._oldest_at = now
        self._buffered.append(settlement)
        if len(self._buffered) > MAX_BUFFERED or now - self._oldest_at >= MAX_BUFFER_SECONDS:
            self.write()

    def write(self) -> None:
        """Settle the buffered jobs, with their totals; those of a small plain batch are written within a second."""
        if self._is_plain_batch():
            plain, self._buffered = self._buffered, []
            self._settle_plain(plain)
        elif self._buffered:
            settled = settle(self._database, self._settler, self._buffered, self.tally, self._not_in_totals())
            if settled.events:
                self._unwritten_rows += _no_longer_done(self._buffered, settled.settlements)
            self._announce(inserted_jobs(self._buffered))
            self._buffered = []
            self._note_counted(settled.tally)
            if settled.lost or settled.events:
                self._log_settled(settled)
        self._write_late_totals()

    def flush(self) -> None:
        """Write everything: outcomes and totals."""
        self.write()
        self._write_totals()

    def take_unwritten_rows(self) -> int:
        """The number of jobs since the last call that were done, and are dead: their rows could not be written."""
        number, self._unwritten_rows = self._unwritten_rows, 0
        return number

    def note_lost(self, job: Job) -> None:
        """Nothing was written for this job; it is logged, and counted with the next totals."""
        self._log.write(log_messages.lost_lease(job.id, job.type))
        self._lost = add(self._lost, {(job.lane, job.type, LOST_TOTALS): Count(1)})

    def count_later(self, settlement: Settlement) -> None:
        """Count it with the next totals."""
        self._note_uncounted(settlement)
        self._uncounted.append(settlement)

    def settle_in_transaction(self, transaction: JobTransaction, settlement: Settlement) -> None:
        """Settle a job in the transaction that its handler opened, and commit both."""
        self._note_counted(self._commit(transaction, settlement, with_totals=True).tally)
        self._note_duration(settlement)

    def settle_in_thread(self, transaction: JobTransaction, settlement: Settlement) -> None:
        """The same in another thread, which must not change this object; call `count_later` afterwards."""
        self._commit(transaction, settlement, with_totals=False)

    def _settle_now(self, settlement: Settlement) -> None:
        """One commit per job. For a plain `done` that is one UPDATE, and its totals are written later."""
        if self._is_plain(settlement) and not self._buffered:
            self._settle_plain([settlement])
            self._write_late_totals()
        else:
            self._buffered.append(settlement)
            self.write()

    def _is_plain(self, settlement: Settlement) -> bool:
        is_done = settlement.outcome.kind is OutcomeKind.DONE and not has_followups(settlement.job)
        return is_done and not is_kept_success(self._settler, settlement)

    def _is_plain_batch(self) -> bool:
        """Whether one statement without a transaction can settle the buffered jobs."""
        jobs = self._buffered
        if not 0 < len(jobs) <= min(MAX_PLAIN_BATCH, MAX_UNCOUNTED - len(self._uncounted)):
            return False
        first = jobs[0]
        return all(
            self._is_plain(each)
            and each.job.claims == first.job.claims
            and each.duration_ms == first.duration_ms
            and each.outcome == first.outcome
            for each in jobs
        )

    def _settle_plain(self, settlements: Sequence[Settlement]) -> None:
        for each in settlements:
            self._note_uncounted(each)
        lost = settle_done(self._database, self._settler.worker_id, settlements)
        self._uncounted += [each for each in settlements if each.job not in lost]
        for job in lost:
            self.note_lost(job)

    def _write_late_totals(self) -> None:
        is_late = monotonic() - self._uncounted_at >= MAX_UNCOUNTED_SECONDS
        if self._uncounted and (is_late or len(self._uncounted) >= MAX_UNCOUNTED):
            self._write_totals()

    def _write_totals(self) -> None:
        """In one statement if possible, and never a part of them: see count_unseen."""
        if counted := self._not_in_totals():
            write = self._database.once if len(counted) <= ROWS_PER_STATEMENT else self._database.run
            self._note_counted(write(lambda c: add_to_totals(c, self._settler, self.tally, counted)))

    def _note_uncounted(self, settlement: Settlement) -> None:
        """For the dispatcher. Called before the job is settled, or while it is still on the status page."""
        if not self._uncounted:
            self._uncounted_at = monotonic()
        self._page.note_uncounted(settlement.job.id, self._counted)

    def _not_in_totals(self) -> Tally:
        return add(self._lost, count(self._uncounted, self._database.clock.now())) if self._uncounted else self._lost

    def _note_counted(self, tally: Tally) -> None:
        self.tally, self._uncounted, self._lost = tally, [], {}
        self._counted = sum(each.jobs for each in tally.values())
        self._page.clear_uncounted()

    def _log_settled(self, settled: Settled) -> None:
        for job in settled.lost:
            if is_done(self._database, self._settler.worker_id, job):  # by a transaction that was taken for failed
                self.count_later(Settlement(job, DONE))
            else:
                self.note_lost(job)
        for event in settled.events:
            self._log.write(event)

    def _commit(self, transaction: JobTransaction, settlement: Settlement, with_totals: bool) -> Settled:
        now = self._database.clock.now()
        uncounted = self._not_in_totals() if with_totals else {}
        settler = replace(self._settler, requires_rows=True)
        settling = SettleTransaction(settler, [settlement], now, self.tally, uncounted, with_totals=with_totals)
        try:
            settled = transaction.database.run(settling.write)  # joins the transaction
        except Exception as error:  # in a thread, no caller could roll back
            transaction.rollback(error)
            raise
        if settled.lost:
            lost = LostLease(settlement.job.id)
            transaction.rollback(lost)
            raise lost
        try:
            transaction.commit()
        except DatabaseAway:
            if not self._was_committed(transaction.database, settlement):
                raise
        self._announce(inserted_jobs([settlement]))
        self._log_settled(settling.after_commit(transaction.database, settled))
        return settled

    def _was_committed(self, database: Database, settlement: Settlement) -> bool:
        """Perhaps only the reply to the COMMIT was lost: the row shows that, once the server can be reached again."""
        until = monotonic() + COMMIT_CHECK_SECONDS
        while True:
            try:
                return is_done(database, self._settler.worker_id, settlement.job)
            except DatabaseError:
                if monotonic() >= until:
                    return False  # then the job is released, which changes nothing if it is done
            pause_between(*COMMIT_CHECK_PAUSE_SECONDS)

    def _note_duration(self, settlement: Settlement) -> None:
        if settlement.duration_ms is None:
            return
        type_name, seconds = settlement.job.type, settlement.duration_ms / 1000
        average = (self._seconds.get(type_name, seconds) + seconds) / 2
        self._seconds[type_name] = average
        (self.fast_types.add if average < FAST_SECONDS else self.fast_types.discard)(type_name)


def _no_longer_done(buffered: Iterable[Settlement], written: Iterable[Settlement]) -> int:
    done = {each.job.id for each in buffered if each.outcome.kind is OutcomeKind.DONE}
    return sum(each.job.id in done and each.outcome.kind is not OutcomeKind.DONE for each in written)
