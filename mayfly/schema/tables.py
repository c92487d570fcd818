"""The words of the tables: versions, lengths, statuses. Their DDL lives in migrations/, and nowhere else."""

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
