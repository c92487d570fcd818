"""The vocabulary of the tables: version, lengths, status words, conditions that SQL and indexes share.

Every process imports it, so it imports almost nothing. The tables themselves, with the meaning of every column, are
in metadata.py.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mayfly.errors import SchemaMismatch, SchemaMissing

if TYPE_CHECKING:
    from mayfly.db.connection import AnyConnection

VERSION = "0001"  # number of the newest migration; a test compares the two
VERSION_TABLE = "mayfly_version"
USABLE_FROM = "_from_"  # 0003_from_0002: the third migration; code that knows version 0002 can use its tables
Version = str | None  # None: no tables yet

NAME_LENGTH = 64  # lanes, types, hosts, worker ids
KEY_LENGTH = 190  # unique and group keys: fits an index of utf8mb4 on every server
WAITING_LENGTH = 190  # why a job was postponed
NO_HANDLER = "no handler for type"  # how the reason begins if a runner had none
SCHEDULED = "schedule:"  # prefix of the group of a schedule's jobs; no batch or chain begins with it
SOURCE = "source:"  # prefix of the unique key of a job that comes from a row: source:NAME:KEY
MAX_ROW_KEY = KEY_LENGTH - len(SOURCE) - 33  # characters of a row's primary key, after a name of 32 and a colon

PENDING, PROCESSING, DONE, DEAD, CANCELLED = "pending", "processing", "done", "dead", "cancelled"
STATUSES = (PENDING, PROCESSING, DONE, DEAD, CANCELLED)
LIVE = (PENDING, PROCESSING)  # not finished
CLAIMED, RUNNING = "claimed", "running"  # shown instead of `processing`: whether its handler has started
FAILED_ATTEMPTS = ("failed", "timed out", "crashed")
SLICED, RELEASED = "sliced", "released"
ATTEMPT_OUTCOMES = (*FAILED_ATTEMPTS, SLICED, RELEASED, DONE)  # in mayfly_attempts

HIGH, NORMAL, LOW = 0, 1, 2
PRIORITIES = (HIGH, NORMAL, LOW)

# Which rows hold their unique_key. With scope `pending`, the first claim ends that for good. Literals, not
# parameters: a database uses a partial index only for a query that repeats the index's condition literally.
HOLDS_UNIQUE_KEY = (
    "(unique_scope = 'live' AND status IN ('pending', 'processing')"
    " OR unique_scope = 'pending' AND status = 'pending' AND claims = 0"
    " OR unique_scope = 'time')"
)

# The fence of every write by a job's owner: one changed row means that the claim still holds.
OWNED = "worker_id = :owner AND claims = :token"
FENCE = f"id = :id AND {OWNED}"


def require_version(connection: "AnyConnection") -> None:
    """Refuse tables that this code cannot use. mayfly.db.database explains a missing version table."""
    stored = stored_version(connection)
    refuse_newer(stored)
    if version_number(stored) < VERSION:
        raise SchemaMismatch(version_number(stored), VERSION)


def stored_version(connection: "AnyConnection") -> str:
    stored: Version = connection.execute(f"SELECT version_num FROM {VERSION_TABLE}").scalar()
    if stored is None:
        raise SchemaMissing
    return stored


def refuse_newer(stored: str) -> None:
    """Numbers are four digits, so that they compare as text; anything else is not older than ours."""
    if oldest_usable(stored) > VERSION:
        raise SchemaMismatch(version_number(stored), VERSION)


def is_usable(stored: str, known: Iterable[str]) -> bool:
    """Whether code that knows these versions can use the tables, although it does not know their version."""
    return oldest_usable(stored) in map(version_number, known)


def version_number(stored: str) -> str:
    return stored.partition(USABLE_FROM)[0]


def oldest_usable(stored: str) -> str:
    """The oldest code that can use these tables, by the version that it knows. The name of the migration has it, so
    that it is stored in one write, and code that does not know the migration can read it."""
    number, _, oldest = stored.partition(USABLE_FROM)
    return oldest or number
