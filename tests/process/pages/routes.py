"""Every page that there is, by its path."""

import re

from fastapi.routing import APIRoute

from console.web import SCREENS

OPEN = {"/login", "/robots.txt", "/theme", "/static/{mark}/{name}"}  # without a session


def routes(method: str, number: int = 1) -> list[str]:
    """All but those that are open, of the job with that number."""
    found = [each for screen in SCREENS for each in screen.router.routes if isinstance(each, APIRoute)]
    assert len(found) > 10
    return [
        re.sub(r"{\w+}", str(number), each.path)
        for each in found
        if method in (each.methods or ()) and each.path not in OPEN
    ]
