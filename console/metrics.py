"""`/metrics`: what Prometheus scrapes."""

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse

from console.answers import described
from console.api.access import Here, needs
from mayfly.access.scopes import METRICS
from mayfly.metrics import CONTENT_TYPE, render

router = APIRouter(tags=["metrics"], dependencies=[needs(METRICS)])


@router.get("/metrics", response_class=PlainTextResponse, responses=described())
async def scrape(site: Here) -> Response:
    """Figures of the whole fleet in the text format of Prometheus."""
    return Response(await site.run(render, site.database, site.settings), media_type=CONTENT_TYPE)
