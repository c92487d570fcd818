"""Something done beside the cycle, in a process of its own that the kernel ends in time: it can harm nothing."""

import os
import select
import signal
from collections.abc import Callable

from mayfly import events, exits
from mayfly.clock import monotonic
from mayfly.errors import MayflyError
from mayfly.forking import forget_signals, fork_into
from mayfly.logs import Log
from mayfly.timing import timing

LATE_SECONDS = 0.1  # that the kernel may need
_DONE = b"."


class Errand:
    """Begun when it is made. No child of ours: the supervisor takes those for strays of its runners."""

    def __init__(
        self, name: str, work: Callable[[], None], log: Log, let_go: Callable[[], None] | None = None
    ) -> None:
        self._name = name
        self._log = log
        self._end, writing = os.pipe()
        self._until = monotonic() + timing().notify_seconds

        def go() -> int:
            forget_signals()
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, timing().notify_seconds)  # nothing can wait through its end
            os.close(self._end)
            if let_go is not None:
                let_go()
            try:
                work()
            except MayflyError as error:
                log.say(events.errand_failed(name, str(error)))
            os.write(writing, _DONE)
            return exits.SUCCESS

        def step_aside() -> int:
            fork_into(go)
            return exits.SUCCESS

        os.waitpid(fork_into(step_aside), 0)
        os.close(writing)

    def wait(self) -> None:
        """Until it is over, which it is in time; that it was cut short is told."""
        if not self.await_end() or os.read(self._end, 1) != _DONE:
            self._log.say(events.errand_cut(self._name, timing().notify_seconds))
        os.close(self._end)

    def await_end(self) -> bool:
        """Whether it is; for those who come after it."""
        left = max(0.0, self._until - monotonic()) + LATE_SECONDS
        return bool(select.select([self._end], [], [], left)[0])
