"""Outcomes that are not yet written: several per transaction while jobs are fast, at once where they are slow."""

from collections import Counter

from mayfly import log_messages
from mayfly.clock import monotonic, pause_between
from mayfly.db.database import Database
from mayfly.errors import DatabaseAway, DatabaseError, LostLease
from mayfly.job import Job
from mayfly.log import Log
from mayfly.queue.followups import has_followups
from mayfly.queue.outcome import DONE, Settlement, Settler
from mayfly.queue.settle import Settled, SettleTransaction, is_done, settle, settle_done
from mayfly.stats.histograms import Count, Key, Tally, add
from mayfly.stats.totals import LOST_TOTALS, add_to_totals, count
from runner.job_runtime import JobTransaction

MAX_BUFFER_SECONDS = 0.05  # a crash repeats at most what was finished in this time
MAX_BUFFERED = 1000
FAST_SECONDS = 0.005
COMMIT_CHECK_SECONDS = 5.0  # a server that restarts is mostly back by then; it is part of the job's time
COMMIT_CHECK_PAUSE_SECONDS = (0.1, 0.3)


class SettleBuffer:
    """If the process dies, the jobs in here are run again."""

    def __init__(self, database: Database, settler: Settler, log: Log) -> None:
        self._database = database
        self._settler = settler
        self._log = log
        self._buffered: list[Settlement] = []
        self._oldest_at = 0.0
        self._uncounted: list[Settlement] = []  # written, and not yet in the totals
        self._lost: Counter[Key] = Counter()  # jobs whose lease was lost, not yet in the totals
        self._seconds: dict[str, float] = {}  # the recent duration of each type
        self.fast_types: set[str] = set()  # before a job of any other type the buffer is written
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
        """Settle what is buffered, with its totals."""
        if self._buffered:
            settled = settle(self._database, self._settler, self._buffered, self.tally)
            self._buffered, self.tally = [], settled.tally
            if settled.lost or settled.events:
                self._log_settled(settled)

    def flush(self) -> None:
        """Nothing is left to write, neither outcomes nor totals."""
        self.write()
        if self._uncounted or self._lost:
            counted = count(self._uncounted, self._database.clock.now())
            counted = add(counted, {key: Count(jobs) for key, jobs in self._lost.items()})
            self._uncounted, self._lost, tally = [], Counter(), self.tally
            self.tally = self._database.run(lambda c: add_to_totals(c, self._settler, tally, counted))

    def note_lost(self, job: Job) -> None:
        """Nothing was written for it; it is logged, and counted with the next totals."""
        self._log.say(log_messages.lost_lease(job.id, job.type))
        self._lost[job.lane, job.type, LOST_TOTALS] += 1

    def count_later(self, settlement: Settlement) -> None:
        self._uncounted.append(settlement)

    def settle_in_transaction(self, transaction: JobTransaction, settlement: Settlement) -> None:
        """Settle a job in the transaction that its handler opened, and commit both."""
        self.tally = self._commit(transaction, settlement, with_totals=True).tally
        self._note_duration(settlement)

    def settle_in_thread(self, transaction: JobTransaction, settlement: Settlement) -> None:
        """The same in another thread, where no state of this object may change; `count_later` follows."""
        self._commit(transaction, settlement, with_totals=False)

    def _settle_now(self, settlement: Settlement) -> None:
        """One commit per job, so its totals are left to `flush`."""
        if not self._buffered and self._settle_done(settlement):
            self._uncounted.append(settlement)
            return
        self._buffered.append(settlement)
        settled = settle(self._database, self._settler, self._buffered, self.tally, with_totals=False)
        self._buffered = []
        self._uncounted += settled.settlements
        self._log_settled(settled)

    def _settle_done(self, settlement: Settlement) -> bool:
        """One UPDATE for a job that is plainly done, without a batch, a chain or buffered jobs."""
        if settlement.outcome is not DONE or has_followups(settlement.job):
            return False
        return settle_done(self._database, self._settler.worker_id, settlement)

    def _log_settled(self, settled: Settled) -> None:
        for job in settled.lost:
            self.note_lost(job)
        for event in settled.events:
            self._log.say(event)

    def _commit(self, transaction: JobTransaction, settlement: Settlement, with_totals: bool) -> Settled:
        now = self._database.clock.now()
        settling = SettleTransaction(self._settler, [settlement], now, self.tally, with_totals=with_totals)
        settled = transaction.run(settling.write)
        if settled.lost:
            lost = LostLease(settlement.job.id)
            transaction.rollback(lost)
            raise lost
        try:
            transaction.commit()
        except DatabaseAway:
            if not self._was_committed(transaction.database, settlement):
                raise
        self._log_settled(settling.after_commit(transaction.database, settled))
        return settled

    def _was_committed(self, database: Database, settlement: Settlement) -> bool:
        """Only the answer to a COMMIT may have been lost; the row shows it, once the server can be reached again."""
        until = monotonic() + COMMIT_CHECK_SECONDS
        while True:
            try:
                return is_done(database, self._settler.worker_id, settlement.job)
            except DatabaseError:
                if monotonic() >= until:
                    return False  # a release follows; it changes nothing if the job is done
            pause_between(*COMMIT_CHECK_PAUSE_SECONDS)

    def _note_duration(self, settlement: Settlement) -> None:
        if settlement.duration_ms is None:
            return
        type_name, seconds = settlement.job.type, settlement.duration_ms / 1000
        average = (self._seconds.get(type_name, seconds) + seconds) / 2
        self._seconds[type_name] = average
        (self.fast_types.add if average < FAST_SECONDS else self.fast_types.discard)(type_name)
