"""Log files that are too old, or too many, below one directory: never outside of it, and none that is written to.

Directories are walked by their descriptors and links are not followed, so nobody who may write there can
lead the walk elsewhere while it lasts.
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
QUIET = timedelta(hours=1)  # what was written to since is in use, whoever has it open
Identity = tuple[int, int]  # device and inode: a file that is renamed meanwhile stays the same


@dataclass(frozen=True)
class File:
    identity: Identity
    written: float  # seconds since 1970
    size: int


def vacuum_files(job: Job, age: timedelta, most_bytes: int) -> list[File]:
    """Those that are gone; none where no directory is set."""
    directory = setting("LOG_FILES_DIR", "")
    if not directory:
        return []
    top = Path(directory)
    if not top.is_absolute() or not top.is_dir():
        raise Dead("LOG_FILES_DIR must be a directory, as an absolute path")
    now = job.now.timestamp()
    names = setting("LOG_FILES_NAMES", NAMES).split()
    found = [file for _, _, file in _walk(top, names)]
    in_use = open_files() | {each.identity for each in found if each.written > now - QUIET.total_seconds()}
    return _remove(top, names, choose(found, in_use, now - age.total_seconds(), most_bytes))


def choose(found: Iterable[File], in_use: set[Identity], before: float, most_bytes: int) -> list[File]:
    """What is old; and of the rest the oldest, until all that is left fits. Pure."""
    files = sorted(set(found), key=lambda each: (each.written, each.identity))
    too_many = sum(each.size for each in files) - most_bytes
    chosen = []
    for each in files:
        if each.identity not in in_use and (each.written < before or too_many > 0):
            chosen.append(each)
            too_many -= each.size
    return chosen


def open_files() -> set[Identity]:
    """What any process has open, as far as this user may see."""
    found: set[Identity] = set()
    for process in os.scandir("/proc"):
        if process.name.isdigit():
            with suppress(OSError):  # it has ended, or is somebody else's
                found |= _opened_by(process)
    return found


def _opened_by(process: os.DirEntry[str]) -> set[Identity]:
    found = set()
    for descriptor in os.scandir(f"{process.path}/fd"):
        with suppress(OSError):  # it was closed
            found.add(_identity(descriptor.stat()))
    return found


def _remove(top: Path, names: list[str], chosen: list[File]) -> list[File]:
    """Those that still are as they were chosen."""
    removed = []
    wanted = set(chosen)
    for directory, name, file in _walk(top, names):
        if file in wanted:
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=directory)
                removed.append(file)
    return removed


def _walk(top: Path, names: list[str]) -> Iterator[tuple[int, str, File]]:
    """Regular files of these names: the descriptor of their directory, their name in it, and what they are."""
    for _, _, here, directory in os.fwalk(top.resolve(), follow_symlinks=False):
        for name in here:
            with suppress(FileNotFoundError):
                status = os.stat(name, dir_fd=directory, follow_symlinks=False)
                if stat.S_ISREG(status.st_mode) and any(fnmatch(name, each) for each in names):
                    yield directory, name, File(_identity(status), status.st_mtime, status.st_size)


def _identity(status: os.stat_result) -> Identity:
    return status.st_dev, status.st_ino
