"""Every message of the log, in one place: name, text, level and machine-readable fields. Operators grep for these.

Texts are short and in the present tense. A phrase that README.md lists must not change: scripts may depend on it.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple


class Level(StrEnum):
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogMessage(NamedTuple):
    name: str
    text: str
    level: Level = Level.INFO
    fields: Mapping[str, object] = MappingProxyType({})


def _count(number: int, noun: str, nouns: str = "") -> str:
    """1 job, 2 jobs, 1000 jobs: without separators, because scripts read these numbers."""
    return f"{number} {noun if number == 1 else nouns or f'{noun}s'}"


def _message(name: str, text: str, level: Level = Level.INFO, **fields: object) -> LogMessage:
    return LogMessage(name, text, level, fields)


# --- the dispatcher ---------------------------------------------------------------------------------------


def cycle_started(at: datetime, host: str) -> LogMessage:
    return _message("cycle_started", f"Dispatch cycle started at {at.isoformat(timespec='seconds')}", host=host)


def cycle_skipped() -> LogMessage:
    text = "Skipped: the previous cycle of this host still holds the lock"
    return _message("cycle_skipped", text, Level.WARNING)


def database_verified(server: str) -> LogMessage:
    return _message("database_verified", f"Database connection verified ({server})", server=server)


def clock_skewed(offset: timedelta) -> LogMessage:
    seconds = offset.total_seconds()
    text = f"This host's clock is off by {-seconds:+.1f} s; the database's clock is used. Check NTP on this host"
    return _message("clock_skewed", text, Level.WARNING, offset_seconds=seconds)


def wall_clock_set(step: timedelta) -> LogMessage:
    seconds = step.total_seconds()
    text = f"This host's wall clock was set by {seconds:+.1f} s during the cycle. Jobs are not affected; check NTP"
    return _message("wall_clock_set", text, Level.WARNING, step_seconds=seconds)


def prune_skipped(step: timedelta) -> LogMessage:
    seconds = step.total_seconds()
    text = f"The database's clock was set by {seconds:+.1f} s during the cycle: nothing is pruned in this cycle"
    return _message("prune_skipped", text, Level.WARNING, step_seconds=seconds)


def setting_warning(sentence: str) -> LogMessage:
    return _message("setting_warning", sentence, Level.WARNING)


def lingering(until: datetime, interval: float) -> LogMessage:
    text = f"Lingering until {until:%H:%M:%S} UTC, polling every {interval:g} s"
    return _message("lingering", text, until=until, interval=interval)


def took_over() -> LogMessage:
    return _message("took_over", "Took over the lock from a lingering dispatcher")


def handed_over(left: int) -> LogMessage:
    text = f"Handed over to the next dispatcher; runners still running: {left}"
    return _message("handed_over", text, left=left)


def left_running(worker_id: str, lane: str) -> LogMessage:
    text = f"Worker {worker_id} of the long lane {lane} keeps running"
    return _message("left_running", text, worker_id=worker_id, lane=lane)


def runner_lost(worker_id: str, lane: str, jobs: int) -> LogMessage:
    text = f"Rescued {_count(jobs, 'job')} of {worker_id}, whose process is gone"
    return _message("runner_lost", text, Level.WARNING, worker_id=worker_id, lane=lane, jobs=jobs)


def schedules_fired(names: Sequence[str]) -> LogMessage:
    return _message("schedules_fired", f"Schedules fired: {len(names)} ({', '.join(names)})", names=list(names))


def schedule_skipped(name: str, first: datetime, last: datetime, because: str) -> LogMessage:
    due = _minute(first) if first == last else f"{_minute(first)} to {_minute(last)}"
    text = f"Schedule {name}: skipped what was due {due} ({because})"
    return _message("schedule_skipped", text, Level.WARNING, schedule=name, first=first, last=last, because=because)


def schedule_refused(problem: str) -> LogMessage:
    return _message("schedule_refused", f"Schedule refused: {problem}", Level.ERROR, problem=problem)


def _minute(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"


def pending_jobs(pending: str) -> LogMessage:
    return _message("pending_jobs", f"Pending jobs: {pending}", pending=pending)


def nothing_pending() -> LogMessage:
    return _message("nothing_pending", "No pending jobs, skipping worker spawn")


def workers_calculated(
    lane: str, planned: int, pending: str, batch: int, maximum: int, running: int, cuts: tuple[str, ...]
) -> LogMessage:
    because = f"; cut by {', '.join(cuts)}" if cuts else ""
    return _message(
        "workers_calculated",
        f"Calculated worker count: {planned} (pending={pending}, batch={batch}, max={maximum}) "
        f"lane={lane} running={running}{because}",
        lane=lane,
        planned=planned,
        pending=pending,
        batch=batch,
        max=maximum,
        running=running,
        cuts=cuts,
    )


def spawning(count: int) -> LogMessage:
    return _message("spawning", f"Spawning {_count(count, 'worker')}...", count=count)


def spawning_worker(worker_id: str, lane: str) -> LogMessage:
    return _message("spawning_worker", f"Spawning worker: {worker_id} lane={lane}", worker_id=worker_id, lane=lane)


def worker_completed(worker_id: str, milliseconds: int) -> LogMessage:
    text = f"Worker {worker_id} completed successfully ({milliseconds}ms)"
    return _message("worker_completed", text, worker_id=worker_id, duration_ms=milliseconds)


def worker_failed(worker_id: str, code: int, milliseconds: int) -> LogMessage:
    return _message(
        "worker_failed",
        f"Worker {worker_id} failed with code {code} ({milliseconds}ms)",
        Level.ERROR,
        worker_id=worker_id,
        exit_code=code,
        duration_ms=milliseconds,
    )


def worker_timed_out(worker_id: str, milliseconds: int) -> LogMessage:
    text = f"Worker {worker_id} timed out ({milliseconds}ms)"
    return _message("worker_timed_out", text, Level.ERROR, worker_id=worker_id, duration_ms=milliseconds)


def worker_crashed(worker_id: str, reason: str, milliseconds: int) -> LogMessage:
    text = f"Worker {worker_id} crashed: {reason} ({milliseconds}ms)"
    return _message("worker_crashed", text, Level.ERROR, worker_id=worker_id, reason=reason, duration_ms=milliseconds)


def worker_lost_lease(worker_id: str) -> LogMessage:
    """Logged by the dispatcher: a runner that was suspended for so long may exit before it can log this itself."""
    text = f"Worker {worker_id} lost its lease: another host has taken over its jobs; nothing was written"
    return _message("worker_lost_lease", text, Level.WARNING, worker_id=worker_id)


def dispatch_timeout(seconds: float, alive: int) -> LogMessage:
    text = f"Exceeded {seconds:g}s timeout: ending {_count(alive, 'worker')}"
    return _message("dispatch_timeout", text, Level.ERROR, seconds=seconds, alive=alive)


def worker_overdue(worker_id: str) -> LogMessage:
    text = f"Worker {worker_id} is past its deadline and does not exit: killing it"
    return _message("worker_overdue", text, Level.ERROR, worker_id=worker_id)


def worker_too_large(worker_id: str, memory: int, limit: int) -> LogMessage:
    text = f"Worker {worker_id} uses {memory >> 20} MB, above WORKER_MEMORY {limit >> 20} MB: killing it"
    return _message("worker_too_large", text, Level.ERROR, worker_id=worker_id, memory=memory, limit=limit)


def stopping(signal_name: str, alive: int) -> LogMessage:
    text = f"Received {signal_name}: stopping {_count(alive, 'worker')}, releasing unfinished jobs"
    return _message("stopping", text, Level.WARNING, signal=signal_name, alive=alive)


def job_rescued(job_id: int, type_name: str, outcome: str, reason: str) -> LogMessage:
    return _message(
        "job_rescued",
        f"Job {job_id} ({type_name}): {reason}",
        Level.WARNING,
        job_id=job_id,
        type=type_name,
        outcome=outcome,
        reason=reason,
    )


def output_line(worker_id: str, line: str) -> LogMessage:
    return _message("output", f"{worker_id} printed: {line}", worker_id=worker_id, line=line)


def output_dropped(worker_id: str, dropped: int) -> LogMessage:
    text = f"{worker_id} printed {dropped:,} more bytes, which were dropped"
    return _message("output_dropped", text, Level.WARNING, worker_id=worker_id, bytes=dropped)


def import_printed(lane: str, line: str) -> LogMessage:
    return _message("import_printed", f"Importing the handlers of lane={lane} printed: {line}", lane=lane, line=line)


def import_output_dropped(lane: str, dropped: int) -> LogMessage:
    text = f"Importing the handlers of lane={lane} printed {dropped:,} more bytes, which were dropped"
    return _message("import_output_dropped", text, Level.WARNING, lane=lane, bytes=dropped)


def preload_disabled(lane: str, hazard: str) -> LogMessage:
    text = f"Handler preloading disabled for lane={lane}: importing the handlers leaves {hazard}"
    return _message("preload_disabled", text, lane=lane, hazard=hazard)


def preload_process_ended(lane: str, code: int, not_started: int) -> LogMessage:
    how = f"was killed by signal {-code}" if code < 0 else f"exited with code {code}"
    lost = f" before it started {_count(not_started, 'worker')}" if not_started else "; no workers affected"
    text = f"The preload process of lane={lane} {how}{lost}"
    level = Level.ERROR if not_started else Level.WARNING
    return _message("preload_process_ended", text, level, lane=lane, code=code, not_started=not_started)


def pruned(rows: int) -> LogMessage:
    return _message("pruned", f"Pruned {_count(rows, 'old row')}", rows=rows)


def cycle_failed(reason: str) -> LogMessage:
    return _message("cycle_failed", f"Cycle failed: {reason}", Level.ERROR, reason=reason)


def summary_line(text: str) -> LogMessage:
    return _message("summary", text)


def lane_summary(figures: Mapping[str, object]) -> LogMessage:
    return LogMessage("lane_summary", " ".join(f"{key}={value}" for key, value in figures.items()), fields=figures)


def side_process_failed(name: str, reason: str) -> LogMessage:
    """Of the heartbeat, alerts, metrics and traces, which are sent beside the cycle."""
    text = f"Sending {name} failed: {reason}"
    return _message("side_process_failed", text, Level.ERROR, process=name, reason=reason)


def side_process_timed_out(name: str, seconds: float) -> LogMessage:
    text = f"Sending {name} timed out after {seconds:g} s; retrying in the next cycle"
    return _message("side_process_timed_out", text, Level.ERROR, process=name, seconds=seconds)


def alert_sent(state: str, kind: str, detail: str) -> LogMessage:
    text = f"Alert sent ({state}): {kind}: {detail}"
    return _message("alert_sent", text, Level.WARNING, state=state, kind=kind, detail=detail)


def alert_undelivered(channel: str, reason: str) -> LogMessage:
    text = f"{channel.capitalize()} alert delivery failed: {reason}"
    return _message("alert_undelivered", text, Level.ERROR, channel=channel, reason=reason)


# --- the console ------------------------------------------------------------------------------------------


def console_started(url: str, version: str, api_only: bool) -> LogMessage:
    what = "the HTTP API" if api_only else "the web console and the HTTP API"
    return _message("console_started", f"Serving {what} at {url} (Mayfly {version})", url=url)


def login_refused(address: str, account: str, reason: str) -> LogMessage:
    text = f"Refused a login from {address} as {account!r}: {reason}"
    return _message("login_refused", text, Level.WARNING, address=address, account=account, reason=reason)


def logged_in(address: str, account: str) -> LogMessage:
    return _message("logged_in", f"{account} logged in from {address}", address=address, account=account)


def console_stopped() -> LogMessage:
    return _message("console_stopped", "Stopped serving")


def token_refused(address: str, reason: str) -> LogMessage:
    text = f"Refused a request from {address}: {reason}"
    return _message("token_refused", text, Level.WARNING, address=address, reason=reason)


def request_failed(method: str, path: str, reason: str) -> LogMessage:
    text = f"{method} {path} failed: {reason}"
    return _message("request_failed", text, Level.ERROR, method=method, path=path, reason=reason)


# --- the runner -------------------------------------------------------------------------------------------


def worker_started(lane: str) -> LogMessage:
    return _message("worker_started", "Starting ephemeral worker", lane=lane)


def handler_module_failed(module: str, reason: str) -> LogMessage:
    text = f"Handler module {module} cannot be imported: {reason}"
    return _message("handler_module_failed", text, Level.ERROR, module=module, reason=reason)


def processing(count: int) -> LogMessage:
    return _message("processing", f"Processing {_count(count, 'job')}...", jobs=count)


def jobs_completed(outcomes: Mapping[str, int]) -> LogMessage:
    """`Completed 4 jobs, 1 retry`: only outcomes that occurred."""
    done = _count(outcomes.get("done", 0), "job")
    others = [_outcome_count(kind, number) for kind, number in sorted(outcomes.items()) if kind != "done"]
    return LogMessage("jobs_completed", ", ".join([f"Completed {done}", *others]), fields=outcomes)


def _outcome_count(kind: str, number: int) -> str:
    nouns = {"failed": ("retry", "retries"), "timed out": ("timeout", "timeouts")}
    return _count(number, *nouns.get(kind, (kind, kind)))


def jobs_snoozed(jobs: int, waiting_for: str) -> LogMessage:
    text = f"Snoozed {_count(jobs, 'job')}: {waiting_for}"
    return _message("jobs_snoozed", text, jobs=jobs, waiting_for=waiting_for)


def yielded_to_other_lanes(jobs: int, seconds: float) -> LogMessage:
    text = f"Pausing {seconds:.2f} s for other lanes: none of the last {_count(jobs, 'claimed job')} could start"
    return _message("yielded_to_other_lanes", text, jobs=jobs, seconds=round(seconds, 3))


def lane_paused(lane: str, words: str) -> LogMessage:
    return _message("lane_paused", f"Lane {lane} is {words}; claiming no more jobs", Level.WARNING, lane=lane)


def job_failed(job_id: int, type_name: str, attempt: int, attempts: int, outcome: str, reason: str) -> LogMessage:
    return _message(
        "job_failed",
        f"Job {job_id} ({type_name}) attempt {attempt}/{attempts}: {outcome}: {reason}",
        Level.WARNING,
        job_id=job_id,
        type=type_name,
        attempt=attempt,
        outcome=outcome,
        reason=reason,
    )


def lost_lease(job_id: int, type_name: str) -> LogMessage:
    text = f"Job {job_id} ({type_name}): lost lease, nothing was changed"
    return _message("lost_lease", text, Level.WARNING, job_id=job_id, type=type_name)


def chain_broken(job_id: int, type_name: str, outcome: str, steps_left: int) -> LogMessage:
    text = f"Job {job_id} ({type_name}) is {outcome}: its chain ends here, {_count(steps_left, 'step')} skipped"
    return _message(
        "chain_broken", text, Level.WARNING, job_id=job_id, type=type_name, outcome=outcome, steps=steps_left
    )


def batch_finished(key: str, done: int, dead: int, cancelled: int, callback: str | None) -> LogMessage:
    then = f"; {callback} enqueued" if callback else ""
    text = f"Batch {key} is complete: done={done} dead={dead} cancelled={cancelled}{then}"
    return _message("batch_finished", text, batch=key, done=done, dead=dead, cancelled=cancelled, callback=callback)


def result_dropped(job_id: int, type_name: str, reason: str) -> LogMessage:
    text = f"Job {job_id} ({type_name}): result dropped, {reason}"
    return _message("result_dropped", text, Level.WARNING, job_id=job_id, type=type_name, reason=reason)


def backlog_remains(released: int) -> LogMessage:
    text = f"Time is up: backlog remains, {_count(released, 'job')} released"
    return _message("backlog_remains", text, jobs=released)


def guard_interrupted(job_id: int, type_name: str, seconds: float) -> LogMessage:
    text = f"Time is up: interrupted job {job_id} ({type_name}) after {seconds:.1f} s"
    return _message("guard_interrupted", text, Level.ERROR, job_id=job_id, type=type_name, seconds=seconds)


def job_sliced(job_id: int, type_name: str, slices: int, seconds: float) -> LogMessage:
    text = f"Job {job_id} ({type_name}): slice {slices} ended after {seconds:.1f} s, the next cycle continues"
    return _message("job_sliced", text, job_id=job_id, type=type_name, slices=slices, seconds=seconds)


def job_left_behind(job_id: int, type_name: str, seconds: float) -> LogMessage:
    text = f"Job {job_id} ({type_name}) cannot be interrupted after {seconds:.1f} s: this worker exits without it"
    return _message("job_left_behind", text, Level.ERROR, job_id=job_id, type=type_name, seconds=seconds)


def worker_stopping(signal_name: str) -> LogMessage:
    text = f"Received {signal_name}: claiming no more jobs"
    return _message("worker_stopping", text, Level.WARNING, signal=signal_name)


def worker_error(reason: str) -> LogMessage:
    return _message("worker_error", reason, Level.ERROR, reason=reason)


def tracing_missing(sentence: str) -> LogMessage:
    return _message("tracing_missing", f"Tracing disabled: {sentence}", Level.ERROR, reason=sentence)


def hook_unusable(sentence: str) -> LogMessage:
    return _message("hook_unusable", f"Hook skipped: {sentence}", Level.ERROR, reason=sentence)


def hook_failed(name: str, job_id: int, type_name: str, reason: str) -> LogMessage:
    text = f"Hook {name} failed for job {job_id} ({type_name}); the job continues: {reason}"
    return _message("hook_failed", text, Level.ERROR, hook=name, job_id=job_id, type=type_name, reason=reason)


def hook_failures(name: str, times: int) -> LogMessage:
    text = f"Hook {name} failed {_count(times, 'time')} in total"
    return _message("hook_failures", text, Level.ERROR, hook=name, times=times)
