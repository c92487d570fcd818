"""Start `python -m …` by forking a process that has imported everything: a new interpreter takes half a second.

One warm process serves a whole test session. It has imported the library and the imports of handlers, but no
handlers: those differ from test to test, and the dispatcher must not have them.
"""

import atexit
import gc
import json
import os
import runpy
import selectors
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import IO, NoReturn

from mayfly import registry
from mayfly.cli import MODULES
from mayfly.process import Timing, use_timing

CHECKOUT = Path(__file__).parent.parent.parent
MESSAGE_BYTES = 256 << 10
EXIT_STATUS = struct.Struct("i")
MEASURED = "COVERAGE_PROCESS_CONFIG"  # of `scripts/test --coverage`, which measures the processes of tests, too
# What every program imports sooner or later, also in functions, and the imports of handlers.
COMMON = (
    "encodings.idna",
    "mayfly.db.dialects.mysql",
    "mayfly.db.dialects.postgres",
    "mayfly.db.dialects.sqlite",
    "mayfly.db.sqlalchemy",
    "mayfly.limits.client",
    "mayfly.monitoring.channels",
    "mayfly.settings.loading",
    "psycopg",
    "pydantic.main",  # pydantic itself imports its modules on first use
    "pymysql",
    "sqlalchemy",
)
RUNNER = ("runner.cli", "runner.asyncio_jobs", "runner.concurrent_batch", "runner.limits")
# The imports of each program. None of them starts a thread.
IMPORTS = {
    "dispatcher": ("dispatcher.cli", "dispatcher.full_cycle", "dispatcher.notify", *RUNNER, *COMMON),
    "runner": (*RUNNER, *COMMON),
    "mayfly": (*(f"mayfly.cli.{name}" for name in MODULES), "mayfly.schema.migrations", *COMMON),
    "console": ("console.server", "anyio._backends._asyncio", "argon2", *COMMON),
}


def measurement() -> dict[str, str]:
    """The variable by which Coverage.py measures a process, empty outside of `scripts/test --coverage`."""
    return {MEASURED: os.environ[MEASURED]} if MEASURED in os.environ else {}


class ForkedProcess:
    """A process forked by the warm process, with the part of subprocess.Popen's interface that tests use."""

    def __init__(self, pid: int, stdout: IO[str], stderr: IO[str], exited: int) -> None:
        self.pid = pid
        self.stdout = stdout
        self.stderr = stderr
        self.returncode: int | None = None
        self._exited = exited  # the warm process writes the exit status into this pipe

    def poll(self) -> int | None:
        if self.returncode is None:
            with selectors.PollSelector() as selector:
                selector.register(self._exited, selectors.EVENT_READ)
                if selector.select(0):
                    self._read_exit()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        deadline = None if timeout is None else time.monotonic() + timeout
        with selectors.PollSelector() as selector:
            selector.register(self._exited, selectors.EVENT_READ)
            while self.returncode is None:
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
                if selector.select(left):
                    self._read_exit()
        assert self.returncode is not None
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Its complete output."""
        deadline = None if timeout is None else time.monotonic() + timeout
        chunks: dict[int, list[bytes]] = {self.stdout.fileno(): [], self.stderr.fileno(): []}
        with selectors.PollSelector() as selector:
            for descriptor in chunks:
                selector.register(descriptor, selectors.EVENT_READ)
            while selector.get_map():
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
                for key, _ in selector.select(left):
                    chunk = os.read(key.fd, MESSAGE_BYTES)
                    if chunk:
                        chunks[key.fd].append(chunk)
                    else:
                        selector.unregister(key.fd)
        self.wait(None if deadline is None else max(0.001, deadline - time.monotonic()))
        out, err = (b"".join(each).decode() for each in chunks.values())
        return out, err

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> "ForkedProcess":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.wait()
        self.stdout.close()
        self.stderr.close()
        if self._exited >= 0:
            os.close(self._exited)
            self._exited = -1

    def _read_exit(self) -> None:
        status = os.read(self._exited, EXIT_STATUS.size)
        # Without a status the warm process itself has died, and the exits of its children are unknown.
        self.returncode = os.waitstatus_to_exitcode(EXIT_STATUS.unpack(status)[0]) if status else -signal.SIGKILL


class WarmProcess:
    """The client. Forks one process per request."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.process.warm", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            # As cron sets it, so that locale and encodings are those of a real start.
            env={"PATH": "/usr/bin:/bin", "HOME": "/", "PYTHONPATH": str(CHECKOUT), **measurement()},
            cwd="/",
            stdin=subprocess.DEVNULL,
        )
        theirs.close()

    def start(self, arguments: Sequence[str], environ: Mapping[str, str], timing: Timing) -> ForkedProcess:
        """`python -m …` with this environment, in `/`, with pipes for its output."""
        out, out_child = os.pipe()
        err, err_child = os.pipe()
        exited, exited_child = os.pipe()
        request = json.dumps(
            {"arguments": list(arguments), "environ": dict(environ), "timing": timing._asdict()}
        ).encode()
        socket.send_fds(self._socket, [request], [out_child, err_child, exited_child])
        for each in (out_child, err_child, exited_child):
            os.close(each)
        pid = int(self._socket.recv(MESSAGE_BYTES))
        return ForkedProcess(pid, os.fdopen(out), os.fdopen(err), exited)

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


