"""One job: its timeline, its content, its parent and children, and why it waits."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from signal import Signals

from fastapi import APIRouter, Request, Response

from console.api.schemas import JobId
from console.context import ConsoleContext
from console.web.jobs import OFFERED
from console.web.page import Context, Viewer, render
from mayfly.admin.fleet import RunnerView, runners_named
from mayfly.admin.job import Family, JobView, read_family, read_job
from mayfly.db.connection import Connection
from mayfly.monitoring.redact import Redactor

router = APIRouter()

MASKED_COLUMNS = (
    "payload", "result", "progress", "checkpoint", "last_error", "cancel_reason", "waiting_for", "unique_key",
)  # fmt: skip


@router.get("/jobs/{job_id}")
async def show(request: Request, context: Context, _user: Viewer, job_id: JobId) -> Response:
    view, family, runners = await context.read(_read, context, job_id, context.now())
    verbs = OFFERED.get(view.row.status, ())
    commands = [f"mayfly {verb} {job_id}" for verb in ("show", *verbs) if verb != "delay"]
    return render(
        request, "job.html", view=masked(view, context.settings.redact), family=family, runners=runners,
        verbs=verbs, commands=commands, how_ended=how_ended,
    )  # fmt: skip


def _read(
    connection: Connection, context: ConsoleContext, job_id: int, now: datetime
) -> tuple[JobView, Family, Mapping[str, RunnerView]]:
    view = read_job(connection, job_id, context.settings, context.registry, now)
    names = [each.worker_id for each in view.attempts]
    names += [view.row.worker_id] if view.row.worker_id else []
    family = read_family(connection, job_id, view.row.parent_id, view.row.group_key)
    return view, family, runners_named(connection, names)


def masked(view: JobView, fields: Sequence[str]) -> JobView:
    redactor = Redactor(fields, view.row.payload)
    columns = {name: redactor.value(getattr(view.row, name)) for name in MASKED_COLUMNS}
    return view._replace(
        row=view.row._replace(**columns),
        attempts=tuple(each._replace(error=redactor.value(each.error)) for each in view.attempts),
        reasons=tuple(each._replace(text=redactor.value(each.text)) for each in view.reasons),
        timeline=tuple(each._replace(text=redactor.value(each.text)) for each in view.timeline),
    )


def how_ended(runner: RunnerView) -> str:
    """How the runner of a failed attempt ended; empty while it is alive."""
    if runner.finished_at is None:
        return ""
    if runner.signal:
        how = f"ended by {_signal(runner.signal)}"
    else:
        how = f"exit code {runner.exit_code}" if runner.exit_code is not None else runner.ending or ""
    return f"{how}: {runner.cause}" if runner.cause else how


def _signal(number: int) -> str:
    """SIGKILL, or the number if this system has no name for it."""
    return Signals(number).name if number in {*Signals} else f"signal {number}"
