"""The limits: each key with what is used of it, and when it opens again."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from console.site import Site
from console.web import export
from console.web.page import Here, Viewer, now_of, render, url
from mayfly.connection import Connection
from mayfly.limits.listing import Listed, list_limits, page_of_limits, used_up
from mayfly.schema import KEY_LENGTH
from mayfly.wording import storable

router = APIRouter()

SIZE, MOST_USED_UP = 100, 500
Key = Annotated[str, Query(alias="from", max_length=KEY_LENGTH)]


@router.get("/limits")
async def show(request: Request, site: Here, _person: Viewer, first: Key = "") -> Response:
    full, page, following = await site.look(lambda connection: _look(connection, site, storable(first.strip())))
    next_url = url(request, "/limits", **{"from": following}) if following else None
    first_url = url(request, "/limits") if first else None
    return render(request, "limits.html", full=full, page=page, first=first, next_url=next_url, first_url=first_url)


@router.get("/limits.json")
async def as_json(site: Here, _person: Viewer) -> Response:
    return export.as_json("limits", [each.facts() for each in await _all(site)])


@router.get("/limits.csv")
async def as_csv(site: Here, _person: Viewer) -> Response:
    return export.as_csv("limits", [each.facts() for each in await _all(site)])


def _look(connection: Connection, site: Site, first: str) -> tuple[list[Listed], list[Listed], str | None]:
    """Those that are used up are why somebody looks."""
    now = now_of(site)
    full = [] if first else used_up(connection, now, MOST_USED_UP)
    return full, *page_of_limits(connection, now, SIZE, first)


async def _all(site: Site) -> list[Listed]:
    return await site.look(lambda connection: list(list_limits(connection, now_of(site))))
