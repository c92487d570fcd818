"""The directory of the tests' databases: in memory if there is room, since a COMMIT on a disk is slow."""

import shutil

import psutil

MEMORY = "/dev/shm"
DISK = "/tmp"  # not TMPDIR: the users mysql and postgres need access, and the path of a socket must be short
ROOM = 8 << 30  # bytes: some servers per xdist worker, and their logs

# This weakens no test: tests kill processes, never the machine, and what a process has written
# survives it on either kind of file system.


def directory_for_databases() -> str:
    try:
        free = min(shutil.disk_usage(MEMORY).free, psutil.virtual_memory().available)
    except OSError:
        return DISK
    return MEMORY if free >= ROOM else DISK
