"""A program on a terminal of its own: its screen, and keys for it."""

import fcntl
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.process.installation import DEADLINE_SECONDS, Installation

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]")


class Terminal:
    """The master side of a pseudo-terminal, 200 columns wide."""

    def __init__(self, master: int, process: subprocess.Popen[bytes]) -> None:
        self._master = master
        self.process = process
        self.drawn = ""

    @property
    def text(self) -> str:
        """Without escape sequences."""
        return ESCAPES.sub("", self.drawn)

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def wait_for(self, text: str) -> None:
        self._read_until(lambda: text in self.text, text)

    def wait_for_end(self) -> int:
        self._read_until(lambda: self.process.poll() is not None, "its end")
        self._take()
        return self.process.wait()

    def _read_until(self, true: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not true():
            assert time.monotonic() < deadline, f"never seen: {what!r} in {self.text[-2000:]!r}"
            self._take()

    def _take(self) -> None:
        while select.select([self._master], [], [], 0.05)[0]:
            try:
                chunk = os.read(self._master, 65536)
            except OSError:  # the program has exited, and the terminal is closed
                return
            self.drawn += chunk.decode(errors="replace")


def _own_terminal() -> None:
    """Ctrl-C must be a signal there; it is ignored if the tests were started in the background."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def terminal(installation: Installation, *arguments: str, **settings: str) -> Iterator[Terminal]:
    """`python -m …` on a terminal; killed if it has not exited."""
    master, slave = pty.openpty()
    environment = installation.environment(TERM="xterm-256color", COLUMNS="200", LINES="60", **settings)
    process = subprocess.Popen(
        [sys.executable, "-m", *arguments],
        env=environment,
        cwd="/",
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        preexec_fn=_own_terminal,
    )
    os.close(slave)
    try:
        yield Terminal(master, process)
    finally:
        process.kill()
        process.wait()
        os.close(master)
