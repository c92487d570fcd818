"""The status page of a runner: which jobs it runs. Shared with the dispatcher, and readable after a crash."""

import mmap
import os
import struct
from dataclasses import dataclass
from pathlib import Path

from mayfly.errors import StateDirUnsafe

SIZE = 6 * 4096
# magic, slices put aside, hard deadline, done, failed, busy µs, slots ever used, too much memory, jobs deferred,
# transactions repeated
_HEADER = struct.Struct("=4sidQQQQQQQ")
_SLOT = struct.Struct("=qdd")  # job id, started (monotonic), its own timeout or 0
_MAGIC = b"mfly"
SLOTS = (SIZE - _HEADER.size) // _SLOT.size  # the most jobs that can run at once in one runner
FREE_SLOT = 0  # the id in a slot that is free

_WORD = 8
_FIRST_SLOT = _HEADER.size // _WORD
_WORDS_A_SLOT = _SLOT.size // _WORD


@dataclass(frozen=True)
class RunningJob:
    job_id: int
    started: float
    timeout: float | None


@dataclass(frozen=True)
class RunnerStatus:
    """What a status page says."""

    running: tuple[RunningJob, ...] = ()
    hard_deadline: float = 0.0  # after this the process ends itself from C, whatever the handler does
    done: int = 0
    failed: int = 0
    busy_ms: float = 0.0
    sliced: int = 0  # jobs that go on in the next cycle
    deferred: int = 0  # jobs that wait for a runner with more time
    too_large: int = 0  # bytes of memory for which its lease keeper has killed it
    repeats: int = 0  # transactions that had to be run again: deadlocks and the like

    def running_job(self, job_id: int) -> RunningJob | None:
        return next((each for each in self.running if each.job_id == job_id), None)


class StatusPage:
    """A small file in memory. Written by one runner, without locks: each field is set before it matters.

    Each word is written in one store: struct.pack_into would fill it with zeros first, and a dispatcher that reads
    the page or kills the runner at that moment would find no running job.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.ftruncate(descriptor, SIZE)
            os.posix_fallocate(descriptor, 0, SIZE)  # without room in memory, the first write would raise SIGBUS
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
        self._done = self._failed = self._used = 0
        self._busy = 0.0
        self._memory[len(_MAGIC) :] = bytes(SIZE - len(_MAGIC))
        self._memory[: len(_MAGIC)] = _MAGIC

    def start(self, job_id: int, now: float, timeout: float | None) -> None:
        """The id is written last: its slot is complete then, and the handler does not run before."""
        slot = self._free.pop()
        self._slots[job_id] = slot, now
        if slot >= self._used:
            self._used = slot + 1
            self._integers[5] = self._used
        place = _FIRST_SLOT + slot * _WORDS_A_SLOT
        self._reals[place + 1] = now
        self._reals[place + 2] = timeout or 0.0
        self._integers[place] = job_id

    def finish(self, job_id: int, now: float, succeeded: bool) -> None:
        slot, started = self._slots.pop(job_id)
        self._integers[_FIRST_SLOT + slot * _WORDS_A_SLOT] = FREE_SLOT
        self._free.append(slot)
        self._busy += now - started
        if succeeded:
            self._done += 1
            self._integers[2] = self._done
        else:
            self._failed += 1
            self._integers[3] = self._failed
        self._integers[4] = int(self._busy * 1e6)

    def window_of(self, job_id: int) -> RunningJob | None:
        """When a job of this process started, and its own timeout; None if it is not running."""
        found = self._slots.get(job_id)
        if found is None:
            return None
        slot, started = found
        return RunningJob(job_id, started, self._reals[_FIRST_SLOT + slot * _WORDS_A_SLOT + 2] or None)

    def clear_running(self) -> None:
        """Clear the running jobs: none of them is the cause if this process ends now."""
        for slot, _started in self._slots.values():
            self._integers[_FIRST_SLOT + slot * _WORDS_A_SLOT] = FREE_SLOT

    def note_aside(self, sliced: int, deferred: int) -> None:
        self._halves[1] = sliced
        self._integers[7] = deferred

    def note_repeats(self, transactions: int) -> None:
        self._integers[8] = transactions

    def expect_end_by(self, hard_deadline: float) -> None:
        self._reals[1] = hard_deadline

    def note_too_large(self, memory: int) -> None:
        """Written by a lease keeper before it kills the runner: the reason is known nowhere else."""
        self._integers[6] = memory

    @property
    def hard_deadline(self) -> float:
        """Without parsing the page: the dispatcher reads it four times a second."""
        return self._reals[1]

    def read(self) -> RunnerStatus:
        return _parse(self._memory[:])

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
    too_large, deferred, repeats = rest
    slots = _SLOT.iter_unpack(content[_HEADER.size : _HEADER.size + min(used, SLOTS) * _SLOT.size])
    running = tuple(RunningJob(job_id, started, timeout or None) for job_id, started, timeout in slots if job_id)
    return RunnerStatus(running, hard_deadline, done, failed, busy / 1000, sliced, deferred, too_large, repeats)
