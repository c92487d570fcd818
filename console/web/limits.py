"""Limits: each key, how much of it is used, and when it opens again."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from console.context import ConsoleContext
from console.web import export
from console.web.page import Context, Viewer, render, url
from mayfly.admin.lanes import LimitView, limits_page, list_limits, used_up
from mayfly.db.connection import Connection
from mayfly.queue.failure import storable
from mayfly.schema.tables import KEY_LENGTH

router = APIRouter()

PAGE_SIZE, MAX_USED_UP = 100, 500
FirstKey = Annotated[str, Query(alias="from", max_length=KEY_LENGTH)]


@router.get("/limits")
async def show(request: Request, context: Context, _user: Viewer, first: FirstKey = "") -> Response:
    full, page, following = await context.read(_read, context, storable(first.strip()))
    next_url = url(request, "/limits", **{"from": following}) if following else None
    first_url = url(request, "/limits") if first else None
    return render(request, "limits.html", full=full, page=page, first=first, next_url=next_url, first_url=first_url)


async def exported(context: Context) -> list[export.Facts]:
    return await context.read(_facts, context)


def _facts(connection: Connection, context: ConsoleContext) -> list[export.Facts]:
    return [each.facts() for each in list_limits(connection, context.now())]


def _read(
    connection: Connection, context: ConsoleContext, first: str
) -> tuple[list[LimitView], list[LimitView], str | None]:
    """The first page begins with the keys that are used up."""
    now = context.now()
    full = [] if first else used_up(connection, now, MAX_USED_UP)
    return full, *limits_page(connection, now, PAGE_SIZE, first)


export.add_routes(router, "limits", exported)
