"""Where the tests' databases have their files: in memory if there is room, for a COMMIT on a disk takes its time."""

import shutil

import psutil

MEMORY = "/dev/shm"
DISK = "/tmp"  # not TMPDIR: the accounts mysql and postgres must be able to enter, and a socket's path is short
ROOM = 8 << 30  # bytes: some servers for each of the processes that share the tests, and their logs

# Nothing is tested less for it: what is killed here is always a process, never the machine, and what a process has
# written outlives it in either place.


def directory_for_databases() -> str:
    try:
        free = min(shutil.disk_usage(MEMORY).free, psutil.virtual_memory().available)
    except OSError:
        return DISK
    return MEMORY if free >= ROOM else DISK
