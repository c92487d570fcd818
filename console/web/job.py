"""One job: what became of it, what it is made of, who its relatives are, and why it waits."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from signal import Signals
from typing import Any, NamedTuple

from fastapi import APIRouter, Request, Response

from console.api.schemas import JobId
from console.context import ConsoleContext
from console.web.actions import of_job
from console.web.jobs import OFFERED
from console.web.page import Context, Viewer, render
from console.web.redact import Redactor
from mayfly.admin.fleet import RunnerView, runners_named
from mayfly.admin.job import Family, JobView, TimelineEvent, read_family, read_job
from mayfly.admin.why import Reason
from mayfly.db.connection import Connection

router = APIRouter()

INSIDE = ("payload", "result", "progress", "checkpoint")


class AttemptRow(NamedTuple):
    """One attempt, as the timeline shows it."""

    number: int
    outcome: str
    began_at: datetime | None
    ended_at: datetime
    duration_ms: int | None
    worker_id: str
    runner: RunnerView | None
    how: str  # its runner ended, where that is known and not as usual
    message: str
    trace: str
    fingerprint: str


class TimelineRow(NamedTuple):
    event: TimelineEvent
    attempt: AttemptRow | None


class JobPageData(NamedTuple):
    """Everything with what is hidden masked."""

    row: Mapping[str, Any]
    timeline: Sequence[TimelineRow]
    reasons: Sequence[Reason]
    error: str | None


@router.get("/jobs/{job_id}")
async def show(request: Request, context: Context, _person: Viewer, job_id: JobId) -> Response:
    now = context.now()
    view, family, runners = await context.read(_read, context, job_id, now)
    status = view.row.status
    return render(
        request, "job.html", view=view, shown=masked(view, runners, context.settings.redact), family=family,
        runners=runners, verbs=OFFERED.get(status, ()), commands=[of_job("show", job_id), *_commands(status, job_id)],
    )  # fmt: skip


def _read(
    connection: Connection, context: ConsoleContext, job_id: int, now: datetime
) -> tuple[JobView, Family, Mapping[str, RunnerView]]:
    view = read_job(connection, job_id, context.settings, context.registry, now)
    names = [each.worker_id for each in view.attempts]
    names += [view.row.worker_id] if view.row.worker_id else []
    family = read_family(connection, job_id, view.row.parent_id, view.row.group_key)
    return view, family, runners_named(connection, names)


def masked(view: JobView, runners: Mapping[str, RunnerView], hidden: Sequence[str]) -> JobPageData:
    redactor, row = Redactor(hidden, view.row.payload), view.row._asdict()
    values = {name: redactor.value(row[name]) for name in INSIDE}
    texts = {name: redactor.text(row[name]) for name in ("cancel_reason", "waiting_for", "unique_key")}
    attempts = [_attempt_row(each, runners.get(each.worker_id), redactor) for each in view.attempts]
    timeline = [
        TimelineRow(each, None if each.position is None else attempts[each.position]) for each in view.timeline
    ]
    reasons = [each._replace(text=str(redactor.text(each.text))) for each in view.reasons]
    return JobPageData({**row, **values, **texts}, timeline, reasons, redactor.text(view.row.last_error))


def _attempt_row(given: Any, runner: RunnerView | None, redactor: Redactor) -> AttemptRow:
    message, _, trace = str(redactor.text(given.error)).partition("\n")
    took = given.duration_ms
    began = None if took is None else given.finished_at - timedelta(milliseconds=took)
    return AttemptRow(
        given.attempt, given.outcome, began, given.finished_at, took, given.worker_id, runner, how_ended(runner),
        message, trace, given.fingerprint,
    )  # fmt: skip


def how_ended(runner: RunnerView | None) -> str:
    if runner is None or runner.finished_at is None:
        return ""
    if runner.signal:
        return f"ended by {_signal(runner.signal)}"
    return f"exit code {runner.exit_code}" if runner.exit_code is not None else runner.ending or ""


def _signal(number: int) -> str:
    """SIGKILL, or its number where this system has no name for it."""
    return Signals(number).name if number in {*Signals} else f"signal {number}"


def _commands(status: str, job_id: int) -> list[str]:
    return [of_job(verb, job_id) for verb in OFFERED.get(status, ()) if verb != "delay"]
