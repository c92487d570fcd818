"""The web console: pages for people. A file for each screen, collected here; navigation.py has the links."""

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
# acting before job: /jobs/confirm is no job's number
SCREENS = (
    static, login, overview, actions, jobs, job, dead, lanes, schedules, cycles, runners, limits, audit, settings,
    enqueue,
)  # fmt: skip
for each in SCREENS:
    router.include_router(each.router)
