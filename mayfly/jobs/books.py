"""The books of a process that settles jobs outside of any cycle: its figures go beside the last cycle's totals."""

from collections.abc import Sequence
from datetime import timedelta
from threading import Lock

from mayfly.clock import milliseconds, monotonic
from mayfly.connection import Connection
from mayfly.engine import Database
from mayfly.jobs.settle import Settled, settle
from mayfly.jobs.settlement import Settlement, Settler
from mayfly.jobs.totals import STRAYS
from mayfly.schema import JobTable
from mayfly.tally import Tally

LOOK_SECONDS = 20.0  # how often it is asked which cycle was the last
PAGE_MS = STRAYS / timedelta(milliseconds=2)  # half of it: nobody adds up a page that is still written to
LAST_OVER = "SELECT id FROM mayfly_cycles WHERE finished_at IS NOT NULL ORDER BY id DESC LIMIT 1"


class Books:
    """Absolute figures under a name of their own, one settlement at a time.

    They are counted under a cycle that is over: its own figures have been added up, so that nobody adds these to
    them and leaves us to write them again. Where cron is not at work, under a number of our own, for the same reason.
    """

    def __init__(self, database: Database, jobs: JobTable, name: str) -> None:
        self._database = database
        self._jobs = jobs
        self._name = name
        self._turn = Lock()
        self._cycle_id = 0
        self._look_again_at = 0.0
        self._tally: Tally = {}
        self._witnesses: dict[str, int] = {}

    def settle(self, worker_id: str, settlements: Sequence[Settlement]) -> Settled:
        with self._turn:
            self._turn_page()
            settler = Settler(worker_id, self._cycle_id, self._name, self._witnesses)
            settled = settle(self._database, self._jobs, settler, settlements, self._tally)
            self._tally = settled.tally
            return settled

    def _turn_page(self) -> None:
        if monotonic() < self._look_again_at:
            return
        found = self._database.read(_last_over)
        self._look_again_at = monotonic() + LOOK_SECONDS
        now_ms, cycle_id = milliseconds(self._database.clock.now()), max(found or 0, self._cycle_id)
        if cycle_id < now_ms - PAGE_MS:
            cycle_id = now_ms
        if cycle_id != self._cycle_id:
            self._cycle_id, self._tally = cycle_id, {}


def _last_over(connection: Connection) -> int | None:
    found: int | None = connection.execute(LAST_OVER).scalar()
    return found
