"""The paths of all pages."""

import re

from fastapi.routing import APIRoute

from console.web import SCREENS

OPEN = {"/login", "/robots.txt", "/theme", "/static/{digest}/{name}"}  # without a session


def routes(method: str, number: int = 1) -> list[str]:
    """All pages that need a session; job ids are replaced by `number`."""
    found = [each for screen in SCREENS for each in screen.router.routes if isinstance(each, APIRoute)]
    assert len(found) > 10
    return [
        re.sub(r"{\w+}", str(number), each.path)
        for each in found
        if method in (each.methods or ()) and each.path not in OPEN
    ]
