"""Whatever an address says: a page or a sentence, and nothing that a database takes for its own language."""

from urllib.parse import quote

import pytest
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
)
OTHERS = ("after", "before", "verb", "all", "tick", "name", "kind", "back", "period")


def asked() -> list[tuple[str, list[str]]]:
    """Every page with the names that its address may have."""
    found = []
    for screen in SCREENS:
        for route in screen.router.routes:
            if isinstance(route, APIRoute) and "GET" in (route.methods or ()) and route.path not in OPEN:
                named = [each.alias for each in route.dependant.query_params]
                takes_all = route.path.startswith(("/jobs", "/enqueue", "/dead"))
                found.append((route.path, sorted({*named, *PageFilter._fields, *OTHERS}) if takes_all else named))
    return found


@pytest.mark.every_database
def test_no_parameter_reaches_sql_but_bound(own_console: Api) -> None:
    """On every page, each parameter by itself; the table stays as it is."""
    visitor = Visitor(own_console.port).log_in()
    own_console.installation.enqueue("noop", count=3)
    answers = {}
    for path, names in asked():
        for word in WORDS:
            here = path.replace("{job_id}", "1").replace("{errand_id}", quote(word, safe=""))
            for name in names:
                answers[f"{here}?{name}={quote(word)}"] = visitor.get(f"{here}?{name}={quote(word)}").status

    assert len(answers) > 100
    assert {address: status for address, status in answers.items() if status not in (200, 303, 404, 422)} == {}
    assert own_console.installation.statuses() == {"pending": 3}
    own_console.process.terminate()
    assert "Traceback" not in own_console.process.communicate()[1]
