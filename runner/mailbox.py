"""Where runs that have ended wait for the main thread."""

import os
import select
from collections import deque

from runner.run import Run


class Mailbox:
    """Filled by other threads, emptied by the main one.

    With a bell of the kernel's: a signal at the very moment when the time is over would let SimpleQueue.get, which
    then counts on with a negative rest, wait for ever.
    """

    def __init__(self) -> None:
        self._ended: deque[Run] = deque()
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._poll = select.poll()
        self._poll.register(self._bell, select.POLLIN)

    def put(self, run: Run) -> None:
        self._ended.append(run)
        os.eventfd_write(self._bell, 1)

    def empty(self, seconds: float) -> list[Run]:
        """All that is there, once the first has come or the time is over."""
        if self._poll.poll(max(0.0, seconds) * 1000):
            os.eventfd_read(self._bell)
        return [self._ended.popleft() for _ in range(len(self._ended))]
