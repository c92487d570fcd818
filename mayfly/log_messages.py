"""All log messages: name, text, level and machine-readable fields. Operators grep for these.

Texts are short and in the present tense. Phrases that README.md lists must not change: scripts may depend on them.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVarTuple

Values = TypeVarTuple("Values")


class Level(StrEnum):
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogMessage(NamedTuple):
    name: str
    text: str
    level: Level = Level.INFO
    fields: Mapping[str, object] = MappingProxyType({})


class Phrase(Generic[*Values]):
    """A template: calling it with values makes a message. The values are its fields, in the order of the text.

    `fields` names them if the text has another order, or not all of them. {jobs:job} becomes 1 job, 2 jobs.
    """

    name = ""  # the name of its variable, set at the end of this module

    def __init__(self, text: str, level: Level = Level.INFO, fields: Sequence[str] | None = None) -> None:
        self.text = text
        self.level = level
        self.field_names = re.findall(r"{(\w+)", text) if fields is None else fields

    def __call__(self, *values: *Values) -> LogMessage:
        given = (each.total_seconds() if isinstance(each, timedelta) else each for each in values)
        fields = dict(zip(self.field_names, given, strict=True))
        shown = {name: _Count(value) if isinstance(value, int) else value for name, value in fields.items()}
        return LogMessage(self.name, self.text.format_map(shown), self.level, fields)


class _Count(int):
    def __format__(self, spec: str) -> str:
        return _count(self, spec) if re.fullmatch(r"[a-z ]{2,}", spec) else super().__format__(spec)


def _count(number: int, noun: str, nouns: str = "") -> str:
    """1 job, 2 jobs, 1000 jobs: without separators, because scripts read these numbers."""
    return f"{number:d} {noun if number == 1 else nouns or f'{noun}s'}"


def _message(name: str, text: str, level: Level = Level.INFO, **fields: object) -> LogMessage:
    return LogMessage(name, text, level, fields)


# --- the dispatcher ---------------------------------------------------------------------------------------

cycle_skipped = Phrase[()]("Skipped: the previous cycle of this host still holds the lock", Level.WARNING)
cycle_failed = Phrase[str]("Cycle failed: {reason}", Level.ERROR)
database_verified = Phrase[str]("Database connection verified ({server})")
wall_clock_set = Phrase[timedelta](
    "This host's wall clock was set by {step_seconds:+.1f} s during the cycle. Jobs are not affected; check NTP",
    Level.WARNING,
)
prune_skipped = Phrase[timedelta](
    "The database's clock was set by {step_seconds:+.1f} s during the cycle: nothing is pruned in this cycle",
    Level.WARNING,
)
setting_warning = Phrase[str]("{sentence}", Level.WARNING)
package_name_taken = Phrase[str, str](
    "{path} has the name of Mayfly's package {package}: handlers that import {package} get Mayfly's instead. Rename "
    "it, or move it into another package",
    Level.WARNING,
    ["path", "package"],
)
lingering = Phrase[datetime]("Lingering until {until:%H:%M:%S} UTC")
took_over = Phrase[()]("Took over the lock from a lingering dispatcher")
handed_over = Phrase[int]("Handed over to the next dispatcher; runners still running: {left}")
slot_needed = Phrase[str, str]("Worker {worker_id} only waits in lane {lane}: its slot is needed")
left_running = Phrase[str, str]("Worker {worker_id} of the long lane {lane} keeps running")
schedule_refused = Phrase[str]("Schedule refused: {problem}", Level.ERROR)
pending_jobs = Phrase[str]("Pending jobs: {pending}")
more_lanes_wait = Phrase[int]("Calculated worker count: 0 for {lanes:further lane}")
nothing_pending = Phrase[()]("No pending jobs, skipping worker spawn")
pruned = Phrase[int]("Pruned {rows:old row}")
summary = Phrase[str]("{text}")

runner_lost = Phrase[str, str, int](
    "Rescued {jobs:job} of {worker_id}, whose process is gone", Level.WARNING, ["worker_id", "lane", "jobs"]
)
figures_skipped = Phrase[str]("Figures of live runners were not written: {reason}", Level.WARNING)

spawning = Phrase[int]("Spawning {count:worker}...")
spawning_worker = Phrase[str, str]("Spawning worker: {worker_id} lane={lane}")
worker_completed = Phrase[str, int]("Worker {worker_id} completed successfully ({duration_ms}ms)")
worker_failed = Phrase[str, int, int](
    "Worker {worker_id} failed with code {exit_code} ({duration_ms}ms)", Level.ERROR
)
worker_timed_out = Phrase[str, int]("Worker {worker_id} timed out ({duration_ms}ms)", Level.ERROR)
worker_crashed = Phrase[str, str, int]("Worker {worker_id} crashed: {reason} ({duration_ms}ms)", Level.ERROR)
# Logged by the dispatcher: the runner was suspended, and may exit before it can log this itself.
worker_lost_lease = Phrase[str](
    "Worker {worker_id} lost its lease: another host has taken over its jobs; nothing was written", Level.WARNING
)
worker_overdue = Phrase[str]("Worker {worker_id} is past its deadline and does not exit: killing it", Level.ERROR)
dispatch_timeout = Phrase[float, int]("Exceeded {seconds:g}s timeout: ending {alive:worker}", Level.ERROR)
stopping = Phrase[str, int]("Received {signal}: stopping {alive:worker}, releasing unfinished jobs", Level.WARNING)

unstarted_requested = Phrase[str, str, int, float, int](
    "Worker {worker_id} lane={lane} has run job {job_id} for {seconds:.1f} s: requesting its {jobs:unstarted job}"
)
unstarted_released = Phrase[str, int](
    "Released {jobs:unstarted job} of {worker_id} because it is busy with another job", fields=["worker_id", "jobs"]
)

output = Phrase[str, str]("{worker_id} printed: {line}")
output_dropped = Phrase[str, int]("{worker_id} printed {bytes:,} more bytes, which were dropped", Level.WARNING)
import_printed = Phrase[str, str]("Importing the handlers of lane={lane} printed: {line}")
import_output_dropped = Phrase[str, int](
    "Importing the handlers of lane={lane} printed {bytes:,} more bytes, which were dropped", Level.WARNING
)
preload_disabled = Phrase[str, str](
    "Handler preloading disabled for lane={lane}: importing the handlers leaves {hazard}"
)

# Launchers.
runner_submitted = Phrase[str, str, str, str]("Submitted {worker_id} lane={lane} to {launcher}: id {external_id}")
submit_failed = Phrase[str, str, str, str](
    "The submit of {worker_id} lane={lane} to {launcher} failed: {reason}; it is searched for by name",
    Level.WARNING,
)
submit_refused = Phrase[str, str, str, str](
    "The submit of {worker_id} lane={lane} was refused by {launcher}: {reason}", Level.ERROR
)
runner_found = Phrase[str, str, str, str]("Found {worker_id} lane={lane} in {launcher}: id {external_id}")
runner_not_started = Phrase[str, str, str, str](
    "Worker {worker_id} lane={lane} did not start in {launcher}: {reason}; it is planned again", Level.WARNING
)
runner_cancelled = Phrase[str, str, str](
    "Worker {worker_id} lane={lane} of {launcher} is cancelled: no jobs are left"
)
runner_explained = Phrase[str, str, str]("{launcher} reports that {worker_id} ended: {cause}", Level.WARNING)
engine_failed = Phrase[str, str, str]("{launcher}: `{command}` failed: {reason}", Level.ERROR)
engine_stopped = Phrase[str, float](
    "The commands of {launcher} were ended after {seconds:.0f} s; the next cycle continues", Level.WARNING
)

# The heartbeat, alerts, metrics and traces are sent by processes of their own.
side_process_failed = Phrase[str, str]("Sending {process} failed: {reason}", Level.ERROR)
side_process_timed_out = Phrase[str, float](
    "Sending {process} timed out after {seconds:g} s; retrying in the next cycle", Level.ERROR
)
alert_sent = Phrase[str, str, str]("Alert sent ({state}): {kind}: {detail}", Level.WARNING)


def cycle_started(at: datetime, host: str) -> LogMessage:
    return _message("cycle_started", f"Dispatch cycle started at {at.isoformat(timespec='seconds')}", host=host)


def clock_skewed(offset: timedelta) -> LogMessage:
    seconds = offset.total_seconds()
    text = f"This host's clock is off by {-seconds:+.1f} s; the database's clock is used. Check NTP on this host"
    return _message("clock_skewed", text, Level.WARNING, offset_seconds=seconds)


def schedules_fired(names: Sequence[str]) -> LogMessage:
    return _message("schedules_fired", f"Schedules fired: {len(names)} ({', '.join(names)})", names=list(names))


def schedule_skipped(name: str, first: datetime, last: datetime, because: str) -> LogMessage:
    due = _minute(first) if first == last else f"{_minute(first)} to {_minute(last)}"
    text = f"Schedule {name}: skipped due times {due} ({because})"
    return _message("schedule_skipped", text, Level.WARNING, schedule=name, first=first, last=last, because=because)


def _minute(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"


def workers_calculated(
    lane: str, planned: int, pending: str, batch: int, maximum: int, running: int, cuts: tuple[str, ...]
) -> LogMessage:
    because = f"; cut by {', '.join(cuts)}" if cuts else ""
    text = (
        f"Calculated worker count: {planned} (pending={pending}, batch={batch}, max={maximum}) "
        f"lane={lane} running={running}{because}"
    )
    figures = {"planned": planned, "pending": pending, "batch": batch, "max": maximum, "running": running}
    return LogMessage("workers_calculated", text, fields={"lane": lane, **figures, "cuts": cuts})


def worker_too_large(worker_id: str, memory: int, limit: int) -> LogMessage:
    text = f"Worker {worker_id} uses {memory >> 20} MB, above WORKER_MEMORY {limit >> 20} MB: killing it"
    return _message("worker_too_large", text, Level.ERROR, worker_id=worker_id, memory=memory, limit=limit)


def preload_process_ended(lane: str, code: int, not_started: int) -> LogMessage:
    how = f"was killed by signal {-code}" if code < 0 else f"exited with code {code}"
    lost = f" before it started {_count(not_started, 'worker')}" if not_started else "; no workers affected"
    text = f"The preload process of lane={lane} {how}{lost}"
    level = Level.ERROR if not_started else Level.WARNING
    return _message("preload_process_ended", text, level, lane=lane, code=code, not_started=not_started)


def lane_summary(figures: Mapping[str, object]) -> LogMessage:
    return LogMessage("lane_summary", " ".join(f"{key}={value}" for key, value in figures.items()), fields=figures)


def alert_undelivered(channel: str, reason: str) -> LogMessage:
    text = f"{channel.capitalize()} alert delivery failed: {reason}"
    return _message("alert_undelivered", text, Level.ERROR, channel=channel, reason=reason)


# --- producers --------------------------------------------------------------------------------------------

# Written through Python's `logging`: an application has no log of Mayfly.
type_without_handler = Phrase[str, str]("This process has {reason}; payloads are not checked.{hint}", Level.WARNING)


# --- the console ------------------------------------------------------------------------------------------

console_stopped = Phrase[()]("Stopped serving")
login_refused = Phrase[str, str, str]("Refused a login from {address} as {account!r}: {reason}", Level.WARNING)
logged_in = Phrase[str, str]("{account} logged in from {address}", fields=["address", "account"])
token_refused = Phrase[str, str]("Refused a request from {address}: {reason}", Level.WARNING)
request_failed = Phrase[str, str, str]("{method} {path} failed: {reason}", Level.ERROR)


def console_started(url: str, version: str, api_only: bool) -> LogMessage:
    what = "the HTTP API" if api_only else "the web console and the HTTP API"
    return _message("console_started", f"Serving {what} at {url} (Mayfly {version})", url=url)


# --- the runner -------------------------------------------------------------------------------------------

no_worker_started = Phrase[str, str]("No worker started: lane={lane} has no free slot; cut by {cuts}", Level.WARNING)
worker_started = Phrase[str]("Starting ephemeral worker", fields=["lane"])
not_taken_over = Phrase[str]("Exiting without a claim: {reason}", Level.WARNING)
stop_requested = Phrase[()]("An operator has requested a stop: claiming no more jobs", Level.WARNING)
lane_entered = Phrase[str]("Continuing with lane={lane}")
worker_stopping = Phrase[str]("Received {signal}: claiming no more jobs", Level.WARNING)
worker_error = Phrase[str]("{reason}", Level.ERROR)
handler_module_failed = Phrase[str, str]("Handler module {module} cannot be imported: {reason}", Level.ERROR)
routes_failed = Phrase[str, str, str](
    "Routes /hooks/{name} are not served: {module} cannot be imported: {reason}", Level.ERROR
)
no_handlers = Phrase[str](
    "No handlers are loaded: HANDLERS is not set, and MAYFLY_HOME {home} has no package `handlers`. Set HANDLERS to "
    "the modules that declare them",
    Level.WARNING,
)
processing = Phrase[int]("Processing {jobs:job}...")
jobs_snoozed = Phrase[int, str]("Snoozed {jobs:job}: {waiting_for}")
jobs_without_handler = Phrase[int, str]("Snoozed {jobs:job}: {reason}", Level.WARNING)
yielded_to_other_lanes = Phrase[int, float](
    "Pausing {seconds:.2f} s for other lanes: all of the last {jobs:claimed job} were snoozed",
    fields=["jobs", "seconds"],
)
lane_paused = Phrase[str, str]("Lane {lane} is {paused}; claiming no more jobs", Level.WARNING)
backlog_remains = Phrase[int]("Time is up: backlog remains, {jobs:job} released")

job_failed = Phrase[int, str, int, int, str, str](
    "Job {job_id} ({type}) attempt {attempt}/{attempts}: {outcome}: {reason}", Level.WARNING
)
row_changed = Phrase[int, str, str, str](
    "Job {job_id} ({type}): the application has changed or deleted row {key} of {source}; it was left unchanged",
    Level.WARNING,
)
source_missing = Phrase[str, int](
    "The source {source} is not in mayfly.toml of this host: {jobs:row} not written", Level.WARNING
)
source_unusable = Phrase[str]("{sentence}", Level.ERROR)
lost_lease = Phrase[int, str]("Job {job_id} ({type}): lost lease, nothing was changed", Level.WARNING)
chain_broken = Phrase[int, str, str, int](
    "Job {job_id} ({type}) is {outcome}: its chain ends here, {steps:step} skipped", Level.WARNING
)
result_dropped = Phrase[int, str, str]("Job {job_id} ({type}): result dropped, {reason}", Level.WARNING)
guard_interrupted = Phrase[int, str, float](
    "Time is up: interrupted job {job_id} ({type}) after {seconds:.1f} s", Level.ERROR
)
job_sliced = Phrase[int, str, int, float](
    "Job {job_id} ({type}): slice {slices} ended after {seconds:.1f} s, the next cycle continues"
)
job_left_behind = Phrase[int, str, float](
    "Job {job_id} ({type}) cannot be interrupted after {seconds:.1f} s: this worker exits without it", Level.ERROR
)

tracing_missing = Phrase[str]("Tracing disabled: {reason}", Level.ERROR)
hook_unusable = Phrase[str]("Hook skipped: {reason}", Level.ERROR)
hook_failed = Phrase[str, int, str, str](
    "Hook {hook} failed for job {job_id} ({type}); the job continues: {reason}", Level.ERROR
)
hook_failures = Phrase[str, int]("Hook {hook} failed {times:time} in total", Level.ERROR)


def jobs_completed(outcomes: Mapping[str, int]) -> LogMessage:
    """`Completed 4 jobs, 1 retry`: only outcomes that occurred."""
    done = _count(outcomes.get("done", 0), "job")
    others = [_outcome_count(kind, number) for kind, number in sorted(outcomes.items()) if kind != "done"]
    return LogMessage("jobs_completed", ", ".join([f"Completed {done}", *others]), fields=outcomes)


def _outcome_count(kind: str, number: int) -> str:
    nouns = {"failed": ("retry", "retries"), "timed out": ("timeout", "timeouts")}
    return _count(number, *nouns.get(kind, (kind, kind)))


def batch_finished(key: str, done: int, dead: int, cancelled: int, callback: str | None) -> LogMessage:
    then = f"; {callback} enqueued" if callback else ""
    text = f"Batch {key} is complete: done={done} dead={dead} cancelled={cancelled}{then}"
    return _message("batch_finished", text, batch=key, done=done, dead=dead, cancelled=cancelled, callback=callback)


for _name, _phrase in list(globals().items()):
    if isinstance(_phrase, Phrase):
        _phrase.name = _name
