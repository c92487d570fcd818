"""The benchmark of the pages: none is forgotten."""

from fastapi.routing import APIRoute

from console.web import SCREENS
from scripts.benchmark.lines.pages import addresses

FILES = (".json", ".csv", "/robots.txt", "/static/{mark}/{name}")
WITHOUT_A_TABLE = {"/login", "/errands/{errand_id}"}


def test_every_page_is_measured() -> None:
    """Whoever adds a screen adds its address there."""
    routes = [each for screen in SCREENS for each in screen.router.routes if isinstance(each, APIRoute)]
    pages = {each.path for each in routes if "GET" in (each.methods or ()) and not each.path.endswith(FILES)}
    measured = {each.partition("?")[0] for each in addresses(2).values()}

    assert {each.replace("{job_id}", "1") for each in pages - WITHOUT_A_TABLE} == measured
