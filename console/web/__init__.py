"""The web console: pages for people. A file for each screen, collected here; navigation.py has the links."""

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from console.web import files, home, login

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)
for each in (files.router, login.router, home.router):
    router.include_router(each)
