"""Jobs that run side by side: the main thread starts, awaits, interrupts and settles them, and nobody else does."""

import sys
import traceback
from collections.abc import Sequence
from math import inf

from mayfly import events
from mayfly.clock import monotonic
from mayfly.errors import LostLease, MayflyError
from mayfly.job import Job
from mayfly.jobs.settlement import Settlement
from mayfly.outcome import DONE, Kind
from runner.batch import BatchRunner, Report
from runner.claims import Claims
from runner.guard import Cause
from runner.invoke import Ran
from runner.run import Run, judge
from runner.runs import Place, Runs

TICK_SECONDS = 0.25  # a stop is noticed after this at the latest
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.02, 1.0  # before an empty lane is asked again, while jobs run


class Crew:
    """Runs the batches of a lane that has handlers with `async def` or `threads=`; the plain ones of it come last."""

    def __init__(self, batches: BatchRunner, claims: Claims, runs: Runs) -> None:
        self._batches, self._outbox, self._guard, self._log = batches, batches.outbox, batches.guard, batches.log
        self._gate = batches.gate
        self._claims = claims
        self._runs = runs
        self._concurrent = batches.invoker.registry.concurrent
        self._hand: list[Job] = []  # claimed, and not yet started
        self._waiting: list[Job] = []  # the same, for a slot of a limit that one of ours uses: it may free it at once
        self._plain: list[Job] = []  # the same, and to be run when nothing else does
        self._types: set[str] = set()  # of the last claim
        self._pause = 0.0
        self._ask_at = 0.0
        self._report = Report()

    def run(self, batch: Sequence[Job]) -> Report:
        """Until nothing runs any more and no more can be had."""
        if not any(job.type in self._concurrent for job in batch):
            return self._batches.run(batch)
        self._report = Report()
        self._pause = self._ask_at = 0.0  # the lane is not empty any more
        self._log.say(events.processing(len(batch)))
        self._take(batch)
        try:
            self._work()
        except MayflyError:  # the database is gone, say: what runs here cannot be settled, and is not to blame
            self._batches.invoker.page.acquit()
            raise
        self._guard.relax_beside()
        self._batches.tell_completed(self._report)
        if self._plain:
            plain, self._plain = self._plain, []
            self._report.add(self._batches.run(plain))
        return self._report

    def _work(self) -> None:
        while True:
            self._start_or_give_back()
            if self._claim_more():
                continue
            if not self._runs and not self._waiting:
                return
            self._guard.watch_beside(self._runs.first_limit)
            self._settle(self._runs.await_ended(self._until_due()))
            self._end_late()

    # --- starting -----------------------------------------------------------------------------------------

    @property
    def _may_start(self) -> bool:
        return self._guard.may_start and not self._report.left_behind

    def _take(self, batch: Sequence[Job]) -> None:
        self._hand += (job for job in batch if job.type in self._concurrent)
        self._plain += (job for job in batch if job.type not in self._concurrent)
        self._types = {job.type for job in self._hand}

    def _start_or_give_back(self) -> None:
        if self._may_start:
            self._defer_unfitting()
            ready, later, self._waiting = self._admitted()
            self._hand = [job for job in ready if not self._begin(job)] + later
        elif held := [*self._waiting, *self._hand, *self._plain]:
            self._batches.give_back(held, self._report)
            self._put_down(self._hand)
            self._hand, self._waiting, self._plain = [], [], []
            self._outbox.flush()

    def _defer_unfitting(self) -> None:
        """Also who waits for a slot: it would have even less time later."""
        if self._batches.foresight is not None:
            held = [*self._waiting, *self._hand]
            hand = list(self._batches.fitting(held, self._report))
            staying = {job.id for job in hand}
            self._put_down([job for job in held if job.id not in staying])
            self._hand, self._waiting = hand, []

    def _begin(self, job: Job) -> bool:
        """False if there is no slot for it yet."""
        away = self._batches.invoker.turned_away(job)
        if away is None:
            return self._runs.start(job)
        self._conclude(job, away)
        self._put_down([job])
        return True

    def _admitted(self) -> tuple[list[Job], list[Job], list[Job]]:
        """Whom no limit keeps, who has not been asked for, and who waits for one of ours to end."""
        if self._gate is None:
            return self._hand, [], []
        found = self._gate.beside([*self._waiting, *self._hand], self._runs.room_for, self._conclude)
        self._gate.release()
        return found

    def _conclude(self, job: Job, became: Ran) -> None:
        self._batches.conclude(job, became, self._report)

    def _put_down(self, jobs: Sequence[Job]) -> None:
        if self._gate is not None:
            self._gate.ended(jobs)

    def _room(self) -> int:
        """What is claimed must fit: nothing while something waits in hand."""
        waits = self._hand or self._plain or not self._may_start or self._batches.claims_no_more
        return 0 if waits else self._runs.room_beside(self._types)

    def _claim_more(self) -> bool:
        """At once, rather than when the first has ended; after an empty answer less and less often."""
        room = self._room()
        if not room or monotonic() < self._ask_at or (self._pause and not self._runs):
            return False
        batch = self._claims.more(room)
        self._pause = 0.0 if batch else min(max(FIRST_PAUSE_SECONDS, 2 * self._pause), LONGEST_PAUSE_SECONDS)
        self._ask_at = monotonic() + self._pause
        if batch:
            self._take(batch)
        return bool(batch)

    # --- ending -------------------------------------------------------------------------------------------

    def _until_due(self) -> float:
        due = min(self._runs.due(self._guard.ends_at), self._ask_at if self._room() else inf)
        return min(due - monotonic(), TICK_SECONDS)

    def _settle(self, ended: Sequence[Run]) -> None:
        """Together, and before their slots are used again."""
        for run in ended:
            self._runs.place_of(run).dismiss(run)
            self._finish(run)
        self._outbox.flush()

    def _finish(self, run: Run) -> None:
        job = run.job
        ran = judge(run, self._batches.invoker)
        if run.handler.hooks is not None:
            run.handler.hooks.after(job, ran.outcome)
        self._runs.remove(run, ran.outcome.kind is Kind.DONE)
        self._put_down([job])
        if isinstance(run.error, LostLease):
            self._outbox.note_lost(job)
            return
        settlement = Settlement(job, ran.outcome, ran.duration_ms)
        (self._outbox.count_later if run.is_settled else self._batches.settle_or_put_aside)(settlement)
        self._report.outcomes[ran.outcome.kind] += 1
        if ran.outcome is not DONE:
            self._batches.note(job, ran, self._report)

    def _end_late(self) -> None:
        """Interrupt whoever's time is up, again and again, and leave behind who cannot be interrupted."""
        now, ends_at = monotonic(), self._guard.ends_at
        for run in [each for each in self._runs if now >= each.due(ends_at)]:
            if run not in self._runs:  # settled with one that blocks its event loop
                continue
            if run.cannot_be_ended(now):
                self._leave_behind(run)
            else:
                run.note_interruption(now, self._guard.cause_of(run.limit))
                self._runs.place_of(run).interrupt(run)

    def _leave_behind(self, run: Run) -> None:
        """Settled as one that was interrupted; this process takes no more jobs and ends without it."""
        place = self._runs.place_of(run)
        if not self._report.left_behind:
            self._log.say(events.job_left_behind(run.job.id, run.job.type, run.seconds))
            traceback.print_stack(place.frame_of(run), file=sys.stderr)
        self._report.left_behind = True
        for each in self._ending_with(run, place):
            self._finish(each)
        self._outbox.flush()

    def _ending_with(self, run: Run, place: Place) -> list[Run]:
        """The run alone, or, on a blocked event loop, all that run there: only the one that blocks it is to blame."""
        if not place.is_stuck(run):
            return [run]
        blocking, stuck = place.blocking_run(), self._runs.at(place)
        for each in stuck:
            is_innocent = blocking is not None and each is not blocking
            each.cause = Cause.STUCK if is_innocent else each.cause or Cause.GUARD
        return stuck
