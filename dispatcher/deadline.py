"""Bound the dispatcher's statements by its own clock: a frozen server answers nothing, not even an error."""

import signal
from types import FrameType

from mayfly.clock import monotonic
from mayfly.engine import Database
from mayfly.errors import DatabaseTooSlow

LAST_STATEMENTS_SECONDS = 3.0  # after DISPATCH_TIMEOUT, to settle the jobs of killed runners and write the summary


class StatementDeadline:
    """One alarm for the whole process. It interrupts a statement and nothing else; later ones are refused at once."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def set(self, at: float) -> None:
        if at != self._database.deadline:
            self._database.deadline = at
            signal.signal(signal.SIGALRM, self._on_alarm)
            signal.setitimer(signal.ITIMER_REAL, max(0.001, at - monotonic()))

    def clear(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _on_alarm(self, _number: int, _frame: FrameType | None) -> None:
        if self._database.is_working and monotonic() >= self._database.deadline:
            raise DatabaseTooSlow(self._database.name)
