"""The web console: one module per screen or group of screens. The navigation is in page.py."""

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from console.web import actions, batches, enqueue, job, jobs, lanes, lists, login, overview, schedules, static, types

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)
# actions before job: /jobs/confirm must not match /jobs/{job_id}
SCREENS = (static, login, overview, actions, jobs, job, batches, types, lanes, schedules, lists, enqueue)
for each in SCREENS:
    router.include_router(each.router)
