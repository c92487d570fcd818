"""The limits: each key with what is used of it, and when it opens again."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from console.context import ConsoleContext
from console.web import export
from console.web.page import Here, Viewer, now_of, render, url
from mayfly.admin.limits import LimitView, limits_page, list_limits, used_up
from mayfly.db.connection import Connection
from mayfly.queue.failure import storable
from mayfly.schema.tables import KEY_LENGTH

router = APIRouter()

SIZE, MOST_USED_UP = 100, 500
Key = Annotated[str, Query(alias="from", max_length=KEY_LENGTH)]


@router.get("/limits")
async def show(request: Request, site: Here, _person: Viewer, first: Key = "") -> Response:
    full, page, following = await site.look(lambda connection: _read(connection, site, storable(first.strip())))
    next_url = url(request, "/limits", **{"from": following}) if following else None
    first_url = url(request, "/limits") if first else None
    return render(request, "limits.html", full=full, page=page, first=first, next_url=next_url, first_url=first_url)


@router.get("/limits.json")
async def as_json(site: Here, _person: Viewer) -> Response:
    return export.as_json("limits", [each.facts() for each in await _all(site)])


@router.get("/limits.csv")
async def as_csv(site: Here, _person: Viewer) -> Response:
    return export.as_csv("limits", [each.facts() for each in await _all(site)])


def _read(
    connection: Connection, site: ConsoleContext, first: str
) -> tuple[list[LimitView], list[LimitView], str | None]:
    """Those that are used up are why somebody looks."""
    now = now_of(site)
    full = [] if first else used_up(connection, now, MOST_USED_UP)
    return full, *limits_page(connection, now, SIZE, first)


async def _all(site: ConsoleContext) -> list[LimitView]:
    return await site.look(lambda connection: list(list_limits(connection, now_of(site))))
