"""Delete log files below one directory that are too old or too large in total. Files in use are kept.

The walk uses directory file descriptors and does not follow symbolic links, so a user with write access cannot
redirect it to another directory.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatch
from pathlib import Path

from mayfly import Dead, Job, setting

NAMES = "*.log *.log.* *.log-*"
RECENT = timedelta(hours=1)  # a file modified since then is in use
Identity = tuple[int, int]  # device and inode: the same after a rename


@dataclass(frozen=True)
class LogFile:
    identity: Identity
    modified: float  # seconds since 1970
    size_bytes: int


def delete_log_files(job: Job, age: timedelta, max_bytes: int) -> list[LogFile]:
    """Return the deleted files. Does nothing if LOG_FILES_DIR is not set."""
    directory = setting("LOG_FILES_DIR", "")
    if not directory:
        return []
    top = Path(directory)
    if not top.is_absolute() or not top.is_dir():
        raise Dead("LOG_FILES_DIR must be the absolute path of a directory")
    now = job.now.timestamp()
    names = setting("LOG_FILES_NAMES", NAMES).split()
    found = [file for _, _, file in _walk(top, names)]
    in_use = open_files() | {each.identity for each in found if each.modified > now - RECENT.total_seconds()}
    return _remove(top, names, choose(found, in_use, now - age.total_seconds(), max_bytes))


def choose(found: Iterable[LogFile], in_use: set[Identity], before: float, max_bytes: int) -> list[LogFile]:
    """Choose files that are too old, then the oldest until the remaining ones fit into `max_bytes`. Pure."""
    files = sorted(set(found), key=lambda each: (each.modified, each.identity))
    excess_bytes = sum(each.size_bytes for each in files) - max_bytes
    chosen = []
    for each in files:
        if each.identity not in in_use and (each.modified < before or excess_bytes > 0):
            chosen.append(each)
            excess_bytes -= each.size_bytes
    return chosen


def open_files() -> set[Identity]:
    """Files that any process has open, as far as this user can see."""
    found: set[Identity] = set()
    for process in os.scandir("/proc"):
        if process.name.isdigit():
            with suppress(OSError):  # the process has ended, or belongs to another user
                found |= _opened_by(process)
    return found


def _opened_by(process: os.DirEntry[str]) -> set[Identity]:
    found = set()
    for descriptor in os.scandir(f"{process.path}/fd"):
        with suppress(OSError):  # closed in the meantime
            found.add(_identity(descriptor.stat()))
    return found


def _remove(top: Path, names: list[str], chosen: list[LogFile]) -> list[LogFile]:
    """Delete only files that have not changed since they were chosen."""
    removed = []
    wanted = set(chosen)
    for directory, name, file in _walk(top, names):
        if file in wanted:
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=directory)
                removed.append(file)
    return removed


def _walk(top: Path, names: list[str]) -> Iterator[tuple[int, str, LogFile]]:
    """Regular files with these names: descriptor of the directory, name in it, and identity."""
    for _, _, found, directory in os.fwalk(top.resolve(), follow_symlinks=False):
        for name in found:
            with suppress(FileNotFoundError):
                status = os.stat(name, dir_fd=directory, follow_symlinks=False)
                if stat.S_ISREG(status.st_mode) and any(fnmatch(name, each) for each in names):
                    yield directory, name, LogFile(_identity(status), status.st_mtime, status.st_size)


def _identity(status: os.stat_result) -> Identity:
    return status.st_dev, status.st_ino
