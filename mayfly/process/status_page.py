"""The status page of a runner: which jobs it runs, and which it has dropped. Shared with the dispatcher, and readable
after a crash."""

import mmap
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mayfly.errors import StateDirUnsafe

SIZE = 12 * 4096
_SLOTS_END = 8 * 4096  # behind the slots: the dropped jobs
# magic, slices, hard deadline, done, failed, busy µs, slots ever used, too much memory, transactions repeated,
# jobs counted, lane
_HEADER = struct.Struct("=4sidQQQQQQQQ")
# Job id, started (monotonic; 0: not the cause if this process dies), its own timeout or 0. The id of a settled job
# that is not in the totals yet is negative.
_SLOT = struct.Struct("=qdd")
_MAGIC = b"mfly"
SLOTS = (_SLOTS_END - _HEADER.size) // _SLOT.size  # 1000 running jobs and some hundred uncounted ones
FREE_SLOT = 0  # the id in a free slot

_WORD = 8
_FIRST_SLOT = _HEADER.size // _WORD
_WORDS_PER_SLOT = _SLOT.size // _WORD

# The number of dropped jobs, then the id and the fencing token (`claims`) of each; none is removed.
_DROPPED = _SLOTS_END // _WORD
_WORDS_PER_DROPPED = 2
MAX_DROPPED = (SIZE // _WORD - _DROPPED - 1) // _WORDS_PER_DROPPED


@dataclass(frozen=True)
class RunningJob:
    job_id: int
    started: float
    timeout: float | None


@dataclass(frozen=True)
class RunnerStatus:
    """The content of a status page."""

    running: tuple[RunningJob, ...] = ()
    hard_deadline: float = 0.0  # after this the process exits from C code, even if the handler blocks
    done: int = 0
    failed: int = 0
    busy_ms: float = 0.0
    sliced: int = 0  # jobs that continue in the next cycle
    too_large: int = 0  # bytes of memory because of which its lease keeper has killed it
    repeats: int = 0  # transactions that were repeated after deadlocks and the like
    cleared: tuple[int, ...] = ()  # jobs that were running when the runner itself had an error
    uncounted: tuple[int, ...] = ()  # settled jobs that are at most in the last totals that it wrote
    counted: int = 0  # jobs in the totals before that
    lane_number: int = 0  # of a waiting lane that it has taken; 0: still in its first lane

    @property
    def average_ms(self) -> float | None:
        """The average run time of its jobs; None before the first has ended."""
        jobs = self.done + self.failed
        return self.busy_ms / jobs if jobs else None

    @property
    def may_be_uncounted(self) -> bool:
        """Whether it may have settled jobs that are not in the totals."""
        return bool(self.uncounted or self.cleared or self.running)

    def running_job(self, job_id: int) -> RunningJob | None:
        return next((each for each in self.running if each.job_id == job_id), None)


class StatusPage:
    """A small file in memory, written by one runner without locks: each field is set before it is needed.

    Each word is written in one store: struct.pack_into would fill it with zeros first, and a dispatcher that reads
    the page or kills the runner at that moment would find no running job.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.ftruncate(descriptor, SIZE)
            os.posix_fallocate(descriptor, 0, SIZE)  # if memory is full, fail here; a write would raise SIGBUS
            self._memory = mmap.mmap(descriptor, SIZE)
        except OSError as error:
            raise StateDirUnsafe(path.parent, f"cannot be used: {error.strerror}") from error
        finally:
            os.close(descriptor)
        bytes_ = memoryview(self._memory)
        self._integers, self._reals, self._halves = bytes_.cast("q"), bytes_.cast("d"), bytes_.cast("i")
        self._views = (self._integers, self._reals, self._halves, bytes_)
        self._free = list(reversed(range(SLOTS)))
        self._slots: dict[int, tuple[int, float]] = {}  # by id of a running job: its slot, and when it started
        self._uncounted: list[int] = []  # slots
        self._done = self._failed = self._used = 0
        self._busy = 0.0
        self._memory[len(_MAGIC) :] = bytes(SIZE - len(_MAGIC))
        self._memory[: len(_MAGIC)] = _MAGIC

    def start(self, job_id: int, now: float, timeout: float | None) -> None:
        """The id is written last: then its slot is complete. Called before the handler runs."""
        slot = self._take_slot()
        self._slots[job_id] = slot, now
        word = _FIRST_SLOT + slot * _WORDS_PER_SLOT
        self._reals[word + 1] = now
        self._reals[word + 2] = timeout or 0.0
        self._integers[word] = job_id

    def finish(self, job_id: int, now: float, succeeded: bool) -> None:
        slot, started = self._slots.pop(job_id)
        self._integers[_FIRST_SLOT + slot * _WORDS_PER_SLOT] = FREE_SLOT
        self._free.append(slot)
        self._busy += now - started
        if succeeded:
            self._done += 1
            self._integers[2] = self._done
        else:
            self._failed += 1
            self._integers[3] = self._failed
        self._integers[4] = int(self._busy * 1e6)

    def running_job(self, job_id: int) -> RunningJob | None:
        """When a job of this process started, and its own timeout; None if it is not running."""
        found = self._slots.get(job_id)
        if found is None:
            return None
        slot, started = found
        return RunningJob(job_id, started, self._reals[_FIRST_SLOT + slot * _WORDS_PER_SLOT + 2] or None)

    def clear_running(self) -> None:
        """If this process ends now, none of the running jobs is the cause."""
        for slot, _started in self._slots.values():
            self._reals[_FIRST_SLOT + slot * _WORDS_PER_SLOT + 1] = 0.0

    def note_uncounted(self, job_id: int, counted: int) -> None:
        """Called before a job is settled whose totals are written later; `counted` jobs are in the totals so far."""
        self._integers[8] = counted
        slot = self._take_slot()
        self._uncounted.append(slot)
        self._integers[_FIRST_SLOT + slot * _WORDS_PER_SLOT] = -job_id

    def clear_uncounted(self) -> None:
        """The uncounted jobs are in the totals now."""
        for slot in self._uncounted:
            self._integers[_FIRST_SLOT + slot * _WORDS_PER_SLOT] = FREE_SLOT
        self._free += self._uncounted
        self._uncounted.clear()

    def note_sliced(self, jobs: int) -> None:
        self._halves[1] = jobs

    def note_repeats(self, transactions: int) -> None:
        self._integers[7] = transactions

    def note_lane(self, number: int) -> None:
        """Called before the runner enters a waiting lane: it holds no jobs of the last one any more."""
        self._integers[9] = number

    def expect_end_by(self, hard_deadline: float) -> None:
        self._reals[1] = hard_deadline

    def note_too_large(self, memory: int) -> None:
        """Written by a lease keeper before it kills the runner: the reason is stored nowhere else."""
        self._integers[6] = memory

    @property
    def has_dropped(self) -> bool:
        return self._integers[_DROPPED] > 0

    @property
    def room_for_dropped(self) -> int:
        return int(MAX_DROPPED - self._integers[_DROPPED])

    def note_dropped(self, claims: Sequence[tuple[int, int]]) -> None:
        """The runner will neither start nor settle these jobs, each by its id and fencing token.

        Their number is written last: then all of them can be read.
        """
        number = self._integers[_DROPPED]
        word = _DROPPED + 1 + number * _WORDS_PER_DROPPED
        for each in claims:
            self._integers[word], self._integers[word + 1] = each
            word += _WORDS_PER_DROPPED
        self._integers[_DROPPED] = number + len(claims)

    def dropped_since(self, first: int) -> list[tuple[int, int]]:
        """The dropped jobs without the first ones."""
        begin, end = (_DROPPED + 1 + each * _WORDS_PER_DROPPED for each in (first, self._integers[_DROPPED]))
        words = self._integers[begin:end].tolist()
        return list(zip(words[::_WORDS_PER_DROPPED], words[1::_WORDS_PER_DROPPED], strict=True))

    @property
    def hard_deadline(self) -> float:
        """Read without parsing the page: the dispatcher polls it four times a second."""
        return self._reals[1]

    @property
    def lane_number(self) -> int:
        return self._integers[9]

    def read(self) -> RunnerStatus:
        return _parse(self._memory[:_SLOTS_END])

    def _take_slot(self) -> int:
        slot = self._free.pop()
        if slot >= self._used:
            self._used = slot + 1
            self._integers[5] = self._used
        return slot

    def close(self) -> None:
        for view in self._views:
            view.release()
        self._memory.close()


def read_status_page(path: Path) -> RunnerStatus | None:
    """The page of a dead runner; None if there is none, or an incomplete one."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    return _parse(content) if len(content) == SIZE and content.startswith(_MAGIC) else None


def _parse(content: bytes) -> RunnerStatus:
    _magic, sliced, hard_deadline, done, failed, busy, used, *rest = _HEADER.unpack_from(content)
    too_large, repeats, counted, lane_number = rest
    slots = list(_SLOT.iter_unpack(content[_HEADER.size : _HEADER.size + min(used, SLOTS) * _SLOT.size]))
    return RunnerStatus(
        tuple(RunningJob(job_id, started, limit or None) for job_id, started, limit in slots if job_id > 0 < started),
        hard_deadline, done, failed, busy / 1000, sliced, too_large, repeats,
        cleared=tuple(job_id for job_id, started, _timeout in slots if job_id > 0 == started),
        uncounted=tuple(-job_id for job_id, _started, _timeout in slots if job_id < 0),
        counted=counted,
        lane_number=lane_number,
    )  # fmt: skip
