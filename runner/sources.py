"""Claim rows of the sources of a lane, in addition to its jobs. Plugged into the claims of a runner."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mayfly import log_messages
from mayfly.db.connection import Connection
from mayfly.errors import SourceUnusable
from mayfly.job import Job
from mayfly.queue.source_table import SourceTable
from mayfly.queue.sources import ClaimedRows, RowClaim, Sources, has_due_rows, reclaim_rows
from runner.claims import Claim

if TYPE_CHECKING:
    from runner.main import Runner


def install(runner: "Runner", sources: Sources) -> None:
    tables = sources.of_lane(runner.assignment.lane)
    claims = RowClaims(runner, sources, tables)
    runner.claim_middleware.append(claims.around)
    if tables:
        runner.due_checks.append(claims.has_due)


@dataclass(frozen=True)
class RowClaims:
    runner: "Runner"
    sources: Sources
    tables: list[SourceTable]  # of the runner's lane

    def around(self, claim: Claim) -> Claim:
        """Jobs first: they are retries, or were enqueued into the lane; then due rows, as many as are missing."""

        def claim_with_rows(size: int) -> list[Job]:
            jobs = claim(size)
            if any(job.source_row is not None for job in jobs):
                self._reclaim(jobs)
            is_alone = bool(jobs) and jobs[0].suspect  # such a job shares its claim with no other
            if self.runner.pauses.lane_pause is not None or self.runner.claims.needs_fresh or is_alone:
                return jobs
            for table in self.tables:
                if len(jobs) < size and table.source.type not in self.runner.pauses.of_types:
                    jobs += self._claim(table, size - len(jobs))
            return jobs

        return claim_with_rows

    def has_due(self) -> bool:
        """Queries without locks; claims nothing."""
        now = self.runner.database.clock.now()
        tables = [each for each in self.tables if each.source.type not in self.runner.pauses.of_types]
        try:
            return self.runner.database.read(lambda c: any(has_due_rows(c, each, now) for each in tables))
        except SourceUnusable as error:
            self._report(error)
            return False

    def _reclaim(self, jobs: list[Job]) -> None:
        worker_id, now = self.runner.assignment.worker_id, self.runner.database.clock.now()
        self.runner.database.run(lambda connection: reclaim_rows(connection, self.sources, jobs, worker_id, now))

    def _claim(self, table: SourceTable, size: int) -> list[Job]:
        claims, database = self.runner.claims, self.runner.database
        claimant, max_attempts = claims.claimant(), self._max_attempts(table)

        def claim(connection: Connection) -> ClaimedRows:
            now = database.clock.now()
            return RowClaim(connection, self.sources, table, claimant, max_attempts, now).claim(size)

        try:
            with claims.host_lock(size):
                claimed = database.run(claim)
        except SourceUnusable as error:
            self._report(error)
            return []
        claims.was_due = claims.was_due or (claimed.was_due and not claimed.jobs)
        return list(claimed.jobs)

    def _max_attempts(self, table: SourceTable) -> int:
        handler = self.runner.registry.handlers.get(table.source.type)
        return (handler.max_attempts if handler else None) or self.runner.settings.max_attempts

    def _report(self, error: SourceUnusable) -> None:
        """The jobs of the lane are not affected."""
        self.runner.log.write(log_messages.source_unusable(str(error)))