@cache
def warm_process() -> WarmProcess:
    """That of this test session, started by the first test that needs it."""
    process = WarmProcess()
    atexit.register(process.close)
    return process


class _Server:
    """The warm process itself: forks, and reports the exits of its children."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._selector = selectors.DefaultSelector()
        self._selector.register(requests, selectors.EVENT_READ)
        self._exits: dict[int, tuple[int, int]] = {}  # pidfd: pid, the pipe for its exit status
        # Children inherit the entry points: reading those of all installed packages takes 10 ms.
        vars(registry)["entry_points"] = entry_points = cache(vars(registry)["entry_points"])
        entry_points(group=registry.ENTRY_POINTS)

    def serve(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is not self._requests:
                    self._report_exit(key.fd)
                elif not self._fork_one():
                    self._kill_left()
                    return

    def _fork_one(self) -> bool:
        request, descriptors, _, _ = socket.recv_fds(self._requests, MESSAGE_BYTES, 3, socket.MSG_CMSG_CLOEXEC)
        if not request:
            return False
        asked = json.loads(request)
        for module in IMPORTS[asked["arguments"][0]]:
            import_module(module)
        gc.freeze()  # so that garbage collection does not copy memory that all children share
        pid = os.fork()
        if not pid:
            self._close_in_child()
            use_timing(Timing(**asked["timing"]))
            _become(asked["arguments"], asked["environ"], descriptors)
        out, err, exited = descriptors
        os.close(out)
        os.close(err)
        pidfd = os.pidfd_open(pid)
        self._exits[pidfd] = (pid, exited)
        self._selector.register(pidfd, selectors.EVENT_READ)
        self._requests.send(str(pid).encode())
        return True

    def _report_exit(self, pidfd: int) -> None:
        pid, exited = self._exits.pop(pidfd)
        self._selector.unregister(pidfd)
        _, status = os.waitpid(pid, 0)
        with suppress(BrokenPipeError):  # the test has ended before its process
            os.write(exited, EXIT_STATUS.pack(status))
        os.close(exited)
        os.close(pidfd)

    def _kill_left(self) -> None:
        """The test session is gone: if it was killed, processes of its tests are still running."""
        for pid, _exited in self._exits.values():
            os.kill(pid, signal.SIGKILL)

    def _close_in_child(self) -> None:
        self._selector.close()
        self._requests.close()
        for pidfd, (_pid, exited) in self._exits.items():
            os.close(pidfd)
            os.close(exited)


def _become(arguments: Sequence[str], environ: Mapping[str, str], descriptors: Sequence[int]) -> NoReturn:
    """In the forked child: become what a new interpreter would be. Does not return."""
    os.setsid()  # as cron does; `Installation.processes` finds a process and its descendants by their session
    out, err, exited = descriptors
    os.close(exited)
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.close(out)
    os.close(err)
    os.environ.clear()
    os.environ.update(environ)
    time.tzset()
    sys.path[:0] = [each for each in environ.get("PYTHONPATH", "").split(":") if each and each not in sys.path]
    sys.argv = list(arguments)
    code = 1
    try:
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as ended:
        code = _exit_code(ended)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(BrokenPipeError):
                stream.flush()
        os._exit(code)


def _exit_code(ended: SystemExit) -> int:
    if ended.code is None or isinstance(ended.code, int):
        return ended.code or 0
    print(ended.code, file=sys.stderr)
    return 1


if __name__ == "__main__":
    _Server(socket.socket(fileno=int(sys.argv[1]))).serve()
