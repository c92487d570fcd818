"""What is paused, as one runner knows it: read with its first claim, and again with each sign of life."""

from datetime import datetime

from mayfly.connection import Connection
from mayfly.engine import Database
from mayfly.jobs.pauses import Pause, Pauses, bring_back, load_pauses
from mayfly.schema import JOBS


class Pausing:
    def __init__(self, lane: str) -> None:
        self._lane = lane
        self._of_lane: Pause | None = None
        self.types: dict[str, Pause] = {}  # one object for all its life: the invoker looks into it for each job
        self._seen: set[str] = set()  # types that were ever paused

    def read(self, connection: Connection, now: datetime) -> None:
        self._learn(load_pauses(connection, now))

    def of_lane(self, now: datetime) -> Pause | None:
        return self._of_lane if self._of_lane is not None and self._of_lane.holds(now) else None

    def bring_back(self, database: Database) -> None:
        """What this runner put off although the pause had just ended: whoever ended it could not see that any more.

        For the end of a runner's life, when all it did is written. Most have seen no pause, and are not asked.
        """
        if self._seen:
            now = database.clock.now()
            database.read(lambda connection: self.read(connection, now))
            for each in self._seen - self.types.keys():
                bring_back(database, JOBS, each, [self._lane])

    def _learn(self, known: Pauses) -> None:
        self._of_lane = known.lanes.get(self._lane)
        self.types.clear()
        self.types.update(known.types)
        self._seen.update(known.types)
