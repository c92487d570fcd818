"""Call the hooks that the settings name. A failing hook is logged once and counted; its job is not affected."""

from collections import Counter
from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING

from mayfly import log_messages
from mayfly.errors import HookUnusable, Interrupted
from mayfly.job import Job
from mayfly.log import Log
from mayfly.monitoring.hooks import AFTER, BEFORE, Hook, find_hooks
from mayfly.queue.failure import Failure
from mayfly.queue.outcome import Outcome
from mayfly.settings import Settings
from runner.guard import Guard

if TYPE_CHECKING:
    from runner.main import Runner


def install(runner: "Runner") -> None:
    hooks = open_hooks(runner.settings, runner.guard, runner.log)
    if hooks is not None:
        runner.observers.append(hooks)
        runner.on_close.append(hooks.close)


def open_hooks(settings: Settings, guard: Guard, log: Log) -> "RunnerHooks | None":
    """None without usable hooks: that is logged, and jobs run without them."""
    found: dict[str, list[Hook]] = {BEFORE: [], AFTER: []}
    for variable, each in find_hooks(settings, *found):
        if isinstance(each, HookUnusable):
            log.say(log_messages.hook_unusable(str(each)))
        else:
            found[variable].append(each)
    return RunnerHooks(found[BEFORE], found[AFTER], guard, log) if any(found.values()) else None


class RunnerHooks:
    """An observer of jobs."""

    def __init__(self, before: Sequence[Hook], after: Sequence[Hook], guard: Guard, log: Log) -> None:
        self._before = before
        self._after = after
        self._guard = guard
        self._log = log
        self._failures: Counter[str] = Counter()
        self._counting = Lock()

    def before(self, job: Job) -> None:
        """An interruption here is the job's."""
        for hook in self._before:
            try:
                hook.function(job)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - foreign code: its error is not the job's
                self._note_failure(hook, job, error)

    def after(self, job: Job, outcome: Outcome) -> None:
        """The job's own timeout is over; a hook that hangs is interrupted at the end of the window."""
        self._guard.end_timeout()
        for hook in self._after:
            try:
                try:
                    self._guard.armed = True
                    hook.function(job, outcome)
                finally:
                    self._guard.armed = False
            except (Exception, SystemExit, Interrupted) as error:  # noqa: BLE001 - as above
                self._note_failure(hook, job, error)

    def close(self) -> None:
        """Log how often hooks failed that were logged only once."""
        for name, times in self._failures.items():
            if times > 1:
                self._log.say(log_messages.hook_failures(name, times))

    def _note_failure(self, hook: Hook, job: Job, error: BaseException) -> None:
        with self._counting:  # `before` runs in the threads of handlers
            self._failures[hook.name] += 1
            if self._failures[hook.name] == 1:
                self._log.say(
                    log_messages.hook_failed(hook.name, job.id, job.type, Failure.from_error(error).message)
                )
