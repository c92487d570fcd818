"""Read the ledgers: how far the processes are while they run, and afterwards whether every job ran exactly once."""

import mmap
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from scripts.benchmark.ledger import WIDTH


class NotOnce(Exception):
    """Some job ran twice, or not at all: the figure is worth nothing."""

    def __init__(self, missing: int, repeated: int, strange: int) -> None:
        super().__init__(
            f"Not every job ran exactly once: {missing} not at all, {repeated} more than once,"
            f" {strange} that nobody asked for."
        )


def check_once(ran: Iterable[int], expected: range) -> None:
    """Every id of the range once, and no other."""
    runs = Counter(ran)
    repeated = sum(1 for number in runs.values() if number > 1)
    strange = sum(1 for job_id in runs if job_id not in expected)
    missing = len(expected) - (len(runs) - strange)
    if missing or repeated or strange:
        raise NotOnce(missing, repeated, strange)


class Ledgers:
    """All ledgers of one run, seen from outside."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._open: dict[Path, memoryview] = {}

    def ids(self) -> Iterator[int]:
        for path in self._directory.iterdir():
            yield from _ids(path.read_bytes())

    def count(self) -> int:
        """Nearly exact, and cheap enough to be asked ten times a second: the first empty slot is searched for."""
        for path in self._directory.iterdir():
            if path not in self._open and path.stat().st_size:
                with path.open("rb") as file:
                    self._open[path] = memoryview(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)).cast("Q")
        return sum(map(_used, self._open.values()))


def _ids(content: bytes) -> Iterator[int]:
    """No id is 0: an empty slot is one that a thread had drawn and not yet filled, or the end."""
    written = content.rstrip(b"\0")
    padded = written.ljust(-(-len(written) // WIDTH) * WIDTH, b"\0")
    return (each for each in memoryview(padded).cast("Q") if each)


def _used(slots: memoryview) -> int:
    return bisect_left(range(len(slots)), True, key=lambda number: slots[number] == 0)
