"""Outcomes on their way to the table: written together while jobs are fast, at once where they are not."""

from collections import Counter

from mayfly import log_messages
from mayfly.clock import monotonic
from mayfly.db.database import Database
from mayfly.errors import LostLease
from mayfly.job import Job
from mayfly.log import Log
from mayfly.queue.followups import has_followups
from mayfly.queue.outcome import DONE, Settlement, Settler
from mayfly.queue.settle import Settled, SettleTransaction, settle, settle_done
from mayfly.stats.histograms import Count, Key, Tally, add
from mayfly.stats.totals import LOST_TOTALS, add_to_totals, count
from runner.job_runtime import JobTransaction

MAX_BUFFER_SECONDS = 0.05  # a crash repeats at most what was finished in this time
MAX_BUFFERED = 1000
FAST_SECONDS = 0.005


class SettleBuffer:
    """Holds what is finished and not yet written. Whatever is lost with it is run again, never lost."""

    def __init__(self, database: Database, settler: Settler, log: Log) -> None:
        self._database = database
        self._settler = settler
        self._log = log
        self._waiting: list[Settlement] = []
        self._uncounted: list[Settlement] = []  # written, and not yet among the totals
        self._lost: Counter[Key] = Counter()  # likewise: jobs that somebody else owns now
        self._oldest = 0.0
        self._seconds: dict[str, float] = {}  # what a job of each type took of late
        self.tally: Tally = {}

    def add(self, settlement: Settlement, at_once: bool = False) -> None:
        if at_once and not self._waiting and self._settle_done(settlement):
            return
        now = monotonic()
        if not self._waiting:
            self._oldest = now
        self._waiting.append(settlement)
        self._learn(settlement)
        if at_once:
            self._write(count=False)
        elif len(self._waiting) > MAX_BUFFERED or now - self._oldest >= MAX_BUFFER_SECONDS:
            self._write()

    def _settle_done(self, settlement: Settlement) -> bool:
        """Most that is to be committed at once is plainly done, and a commit a job is dear enough."""
        job = settlement.job
        if settlement.outcome is not DONE or has_followups(job):
            return False
        if not settle_done(self._database, self._settler.worker_id, settlement):
            return False
        self._uncounted.append(settlement)
        self._learn(settlement)
        return True

    def before(self, type_name: str) -> None:
        """What is finished must not wait behind a job that may be slow."""
        if self._waiting and self._seconds.get(type_name, FAST_SECONDS) >= FAST_SECONDS:
            self._write()

    def flush(self) -> None:
        """Nothing waits any more, neither outcomes nor figures."""
        if self._waiting:
            self._write()
        self._count()

    def _count(self) -> None:
        if self._uncounted or self._lost:
            counted = count(self._uncounted, self._database.clock.now())
            counted = add(counted, {key: Count(jobs) for key, jobs in self._lost.items()})
            self._uncounted, self._lost, tally = [], Counter(), self.tally
            self.tally = self._database.run(lambda c: add_to_totals(c, self._settler, tally, counted))

    def _write(self, count: bool = True) -> None:
        settled = settle(self._database, self._settler, self._waiting, self.tally, count)
        if not count:
            self._uncounted += settled.settlements
        self._take_note(settled)

    def _take_note(self, settled: Settled) -> None:
        self._waiting = []
        self.tally = settled.tally
        for job in settled.lost:
            self.note_lost(job)
        self._tell(settled)

    def note_lost(self, job: Job) -> None:
        """Nothing of it was written; that it happened is told, and counted with the next figures."""
        self._log.say(log_messages.lost_lease(job.id, job.type))
        self._lost[job.lane, job.type, LOST_TOTALS] += 1

    def _tell(self, settled: Settled) -> None:
        for event in settled.events:
            self._log.say(event)

    def settle_in(self, transaction: JobTransaction, settlement: Settlement) -> None:
        """Settle a job in the transaction its handler opened, and commit both."""
        self.tally = self._commit(transaction, settlement, count=True).tally
        self._learn(settlement)

    def settle_beside(self, transaction: JobTransaction, settlement: Settlement) -> None:
        """The same in another thread, where nothing of ours may be changed; `count_later` follows in the main one."""
        self._commit(transaction, settlement, count=False)

    def count_later(self, settlement: Settlement) -> None:
        self._uncounted.append(settlement)

    def _commit(self, transaction: JobTransaction, settlement: Settlement, count: bool) -> Settled:
        now = self._database.clock.now()
        ready = SettleTransaction(self._settler, [settlement], now, self.tally, with_totals=count)
        settled = transaction.run(ready.write)
        if settled.lost:
            lost = LostLease(settlement.job.id)
            transaction.undo(lost)
            raise lost
        transaction.commit()
        self._tell(ready.after_commit(transaction.database, settled))
        return settled

    def _learn(self, settlement: Settlement) -> None:
        took_ms, type_name = settlement.duration_ms, settlement.job.type
        if took_ms is None:
            return
        known = self._seconds.get(type_name)
        if known is None:
            self._seconds[type_name] = took_ms / 1000
        elif known or took_ms:
            self._seconds[type_name] = (known + took_ms / 1000) / 2
