"""The web console: one module per screen. The navigation is in page.py."""

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from console.web import (
    actions,
    audit,
    cycles,
    dead,
    enqueue,
    job,
    jobs,
    lanes,
    limits,
    login,
    overview,
    runners,
    schedules,
    settings,
    static,
)

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)
# actions before job: the path /jobs/confirm must not be read as the id of a job
SCREENS = (
    static, login, overview, actions, jobs, job, dead, lanes, schedules, cycles, runners, limits, audit, settings,
    enqueue,
)  # fmt: skip
for each in SCREENS:
    router.include_router(each.router)
