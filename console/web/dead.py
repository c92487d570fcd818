"""The dead, by type and error, and how many of them died lately."""

from fastapi import APIRouter, Request, Response

from console.context import ConsoleContext
from console.web.page import Here, Viewer, now_of, render
from console.web.redact import of_payload
from mayfly import admin
from mayfly.admin import DeadGroups
from mayfly.db.connection import Connection

MAX_ROWS_READ = 2_000  # a page has a tenth of a second

router = APIRouter()


@router.get("/dead")
async def show(request: Request, site: Here, _person: Viewer, lane: str = "") -> Response:
    found = await site.look(lambda connection: _read(connection, site, lane or None))
    return render(request, "dead.html", found=found, lane=lane, windows=tuple(admin.WINDOWS))


def _read(connection: Connection, site: ConsoleContext, lane: str | None) -> DeadGroups:
    """What is hidden in the newest one's payload is hidden in the words of its group."""
    found = admin.list_dead(connection, lane, now_of(site), admin.newest, MAX_ROWS_READ)
    hidden = site.settings.redact
    payloads = admin.read_payloads(connection, [each.newest_id for each in found.groups]) if hidden else {}
    groups = [
        each._replace(message=of_payload(hidden, payloads.get(each.newest_id)).text(each.message))
        for each in found.groups
    ]
    return found._replace(groups=tuple(groups))
