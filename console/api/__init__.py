"""Version 1 of the HTTP API: a file for each kind of thing that is asked."""

from fastapi import APIRouter

from console.api import enqueueing, holding, looks, operating, work

v1 = APIRouter(prefix="/api/v1")
for each in (enqueueing.router, looks.router, operating.router, holding.router, work.router):
    v1.include_router(each)
