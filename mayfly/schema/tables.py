"""The vocabulary of the tables: version, lengths, status words, conditions that SQL and indexes share.

Imported on every path, so it imports nothing. The tables themselves, with the meaning of every column, are in
metadata.py.
"""

VERSION = "0001"  # the newest migration; a test compares the two
VERSION_TABLE = "mayfly_version"

NAME_LENGTH = 64  # lanes, types, hosts, worker ids
KEY_LENGTH = 190  # unique and group keys: fits an index of utf8mb4 on every server
WAITING_LENGTH = 190  # why a job was postponed
SCHEDULED = "schedule:"  # prefix of the group of a schedule's jobs; no batch or chain begins with it

PENDING, PROCESSING, DONE, DEAD, CANCELLED = "pending", "processing", "done", "dead", "cancelled"
STATUSES = (PENDING, PROCESSING, DONE, DEAD, CANCELLED)
LIVE = (PENDING, PROCESSING)  # while a job is one of these it holds its unique key

HIGH, NORMAL, LOW = 0, 1, 2
PRIORITIES = (HIGH, NORMAL, LOW)

# Which rows hold their unique_key. A job of scope `pending` that was once claimed never does again. Literals, not
# parameters: a database uses a partial index only for a query that repeats the index's condition word by word.
HOLDS_UNIQUE_KEY = (
    "(unique_scope = 'live' AND status IN ('pending', 'processing')"
    " OR unique_scope = 'pending' AND status = 'pending' AND claims = 0"
    " OR unique_scope = 'time')"
)

# The fence of every write by a job's owner: one changed row means that the claim still holds.
OWNED = "worker_id = :owner AND claims = :token"
FENCE = f"id = :id AND {OWNED}"
