"""Until when a running job may run: its own limit, the guard, or somebody who asked the runner to end."""

from math import inf

from mayfly.clock import monotonic
from mayfly.job import Job
from mayfly.page import Page
from mayfly.trail import Window
from runner.guard import Guard


class Horizon:
    """Asked in the thread of a handler; changes nothing."""

    def __init__(self, guard: Guard, page: Page) -> None:
        self._guard = guard
        self._page = page

    def window(self, job: Job) -> Window:
        """A stopped runner has no time for a job that can go on elsewhere."""
        running = self._page.window_of(job.id)
        if running is None:  # left behind, and settled without it
            return Window(monotonic(), -inf)
        limit = inf if running.timeout is None else running.started + running.timeout
        ends_at = -inf if self._guard.stopped_by is not None else min(limit, self._guard.ends_at)
        return Window(running.started, ends_at)
