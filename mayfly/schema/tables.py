"""The words of the tables: versions, lengths, statuses. Their DDL lives in migrations/, and nowhere else."""

from collections.abc import Mapping
from typing import NamedTuple

VERSION = "0007"  # what migrations/ leads to; a test keeps the two together
VERSION_TABLE = "mayfly_version"

NAME_LENGTH = 64  # lanes, types, hosts, worker ids
KEY_LENGTH = 190  # unique and group keys: fits an index of utf8mb4 on every server
WAITING_LENGTH = 190  # why a job was put off
SCHEDULED = "schedule:"  # begins the group of a schedule's jobs, and of no batch or chain

PENDING, PROCESSING, DONE, DEAD, CANCELLED = "pending", "processing", "done", "dead", "cancelled"
STATUSES = (PENDING, PROCESSING, DONE, DEAD, CANCELLED)
LIVE = (PENDING, PROCESSING)  # while a job is one of these it holds its unique key

HIGH, NORMAL, LOW = 0, 1, 2
PRIORITIES = (HIGH, NORMAL, LOW)


class Columns:
    """The names of a table's columns by what Mayfly calls them: `c.run_at`."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def __getattr__(self, name: str) -> str:
        return self._names.get(name, name)


class JobTable(NamedTuple):
    """A table of jobs as a value: its columns by their Mayfly names, and its own words for the statuses."""

    table: str = "mayfly_jobs"
    columns: tuple[tuple[str, str], ...] = ()  # Mayfly's name and its own, where they are not the same
    pending: str = PENDING
    processing: str = PROCESSING
    done: str = DONE
    dead: str = DEAD
    cancelled: str = CANCELLED

    def word_of(self, status: str) -> str:
        """Mayfly's for one of this table."""
        return next(word for word in STATUSES if getattr(self, word) == status)

    @property
    def c(self) -> Columns:
        return Columns(dict(self.columns))


JOBS = JobTable()
