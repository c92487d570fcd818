"""What runs beside the main thread just now: in which slots, at which place, and until when."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from math import inf
from types import FrameType
from typing import TYPE_CHECKING, Protocol

from mayfly.clock import monotonic
from mayfly.engine import Database
from mayfly.job import Job
from mayfly.page import Page
from mayfly.registry import Handler, Registry
from runner.horizon import Horizon
from runner.lifelines import NO_LANES, Lanes, LoopLifeline, ThreadLifeline
from runner.mailbox import Mailbox
from runner.run import Commit, Run
from runner.slots import free_slots, room_for_more

if TYPE_CHECKING:
    from mayfly.limits.takings import Takings


class Place(Protocol):
    """Where runs take place: the event loop, or threads. Its methods are called by the main thread."""

    def start(self, run: Run) -> None: ...

    def interrupt(self, run: Run) -> None: ...

    def dismiss(self, run: Run) -> None:
        """It has ended, and is not heard of again."""

    def is_stuck(self, run: Run) -> bool:
        """Whether others that run there can't end either, because of a run that cannot be interrupted."""

    def blocking_run(self) -> Run | None:
        """The run that keeps all others there from ending, if it is known."""

    def frame_of(self, run: Run) -> FrameType | None: ...


class Runs:
    def __init__(
        self,
        registry: Registry,
        page: Page,
        limit: int,
        worker_id: str,
        horizon: Horizon,
        beside: Callable[[], Database],
        commit: Commit,
        takings: "Takings | None" = None,
        lanes: Lanes = NO_LANES,
    ) -> None:
        self._registry = registry
        self._page = page
        self._limit = limit
        self._worker_id = worker_id
        self._horizon = horizon
        self._beside = beside  # for what handlers ask of us
        self._commit = commit
        self._takings = takings
        self._lanes = lanes
        self._mailbox = Mailbox()
        self._places: dict[bool, Place] = {}
        self._running: dict[int, Run] = {}
        self._of_type: Counter[str] = Counter()

    def __bool__(self) -> bool:
        return bool(self._running)

    def __iter__(self) -> Iterator[Run]:
        return iter(list(self._running.values()))

    def __contains__(self, run: Run) -> bool:
        return self._running.get(run.job.id) is run

    @property
    def is_suspect(self) -> bool:
        """A suspect has the runner to itself, so it is the first: who dies with it could not be told from it."""
        return any(run.job.suspect for run in islice(self._running.values(), 1))

    def room_beside(self, types: Iterable[str]) -> int:
        """How many may be claimed, if they are of these types."""
        handlers = (self._registry.handlers[each] for each in types)
        return 0 if self.is_suspect else room_for_more(handlers, self._limit, self._of_type)

    def room_for(self, job: Job) -> int:
        """How many of its type could start now."""
        return free_slots(self._registry.handlers[job.type], self._limit, self._of_type)

    def start(self, job: Job) -> bool:
        """False if there is no slot for it yet."""
        handler = self._registry.handlers[job.type]
        must_wait = self.is_suspect or (job.suspect and self._running)
        if must_wait or free_slots(handler, self._limit, self._of_type) < 1:
            return False
        run = Run(job, handler, monotonic())
        self._page.start(job.id, run.started, handler.timeout)
        self._running[job.id] = run
        self._of_type[job.type] += 1
        self._place_for(handler).start(run)
        return True

    def await_ended(self, seconds: float) -> list[Run]:
        """Those that have ended, once the first of them has or the time is over."""
        # One that was left behind may end after all, and has been settled long ago.
        return [run for run in self._mailbox.empty(seconds) if run in self]

    def remove(self, run: Run, succeeded: bool) -> None:
        del self._running[run.job.id]
        self._of_type[run.job.type] -= 1
        self._page.finish(run.job.id, run.started + run.seconds, succeeded)

    def place_of(self, run: Run) -> Place:
        return self._places[run.handler.is_async]

    def at(self, place: Place) -> list[Run]:
        return [run for run in self if self.place_of(run) is place]

    def due(self, ends_at: float) -> float:
        return min((run.due(ends_at) for run in self._running.values()), default=inf)

    @property
    def first_limit(self) -> float:
        return min((run.limit for run in self._running.values()), default=inf)

    def _place_for(self, handler: Handler) -> Place:
        """Imported and opened by the first job that needs it."""
        if handler.is_async not in self._places:
            self._places[handler.is_async] = self._open_loop() if handler.is_async else self._open_threads()
        return self._places[handler.is_async]

    def _open_loop(self) -> Place:
        from runner.loop import Loop

        lifeline = LoopLifeline(self._worker_id, self._horizon, self._beside, self._takings, self._lanes)
        return Loop(self._mailbox, lifeline)

    def _open_threads(self) -> Place:
        from runner.threads import Threads

        def lifeline() -> ThreadLifeline:
            return ThreadLifeline(self._worker_id, self._horizon, self._beside, self._takings, self._lanes)

        return Threads(self._mailbox, lifeline, self._commit)
