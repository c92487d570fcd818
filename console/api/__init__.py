"""Version 1 of the HTTP API."""

from fastapi import APIRouter

from console.api import actions, enqueue, read, workers

v1 = APIRouter(prefix="/api/v1")
for each in (enqueue.router, read.router, actions.router, workers.router):
    v1.include_router(each)
