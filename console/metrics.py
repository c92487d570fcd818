"""`/metrics`: what Prometheus scrapes."""

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse

from console.api.schemas import Here, needs
from console.problems import described
from mayfly.admin.auth import METRICS
from mayfly.monitoring.metrics import CONTENT_TYPE, render_metrics

router = APIRouter(tags=["metrics"], dependencies=[needs(METRICS)])


@router.get("/metrics", response_class=PlainTextResponse, responses=described())
async def scrape(site: Here) -> Response:
    """Figures of the whole fleet in the text format of Prometheus."""
    return Response(await site.run(render_metrics, site.database, site.settings), media_type=CONTENT_TYPE)
