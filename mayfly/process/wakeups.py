"""Wake-ups: after its commit `enqueue` sends a datagram to the process that polls the lane. Best effort.

The process that polls a lane binds a socket with the name of the lane; a lingering dispatcher binds one for lanes
without such a process. A wake-up that is lost only costs time: polls find the job.
"""

import os
import socket
import stat
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from mayfly.clock import monotonic
from mayfly.errors import WakeDirUnsafe
from mayfly.process.state_dir import lane_hash, state_dir
from mayfly.settings import Settings

DISPATCHER = "dispatcher.wake"
SOCKET_MODE = 0o660  # members of the directory's group may send
OTHERS_MAY_WRITE = 0o022
MAX_BYTES = 1024  # of a wake-up
MAX_RECEIVED = 64  # at once: a producer may send as fast as they are received
MAX_JOB_ID = 2**63 - 1

BURST = 8  # jobs that follow each other are announced one by one up to this number, then one per PAUSE_SECONDS
PAUSE_SECONDS = 0.001
MUTED_SECONDS = 0.05  # nothing is sent for this long after no process has received a wake-up
MAX_LANES = 1000  # whose figures a sender keeps
LOCK_SECONDS = 0.01  # other threads need less; a signal handler would wait for its own thread


def socket_name(lane: str) -> str:
    return f"{lane_hash(lane):08x}.wake"


def wake_dir(settings: Settings) -> Path:
    """The path only. Without WAKE_DIR the state directory, which only this user can enter."""
    return state_dir(settings) if settings.wake_dir is None else settings.wake_dir


def open_wake_dir(settings: Settings, may_be_foreign: bool = False) -> int:
    """A descriptor of the directory. In one that others may write to, they could replace the sockets.

    A producer may send to a directory of another user if WAKE_DIR names it.
    """
    path = wake_dir(settings)
    try:
        descriptor = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise WakeDirUnsafe(path, f"cannot be opened: {error.strerror}") from error
    facts = os.fstat(descriptor)
    if reason := _why_unsafe(facts, may_be_foreign and settings.wake_dir is not None):
        os.close(descriptor)
        raise WakeDirUnsafe(path, reason)
    return descriptor


def _why_unsafe(facts: os.stat_result, may_be_foreign: bool) -> str | None:
    if facts.st_uid != os.getuid() and not may_be_foreign:
        return f"belongs to another user (uid {facts.st_uid})"
    if facts.st_mode & OTHERS_MAY_WRITE:
        return f"is writable for other users (mode {stat.S_IMODE(facts.st_mode):o})"
    return None


def _path_in(directory: int, name: str) -> str:
    """The address of a socket has at most 107 bytes; the path of a state directory may be longer."""
    return f"/proc/self/fd/{directory}/{name}"


class Wakeup(NamedTuple):
    lane: str
    job_id: int | None = None  # None: several jobs, or further ones may follow without a wake-up

    def encoded(self) -> bytes:
        return f"{self.job_id or 0} {self.lane}".encode()

    @classmethod
    def decoded(cls, message: bytes) -> "Wakeup | None":
        """None if a database would refuse its lane or id: any member of the group may have sent it."""
        number, _space, lane = message.decode(errors="replace").partition(" ")
        if not lane or "\0" in lane or not (number.isascii() and number.isdecimal()):
            return None
        return cls(lane, int(number) or None) if int(number) <= MAX_JOB_ID else None


# --- receive ----------------------------------------------------------------------------------------------


class WakeupSocket:
    """Takes the place of the socket that another process, which may have been killed, has bound to this name."""

    def __init__(self, settings: Settings, name: str) -> None:
        self._directory, self._name = open_wake_dir(settings), name
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            path = _path_in(self._directory, name)
            Path(path).unlink(missing_ok=True)
            self._socket.bind(path)
            Path(path).chmod(SOCKET_MODE)
            self._bound = self._identity()
        except OSError as error:
            self.close()
            raise WakeDirUnsafe(wake_dir(settings), f"cannot be used: {error.strerror}") from error

    @property
    def is_bound(self) -> bool:
        """Whether no other process has taken the name."""
        with suppress(FileNotFoundError):
            return self._identity() == self._bound
        return False

    def _identity(self) -> tuple[int, int]:
        found = os.stat(self._name, dir_fd=self._directory)
        return found.st_ino, found.st_ctime_ns

    def fileno(self) -> int:
        return self._socket.fileno()

    def receive(self) -> list[Wakeup]:
        """Those that have arrived."""
        found = []
        with suppress(BlockingIOError):
            for _ in range(MAX_RECEIVED):
                found.append(Wakeup.decoded(self._socket.recv(MAX_BYTES)))
        return [each for each in found if each is not None]

    def close(self) -> None:
        """The file stays, and refuses what is sent to it, until the next process binds this name."""
        self._socket.close()
        os.close(self._directory)


# --- send -------------------------------------------------------------------------------------------------


class _Lane:
    """What a sender knows about a lane that lingers."""

    __slots__ = ("at", "credit", "name")

    def __init__(self, lane: str) -> None:
        self.name = socket_name(lane)
        self.credit = float(BURST)
        self.at = monotonic()

    def may_send(self, now: float) -> bool:
        """Producers in a loop must not become slower: what the next wake-up or a poll finds needs none."""
        self.credit = min(BURST, self.credit + (now - self.at) / PAUSE_SECONDS)
        self.at = now
        if self.credit < 1:
            return False
        self.credit -= 1
        return True


class WakeupSender:
    """Of one process, for all its threads. A lane that does not linger costs a look-up in a dictionary."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lanes: dict[str, _Lane | None] = {}
        self._muted_until = 0.0
        self._socket: socket.socket | None = None
        self._directory = -1
        self._sending = Lock()  # another thread must not use a descriptor that `close` has closed

    def send(self, lane: str, job_id: int | None = None) -> None:
        """Called after the commit. Never blocks, never raises."""
        known = self._lanes.get(lane)
        if known is None:
            if lane in self._lanes:
                return
            known = self._learn(lane)
        if known is None:
            return
        if self._sending.acquire(timeout=LOCK_SECONDS):
            try:
                self._send(known, Wakeup(lane, job_id))
            finally:
                self._sending.release()

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._directory != -1:
            os.close(self._directory)
            self._directory = -1

    def _send(self, known: _Lane, wakeup: Wakeup) -> None:
        now = monotonic()
        if now < self._muted_until or not known.may_send(now):
            return
        if known.credit < 1:  # the next jobs may have no wake-up: the receiver must query for them
            wakeup = Wakeup(wakeup.lane)
        if not self._deliver(known.name, wakeup.encoded()):
            self.close()  # the directory may have been replaced
            self._muted_until = now + MUTED_SECONDS

    def _learn(self, lane: str) -> _Lane | None:
        if len(self._lanes) >= MAX_LANES:
            self._lanes.clear()
        resolved = self._settings.lane(lane)
        found = _Lane(lane) if resolved.linger and not resolved.external else None
        self._lanes[lane] = found
        return found

    def _deliver(self, name: str, message: bytes) -> bool:
        with suppress(OSError, WakeDirUnsafe):
            if self._socket is None:
                self._directory = open_wake_dir(self._settings, may_be_foreign=True)
                self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            return self._send_to(name, message) or self._send_to(DISPATCHER, message)
        return False

    def _send_to(self, name: str, message: bytes) -> bool:
        assert self._socket is not None
        try:
            self._socket.sendto(message, socket.MSG_DONTWAIT, _path_in(self._directory, name))
        except BlockingIOError:  # it has not yet received earlier ones
            return True
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        return True
