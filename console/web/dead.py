"""Dead jobs, grouped by type and error."""

from fastapi import APIRouter, Request, Response

from console.context import ConsoleContext
from console.web.page import Context, Viewer, render
from console.web.redact import for_payload
from mayfly.admin.filters import read_payloads
from mayfly.admin.jobs import WINDOWS, DeadGroups, list_dead, newest
from mayfly.db.connection import Connection

MAX_ROWS_READ = 2_000  # so that the page answers within 100 ms

router = APIRouter()


@router.get("/dead")
async def show(request: Request, context: Context, _user: Viewer, lane: str = "") -> Response:
    dead = await context.read(_read, context, lane or None)
    return render(request, "dead.html", dead=dead, lane=lane, windows=list(WINDOWS))


def _read(connection: Connection, context: ConsoleContext, lane: str | None) -> DeadGroups:
    """Secrets in the payload of a group's newest job are masked in the group's error message."""
    found = list_dead(connection, lane, context.now(), newest, MAX_ROWS_READ)
    fields = context.settings.redact
    payloads = read_payloads(connection, [each.newest_id for each in found.groups]) if fields else {}
    groups = [
        each._replace(message=for_payload(fields, payloads.get(each.newest_id)).text(each.message))
        for each in found.groups
    ]
    return found._replace(groups=tuple(groups))
