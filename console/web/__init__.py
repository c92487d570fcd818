"""The web console: pages for people. A file for each screen, collected here; navigation.py has the links."""

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from console.web import acting, dead, enqueueing, files, home, job, jobs, lanes, login

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)
# acting before job: /jobs/confirm is no job's number
SCREENS = (files, login, home, acting, jobs, job, dead, lanes, enqueueing)
for each in SCREENS:
    router.include_router(each.router)
