"""Hostile parameters: the response is a page or an error page, and nothing is interpreted as SQL."""

from urllib.parse import quote

import pytest
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from console.web import SCREENS
from console.web.filters import PageFilter
from tests.process.console.api import Api
from tests.process.pages.routes import OPEN
from tests.process.pages.visitor import Visitor

WORDS = (
    "'\"`; DROP TABLE mayfly_jobs; -- ' OR '1'='1 %_!\\%s%(x)s{x}:x🦟",
    "a\x00b",
    "9" * 23,
    "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59-12:00",  # after the year 9999 in UTC
    "0001-01-01T00:00:00+14:00",
)
OTHERS = ("after", "before", "verb", "all", "tick", "name", "kind", "back", "period")


def names_of(dependant: Dependant) -> list[str]:
    own = [each.alias for each in dependant.query_params]
    return own + [name for each in dependant.dependencies for name in names_of(each)]


def pages_with_parameters() -> list[tuple[str, list[str]]]:
    """Every page with the names of its parameters."""
    found = []
    for screen in SCREENS:
        for route in screen.router.routes:
            if isinstance(route, APIRoute) and "GET" in (route.methods or ()) and route.path not in OPEN:
                named = names_of(route.dependant)
                takes_all = route.path.startswith(("/jobs", "/enqueue", "/dead"))
                found.append((route.path, sorted({*named, *PageFilter._fields, *OTHERS}) if takes_all else named))
    return found


@pytest.mark.every_database
def test_parameters_are_bound_never_interpolated(own_api: Api) -> None:
    """On every page, each parameter by itself; no row changes."""
    visitor = Visitor(own_api.port).log_in()
    own_api.installation.enqueue("noop", count=3)
    answers = {}
    for path, names in pages_with_parameters():
        for word in WORDS:
            here = path.replace("{job_id}", "1").replace("{task_id}", quote(word, safe=""))
            for name in names:
                answers[f"{here}?{name}={quote(word)}"] = visitor.get(f"{here}?{name}={quote(word)}").status

    assert len(answers) > 100
    assert {address: status for address, status in answers.items() if status not in (200, 303, 404, 422)} == {}
    assert own_api.installation.statuses() == {"pending": 3}
    own_api.process.terminate()
    assert "Traceback" not in own_api.process.communicate()[1]
