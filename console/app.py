"""The application: what is open to all, the API, and the web console beside it."""

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, FastAPI

from console import answers, health, metrics, web
from console.api import v1
from console.site import Site
from console.web import page
from mayfly import __version__

ROUTERS: Sequence[APIRouter] = (health.router, metrics.router, v1)
DESCRIPTION = "Enqueue, see, steer and pull jobs. docs/http-api.md says the same in more words."


class Application(FastAPI):
    def openapi(self) -> dict[str, Any]:
        """With the shape of what went wrong, which FastAPI knows of no route."""
        document = super().openapi()
        document["components"]["schemas"] |= answers.schemas()
        return document


def make_app(site: Site, api_only: bool = False) -> FastAPI:
    app = Application(
        title="Mayfly",
        version=__version__,
        description=DESCRIPTION,
        openapi_url="/api/v1/openapi.json",
        docs_url=None,  # its page would load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.site = site
    app.state.checkup = health.Checkup(site.settings, site.log)
    for each in ROUTERS if api_only else (*ROUTERS, web.router):
        app.include_router(each)
    answers.install(app, None if api_only else page.refusal)
    return app
