"""Claim rows of the sources of a lane, in addition to its jobs. Plugged into the claims of a runner."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mayfly import log_messages
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.errors import SourceUnusable
from mayfly.job import Job
from mayfly.log import Log
from mayfly.queue.claim import Claimant, Claimed
from mayfly.queue.source_claim import LockedRows, RowClaim, reclaim_rows
from mayfly.queue.source_table import RowPosition, SourceTable
from mayfly.queue.sources import Sources, has_due_rows
from runner.batch import PauseCache
from runner.claims import MIN_BATCH_FOR_CLAIM_LOCK, Claim, ClaimLock

if TYPE_CHECKING:
    from runner.main import Runner


def install(runner: "Runner", sources: Sources) -> None:
    registry, default = runner.registry, runner.settings.max_attempts
    rows = RowClaims(
        sources,
        runner.database,
        runner.pauses,
        runner.log,
        max_attempts=lambda type_name: registry.max_attempts(type_name, default),
        locks=dict(_claim_locks(runner, sources)),
    )
    runner.claim_steps.append(rows.claim)
    runner.claim_middleware.append(rows.around)
    if rows.tables:
        runner.due_checks.append(rows.has_due)


def _claim_locks(runner: "Runner", sources: Sources) -> Iterator[tuple[str, ClaimLock]]:
    """None on SQLite: see Runner.claims."""
    if runner.database.dialect.claim_lock:
        for each in sources.of_lane(runner.assignment.lane):
            name = each.source.name
            yield name, ClaimLock(runner.page.path.parent, f"source {name}")  # no lane has a space in its name


@dataclass(frozen=True)
class RowClaims:
    """Jobs first: they are retries, or were enqueued into the lane; then due rows, as many as are missing."""

    sources: Sources
    database: Database
    pauses: PauseCache
    log: Log
    max_attempts: Callable[[str], int]  # of a type
    locks: Mapping[str, ClaimLock] = field(default_factory=dict)  # by source
    unusable: set[str] = field(default_factory=set)  # sources whose rows this runner could not read

    @property
    def tables(self) -> list[SourceTable]:
        """Those of the runner's lane."""
        return self.sources.of_lane(self.pauses.lane)

    def around(self, claim: Claim) -> Claim:
        """If the rows of a source cannot be read, the claim is repeated without them.

        Its retries are snoozed, and the other jobs run.
        """

        def claim_usable(size: int) -> list[Job]:
            while True:
                try:
                    return claim(size)
                except SourceUnusable as error:
                    self._report(error)

        return claim_usable

    def claim(self, connection: Connection, claimant: Claimant, size: int, claimed: Claimed) -> Claimed:
        """A step in the transaction of a claim. Raises SourceUnusable."""
        usable = {key: row for key, row in claimed.source_rows.items() if row.source not in self.unusable}
        if usable:
            rows = reclaim_rows(connection, self.sources, usable, claimant.worker_id, self.database.clock.now())
            claimed = claimed._replace(source_rows={**claimed.source_rows, **rows})
        if claimed.is_exclusive or claimed.needs_fresh:
            return claimed
        for table in self._served():
            missing = size - len(claimed.rows) - len(claimed.companions)
            if missing > 0:
                claimed = self._add_rows(connection, claimant, missing, table, claimed)
        return claimed

    def _add_rows(
        self, connection: Connection, claimant: Claimant, size: int, table: SourceTable, claimed: Claimed
    ) -> Claimed:
        attempts = self.max_attempts(table.source.type)
        claim = RowClaim(connection, self.sources, table, claimant, attempts, self.database.clock.now())
        lock = self.locks.get(table.source.name) if size >= MIN_BATCH_FOR_CLAIM_LOCK else None
        locked = claim.lock(size) if lock is None else _lock_in_turn(claim, lock, size)
        companions = [*claimed.companions, *claim.take(locked.rows)]
        return claimed._replace(companions=companions, was_due=claimed.was_due or locked.was_due)

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
        paused = self.pauses.of_types
        return [
            each for each in self.tables if each.source.type not in paused and each.source.name not in self.unusable
        ]

    def _report(self, error: SourceUnusable) -> None:
        """Once per runner. The jobs of the lane are not affected."""
        self.log.write(log_messages.source_unusable(str(error)))
        self.unusable.add(error.source)


def _lock_in_turn(claim: RowClaim, lock: ClaimLock, size: int) -> LockedRows:
    """One runner per host at a time, starting where the last one stopped.

    The next one may start as soon as these rows are locked: it does not visit them. If this claim is rolled back,
    they are found when the cursor has expired.
    """
    with lock.hold():
        values = lock.cursor()
        after = None if values is None else RowPosition(*values)
        locked = claim.lock(size, after)
        lock.store_cursor(after, locked.reached and locked.reached.plain)
    return locked
