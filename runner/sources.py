"""Claim rows of the sources of a lane, in addition to its jobs. Plugged into the claims of a runner."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mayfly import log_messages
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.errors import SourceUnusable
from mayfly.job import Job
from mayfly.log import Log
from mayfly.queue.claim import Claimed
from mayfly.queue.source_table import SourceTable
from mayfly.queue.sources import ClaimedRows, RowClaim, Sources, has_due_rows, reclaim_rows
from mayfly.registry import Registry
from runner.batch import PauseCache
from runner.claims import Claim, Claims

if TYPE_CHECKING:
    from runner.main import Runner


def install(runner: "Runner", sources: Sources) -> None:
    rows = RowClaims(
        sources=sources,
        tables=sources.of_lane(runner.assignment.lane),
        database=runner.database,
        registry=runner.registry,
        max_attempts=runner.settings.max_attempts,
        pauses=runner.pauses,
        log=runner.log,
        claims=lambda: runner.claims,
    )
    runner.claim_middleware.append(rows.around)
    if rows.tables:
        runner.due_checks.append(rows.has_due)


@dataclass(frozen=True)
class RowClaims:
    sources: Sources
    tables: Sequence[SourceTable]  # of the runner's lane
    database: Database
    registry: Registry
    max_attempts: int  # of handlers that set none
    pauses: PauseCache
    log: Log
    claims: Callable[[], Claims]  # those around which this is plugged
    unusable: set[str] = field(default_factory=set)  # sources whose rows could not be read

    def around(self, claim: Claim) -> Claim:
        """Jobs first: they are retries, or were enqueued into the lane; then due rows, as many as are missing."""

        def claim_with_rows(size: int) -> list[Job]:
            jobs = self._claim_jobs(claim, size)
            is_alone = bool(jobs) and jobs[0].suspect  # such a job shares its claim with no other
            if self.pauses.lane_pause is not None or self.claims().needs_fresh or is_alone:
                return jobs
            for table in self._served():
                if len(jobs) < size:
                    jobs += self._claim(table, size - len(jobs))
            return jobs

        return claim_with_rows

    def has_due(self) -> bool:
        """Queries without locks; claims nothing."""
        return any(map(self._has_due, self._served()))

    def _has_due(self, table: SourceTable) -> bool:
        now = self.database.clock.now()
        try:
            return self.database.read(lambda connection: has_due_rows(connection, table, now))
        except SourceUnusable as error:
            self._report(error)
            return False

    def _served(self) -> list[SourceTable]:
        return [each for each in self.tables if each.source.type not in self.pauses.of_types]

    def _claim_jobs(self, claim: Claim, size: int) -> list[Job]:
        """If the rows of a source cannot be read, its jobs are snoozed, and the others run."""
        self.claims().claim_rows = self._reclaim
        while True:
            try:
                return claim(size)
            except SourceUnusable as error:
                self._report(error)
                self.unusable.add(error.source)

    def _reclaim(self, connection: Connection, claimed: Claimed) -> Claimed:
        worker_id, now = self.claims().assignment.worker_id, self.database.clock.now()
        usable = {job_id: row for job_id, row in claimed.source_rows.items() if row.source not in self.unusable}
        rows = reclaim_rows(connection, self.sources, usable, worker_id, now)
        return claimed._replace(source_rows={**claimed.source_rows, **rows})

    def _claim(self, table: SourceTable, size: int) -> list[Job]:
        claims = self.claims()
        claimant, max_attempts = claims.claimant(), self._max_attempts(table)

        def claim(connection: Connection) -> ClaimedRows:
            now = self.database.clock.now()
            return RowClaim(connection, self.sources, table, claimant, max_attempts, now).claim(size)

        try:
            with claims.host_lock(size):
                claimed = self.database.run(claim)
        except SourceUnusable as error:
            self._report(error)
            return []
        claims.was_due = claims.was_due or (claimed.was_due and not claimed.jobs)
        return list(claimed.jobs)

    def _max_attempts(self, table: SourceTable) -> int:
        handler = self.registry.get(table.source.type)
        return (handler.max_attempts if handler else None) or self.max_attempts

    def _report(self, error: SourceUnusable) -> None:
        """The jobs of the lane are not affected."""
        self.log.write(log_messages.source_unusable(str(error)))
