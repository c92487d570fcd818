"""Call the hooks that the settings name. One that raises is told once and counted; its job does not notice."""

from collections import Counter
from collections.abc import Sequence
from threading import Lock

from mayfly import log_messages
from mayfly.errors import HookUnusable, Interrupted
from mayfly.job import Job
from mayfly.log import Log
from mayfly.monitoring.hooks import AFTER, BEFORE, Hook, find_hooks
from mayfly.queue.failure import Failure
from mayfly.queue.outcome import Outcome
from mayfly.settings import Settings
from runner.guard import Guard


def open_hooks(settings: Settings, guard: Guard, log: Log) -> "RunnerHooks | None":
    """None where none are named, or none can be used: that is told, and jobs run without them."""
    found: dict[str, list[Hook]] = {BEFORE: [], AFTER: []}
    for variable, each in find_hooks(settings, *found):
        if isinstance(each, HookUnusable):
            log.say(log_messages.hook_unusable(str(each)))
        else:
            found[variable].append(each)
    return RunnerHooks(found[BEFORE], found[AFTER], guard, log) if any(found.values()) else None


class RunnerHooks:
    """Those of one runner."""

    def __init__(self, before: Sequence[Hook], after: Sequence[Hook], guard: Guard, log: Log) -> None:
        self._before = before
        self._after = after
        self._guard = guard
        self._log = log
        self._failures: Counter[str] = Counter()
        self._counting = Lock()

    def before(self, job: Job) -> None:
        """In the handler's own thread or task, and on its time: an interruption there is the job's."""
        for hook in self._before:
            try:
                hook.function(job)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - foreign code: its error is not the job's
                self._note(hook, job, error)

    def after(self, job: Job, outcome: Outcome) -> None:
        """In the main thread. The job's own limit is over; what hangs is interrupted at the end of the window."""
        self._guard.relax()
        for hook in self._after:
            try:
                try:
                    self._guard.watch(None)
                    hook.function(job, outcome)
                finally:
                    self._guard.rest()
            except (Exception, SystemExit, Interrupted) as error:  # noqa: BLE001 - as above
                self._note(hook, job, error)

    def close(self) -> None:
        """What was told only once is counted at the end."""
        for name, times in self._failures.items():
            if times > 1:
                self._log.say(log_messages.hook_failures(name, times))

    def _note(self, hook: Hook, job: Job, error: BaseException) -> None:
        with self._counting:  # threads of handlers meet here
            self._failures[hook.name] += 1
            if self._failures[hook.name] == 1:
                self._log.say(
                    log_messages.hook_failed(hook.name, job.id, job.type, Failure.from_error(error).message)
                )
