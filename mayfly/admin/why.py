"""Decide why a job is not running, or how it ended. Pure: facts in, sentences out."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from mayfly.admin.fleet import STALE_AFTER
from mayfly.admin.jobs import CappedCount, ReportedProgress, RowView, state_of
from mayfly.fleet.runners import JobStart
from mayfly.fleet.submitted import RefusedSubmit
from mayfly.format import format_duration, moment, plural
from mayfly.queue.pauses import Pause
from mayfly.schema.tables import CANCELLED, CLAIMED, DONE, NO_HANDLER, RUNNING


class Reason(NamedTuple):
    name: str  # one word, for machines
    text: str


class JobRow(NamedTuple):
    """All columns shown to operators; JSON columns are decoded."""

    id: int
    type: str
    lane: str
    status: str
    priority: int
    run_at: datetime
    attempts: int
    max_attempts: int
    payload: Any = None
    crashes: int = 0
    interruptions: int = 0
    suspect: bool = False
    claims: int = 0
    worker_id: str | None = None
    locked_at: datetime | None = None
    lease_until: datetime | None = None
    unique_key: str | None = None
    group_key: str | None = None
    checkpoint: Any = None
    progress: Any = None
    result: Any = None
    last_error: str | None = None
    created_at: datetime | None = None
    started_at: datetime | None = None  # of the current run of a claimed job, of the last run of others
    finished_at: datetime | None = None
    duration_ms: int | None = None
    expires_at: datetime | None = None
    waiting_for: str | None = None
    cancel_reason: str | None = None
    slices: int = 0
    unique_scope: str | None = None
    unique_until: datetime | None = None
    trace_context: str | None = None
    parent_id: int | None = None

    @property
    def state(self) -> str:
        return state_of(self.status, self.started_at)

    @property
    def reported(self) -> ReportedProgress | None:
        return ReportedProgress.of(self.progress)

    @property
    def source_row(self) -> RowView | None:
        return RowView.of(self.unique_key)

    @property
    def error(self) -> str:
        """Its first line after a colon, without a full stop, to end a sentence with."""
        return f": {self.last_error.partition(chr(10))[0].rstrip('.')}" if self.last_error else ""


class RowState(NamedTuple):
    """The row of a job, as it is now."""

    exists: bool
    status: object = None
    is_processing: bool = False  # only such a row is processed again
    other_worker: str | None = None  # that has taken it meanwhile


NONE_BEFORE = CappedCount()


class RunnerCause(NamedTuple):
    """Why the process of a runner ended, by its engine or its lease keeper."""

    worker_id: str
    launcher: str
    cause: str


class PoolState(NamedTuple):
    name: str
    cap: int
    running: int  # runners of its lanes


@dataclass(frozen=True)
class LaneState:
    max_workers: int
    running: int = 0  # runners alive anywhere in the fleet
    external: bool = False
    passed_over: int = 0  # cycles in a row
    jobs_before: CappedCount = NONE_BEFORE  # due jobs that are claimed first
    pool: PoolState | None = None
    queued: int = 0  # those of the running ones that wait in the queue of its launcher
    refusal: RefusedSubmit | None = None  # of the last submit


@dataclass(frozen=True)
class JobDiagnosis:
    """The facts about a job; those that are irrelevant for its status may be missing."""

    row: JobRow
    lane: LaneState
    now: datetime
    pauses: tuple[Pause, ...] = ()  # of its lane, of its type
    host: str | None = None  # of its runner
    runs: tuple[JobStart, ...] = ()  # the jobs that its runner runs
    last_cycle_at: datetime | None = None
    has_handler: bool = True
    handler_hint: str = ""
    broken_modules: Mapping[str, str] = field(default_factory=dict)
    slot_holders: Mapping[str, datetime] = field(default_factory=dict)  # end of the last lease, by host
    row_state: RowState | None = None  # of a waiting job that comes from a source
    runner_cause: RunnerCause | None = None  # of the last run, if it ended with the process of its runner


def explain(known: JobDiagnosis) -> list[Reason]:
    """At least one reason, the strongest first."""
    return [*_reasons(known), *_runner_cause(known), *_row(known)]


def _reasons(known: JobDiagnosis) -> list[Reason]:
    match known.row.status:
        case "done" | "dead" | "cancelled":
            return [_ended(known)]
        case "processing":
            return [*_processing(known), *_progress(known)]
    blocking = [*_will_end(known), *_paused(known)]
    if known.row.run_at > known.now:
        return [*blocking, _not_due(known), *_slots(known), *_expiry(known), *_progress(known)]
    waiting = [*blocking, *_failures(known), *_refused(known), *_interrupted(known), *_backlog(known)]
    return [*(waiting or [_next(known)]), *_expiry(known), *_progress(known)]


def _ended(known: JobDiagnosis) -> Reason:
    row = known.row
    since = f" since {_ago(row.finished_at, known.now)}" if row.finished_at else ""
    why = f": {row.cancel_reason}" if row.status == CANCELLED and row.cancel_reason else row.error
    return Reason(row.status, f"{row.status.capitalize()}{since}{why if row.status != DONE else ''}.")


def _runner_cause(known: JobDiagnosis) -> Iterator[Reason]:
    """The answer of an engine is often later than the error of the job."""
    ended = known.runner_cause
    if ended is not None and ended.cause not in (known.row.last_error or ""):
        runner = f"{ended.worker_id} of the launcher {ended.launcher}"
        yield Reason("runner_ended", f"Its last runner, {runner}, ended: {ended.cause.rstrip('.')}.")


def _row(known: JobDiagnosis) -> Iterator[Reason]:
    """The row from which it comes; a waiting job whose row was changed will not run."""
    row, state = known.row.source_row, known.row_state
    if row is None:
        return
    text = f"It comes from row {row.key} of the source {row.source}"
    if state is None or (state.is_processing and state.other_worker is None):
        yield Reason("row", f"{text}.")
    else:
        changed = f"now has the status {state.status!r}" if state.exists else "no longer exists"
        if state.is_processing:
            changed = f"now has the worker {state.other_worker!r}"
        yield Reason("row", f"{text}, which {changed}: the job will be cancelled when it is claimed.")


def _slots(known: JobDiagnosis) -> Iterator[Reason]:
    for host, until in known.slot_holders.items():
        yield Reason("slots", f"It waits for slots of host {host} until {moment(until)} at the latest.")


def _processing(known: JobDiagnosis) -> Iterator[Reason]:
    row = known.row
    by = f"{row.worker_id} on {known.host}" if known.host else str(row.worker_id)
    if row.started_at is not None:
        yield Reason(RUNNING, f"It has been running since {_ago(row.started_at, known.now)}, in {by}.")
    else:
        claimed = f" at {_ago(row.locked_at, known.now)}" if row.locked_at else ""
        yield Reason(CLAIMED, f"It was claimed by {by}{claimed}{_runs(known)}.")
    if row.lease_until is not None and row.lease_until <= known.now:
        late = format_duration(known.now - row.lease_until)
        yield Reason("lost", f"Its lease expired {late} ago: the next cycle releases it.")
    if row.cancel_reason is not None:
        yield Reason(
            "cancel_requested", f"Cancellation requested; the handler has not noticed yet ({row.cancel_reason})."
        )


def _runs(known: JobDiagnosis) -> str:
    """What the runner of a claimed job runs instead."""
    runs = [each for each in known.runs if each.job_id != known.row.id]
    if not runs:
        return ""
    job_id, started_at = runs[0]
    since = f"since {_ago(started_at, known.now)}"
    others = f" and {plural(len(runs) - 1, 'other job')}" if runs[1:] else ""
    return f" and has not started: its runner has been running job {job_id} {since}{others}"


def _progress(known: JobDiagnosis) -> Iterator[Reason]:
    """Reported by its handler, in this run or an earlier one."""
    row = known.row
    slices = f", after {plural(row.slices, 'slice')}" if row.slices else ""
    if row.reported is not None:
        yield Reason("progress", f"It is at {row.reported}{slices}.")
    elif slices:
        yield Reason("sliced", f"It continues from its checkpoint{slices}.")


def _will_end(known: JobDiagnosis) -> Iterator[Reason]:
    """It will be cancelled without a run when it is claimed."""
    row = known.row
    if row.cancel_reason is not None:
        yield Reason("cancel_requested", f"Cancellation requested; it will not run again ({row.cancel_reason}).")
    if row.expires_at is not None and row.expires_at <= known.now:
        yield Reason("expired", f"It expired at {moment(row.expires_at)}; it will be cancelled when it is claimed.")


def _paused(known: JobDiagnosis) -> Iterator[Reason]:
    for pause in known.pauses:
        by = f" by {pause.paused_by}" if pause.paused_by else ""
        until = f" until {moment(pause.paused_until)}" if pause.paused_until else ""
        because = f": {pause.reason}" if pause.reason else ""
        since = _ago(pause.paused_at, known.now)
        yield Reason("paused", f"The {pause.kind} {pause.name} has been paused since {since}{by}{until}{because}.")
    if known.lane.external:
        text = f"The lane {known.row.lane} is external: no runners are started, external workers pull its jobs."
        yield Reason("external", text)


def _not_due(known: JobDiagnosis) -> Reason:
    row = known.row
    due = f"due in {format_duration(row.run_at - known.now)}, at {moment(row.run_at)}"
    if row.waiting_for is not None:
        return Reason("waiting", f"It waits: {row.waiting_for.rstrip('.')}. It is {due}.")
    if row.attempts or row.crashes:
        attempt = f"attempt {row.attempts}/{row.max_attempts}"
        return Reason("retry", f"It will be retried after {attempt}{row.error}. It is {due}.")
    return Reason("run_at", f"It is {due}.")


def _failures(known: JobDiagnosis) -> Iterator[Reason]:
    """Unintended reasons why a due job does not run."""
    row, last = known.row, known.last_cycle_at
    if last is None:
        yield Reason("no_cycle", "No cycle has run yet: is cron set up? Run `mayfly cron install`.")
    elif known.now - last > STALE_AFTER:
        yield Reason(
            "no_cycle", f"No cycle for {format_duration(known.now - last)}: is cron running? See `mayfly doctor`."
        )
    if not known.has_handler:
        broken = "".join(f" {name} cannot be imported: {why}." for name, why in known.broken_modules.items())
        text = f"No handler for type {row.type!r} was found on this host.{known.handler_hint}{broken}"
        yield Reason("no_handler", text)
    elif row.waiting_for is not None and row.waiting_for.startswith(NO_HANDLER):
        yield Reason("no_handler", f"The last runner could not run it: {row.waiting_for}.")
    if row.crashes or row.suspect:
        times = "once" if row.crashes == 1 else f"{row.crashes} times"
        suspected = f"its runner crashed and may have been running it{row.error}"
        cause = f"it crashed its runner {times}" if row.crashes else suspected
        yield Reason("suspect", f"It waits for a runner of its own: {cause}.")


def _refused(known: JobDiagnosis) -> Iterator[Reason]:
    refusal, lane = known.lane.refusal, known.row.lane
    if refusal is not None:
        text = f"The launcher {refusal.launcher} refused a runner of the lane {lane} at {_ago(refusal.at, known.now)}"
        yield Reason("refused", f"{text}: {refusal.reason.rstrip('.')}. Each cycle tries again.")


def _interrupted(known: JobDiagnosis) -> Iterator[Reason]:
    times = known.row.interruptions
    if times:
        often = "once" if times == 1 else f"{times} times"
        text = f"It was interrupted {often} by the end of a window; a new runner will start with it."
        yield Reason("interrupted", text)


def _backlog(known: JobDiagnosis) -> Iterator[Reason]:
    lane, name = known.lane, known.row.lane
    if lane.running >= lane.max_workers:
        yield Reason("cap", f"The lane {name} is at its cap: {lane.running} of {lane.max_workers} runners are alive.")
    if lane.pool and lane.pool.running >= lane.pool.cap:
        alive = f"{lane.pool.running} of {lane.pool.cap} runners are alive"
        yield Reason("cap", f"The pool {lane.pool.name} of the lane {name} is at its cap: {alive}.")
    if lane.jobs_before.number:
        yield Reason("behind", f"{lane.jobs_before.plural('due job')} of the lane {name} will be claimed before it.")
    if lane.passed_over:
        cycles = plural(lane.passed_over, "cycle")
        yield Reason("passed_over", f"The lane {name} got no runner in {cycles}: no slot was free.")


def _next(known: JobDiagnosis) -> Reason:
    if known.lane.queued and known.lane.queued == known.lane.running:
        return Reason("queued", "It is next: a runner of its lane waits in the queue of its launcher.")
    if known.lane.running:
        return Reason("next", "It is next: a live runner of its lane will claim it.")
    return Reason("next", "It is next: the next cycle will start a runner for it.")


def _expiry(known: JobDiagnosis) -> Iterator[Reason]:
    at = known.row.expires_at
    if at is not None and at > known.now:
        yield Reason("expires", f"It will be cancelled if it has not started by {moment(at)}.")


def _ago(at: datetime | None, now: datetime) -> str:
    return "-" if at is None else f"{moment(at)} ({format_duration(now - at)} ago)"
