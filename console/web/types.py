"""Types: outcomes of the last hour; and a page per type with durations, waits, failures by error and last jobs."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from fastapi import APIRouter, Request, Response

from console.context import ConsoleContext
from console.web import export
from console.web.filters import PageFilter
from console.web.jobs import JobSearch
from console.web.page import Context, Viewer, render
from console.web.redact import read_redactors
from mayfly.admin.charts import TypeFailure, TypeFigures, list_type_failures, list_types, read_type
from mayfly.admin.jobs import JobLine, facts_of
from mayfly.db.connection import Connection
from mayfly.queue.outcome import storable
from mayfly.queue.pauses import Pause, load_pauses

router = APIRouter()

LAST_JOBS = 20


class TypePage(NamedTuple):
    figures: TypeFigures
    failures: Sequence[TypeFailure]
    jobs: Sequence[JobLine]
    pause: Pause | None


@router.get("/types")
async def show(request: Request, context: Context, _user: Viewer, name: str = "") -> Response:
    """All types, or one: the name is a parameter, as plain SQL may insert any type."""
    if not name:
        return render(request, "types.html", types=await context.read(_list, context))
    name = storable(name)
    page = await context.read(_read, context, name, context.now())
    return render(request, "type.html", name=name, page=page, handler=context.registry.get(name))


def _list(connection: Connection, context: ConsoleContext) -> list[TypeFigures]:
    """Types with outcomes in the last hour or with a handler."""
    found = {each.type: each for each in list_types(connection, context.now())}
    return [found.get(each) or TypeFigures(each) for each in sorted({*found, *context.registry.handlers})]


def _read(connection: Connection, context: ConsoleContext, name: str, now: datetime) -> TypePage:
    failures = list_type_failures(connection, name, now)
    redactors = read_redactors(connection, context.settings.redact, [each.newest_id for each in failures])
    masked = [each._replace(message=redactors[each.newest_id].text(each.message)) for each in failures]
    search = JobSearch(PageFilter(type=name), context.settings.redact, now)
    jobs = search.read(connection, None, LAST_JOBS).jobs
    return TypePage(read_type(connection, name, now), masked, jobs, load_pauses(connection, now).types.get(name))


async def exported(context: Context) -> list[export.Facts]:
    return [facts_of(each) for each in await context.read(_list, context)]


export.add_routes(router, "types", exported)
