"""Records how often each job ran: every process writes job ids into its own memory-mapped file.

One entry is an assignment (0.1 µs, no system call) and survives kill -9. Mayfly's handlers and the bare loop both
write it.
"""

import mmap
import os
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from tempfile import mkstemp

DIRECTORY, SLOTS = "BENCH_LEDGER", "BENCH_LEDGER_SLOTS"
WIDTH_BYTES = 8

_slots: memoryview | None = None
_next: Callable[[], int] = count().__next__  # thread-safe


def record(job_id: int) -> None:
    (_slots if _slots is not None else _open())[_next()] = job_id


def _open() -> memoryview:
    global _slots
    file, _path = mkstemp(prefix=f"{os.getpid()}-", dir=os.environ[DIRECTORY])
    os.ftruncate(file, int(os.environ[SLOTS]) * WIDTH_BYTES)  # sparse: only written pages take memory
    _slots = memoryview(mmap.mmap(file, 0)).cast("Q")
    os.close(file)
    return _slots


def _forget() -> None:
    global _slots, _next
    _slots, _next = None, count().__next__


os.register_at_fork(after_in_child=_forget)


class NotOnce(Exception):
    def __init__(self, missing: int, repeated: int, unknown: int) -> None:
        super().__init__(
            f"Not every job ran exactly once: {missing} did not run, {repeated} ran more than once,"
            f" {unknown} were never enqueued."
        )


def check_once(directory: Path, expected: range) -> None:
    """Raises NotOnce unless every id of the range ran once, and no other."""
    runs = Counter(job_id for path in directory.iterdir() for job_id in _ids(path.read_bytes()))
    repeated = sum(1 for number in runs.values() if number > 1)
    unknown = sum(1 for job_id in runs if job_id not in expected)
    missing = len(expected) - (len(runs) - unknown)
    if missing or repeated or unknown:
        raise NotOnce(missing, repeated, unknown)


def _ids(content: bytes) -> Iterator[int]:
    """No id is 0: a zero is an unused slot."""
    written = content.rstrip(b"\0")
    padded = written.ljust(-(-len(written) // WIDTH_BYTES) * WIDTH_BYTES, b"\0")
    return (each for each in memoryview(padded).cast("Q") if each)
