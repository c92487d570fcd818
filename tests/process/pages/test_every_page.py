"""What holds for every page: headers, static files, the prefix of a proxy, error pages."""

import re
from collections.abc import Callable

import pytest

from tests.process.console.api import Api
from tests.process.installation import wait_until
from tests.process.pages.routes import routes
from tests.process.pages.visitor import Visitor, text_of
from tests.servers import PrivateServer

Serving = Callable[..., Api]
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


def test_every_response_has_the_security_headers(served: Api) -> None:
    """Pages, files, error pages and redirects."""
    visitor = Visitor(served.port)
    before = [visitor.get(each) for each in ("/login", "/jobs", "/robots.txt", "/static/x/console.css")]
    visitor.log_in()
    answers = [*before, *(visitor.get(each) for each in routes("GET"))]

    assert {each.headers["content-security-policy"] for each in answers} == {POLICY}
    assert {each.headers["x-content-type-options"] for each in answers} == {"nosniff"}
    assert {each.headers["x-frame-options"] for each in answers} == {"DENY"}
    assert {each.headers["referrer-policy"] for each in answers} == {"same-origin"}
    assert {each.headers["cache-control"] for each in answers} == {"no-store"}


def test_no_page_has_inline_scripts_or_styles(served: Api) -> None:
    """The content security policy would block them."""
    [job_id] = served.installation.enqueue("noop")
    visitor = Visitor(served.port).log_in()
    pages = {path: visitor.get(path) for path in routes("GET", job_id) if "." not in path}
    shown = {path: page.text for path, page in pages.items() if page.status != 303}

    assert len(shown) > 5
    for path, page in shown.items():
        assert not re.findall(r"<style|<script(?! src=)| style=| on\w+=|javascript:", page), path
        assert page.count("<h1") == 1, path


def test_static_files_are_cached_by_the_hash_of_their_content(served: Api) -> None:
    """Another hash is 404."""
    visitor = Visitor(served.port)
    addresses = re.findall(r'(?:href|src)="(/static/[^"]+)"', visitor.get("/login").text)

    answers = [visitor.get(each) for each in addresses]

    assert len(answers) == 3
    assert {each.status for each in answers} == {200}
    assert {each.headers["cache-control"] for each in answers} == {"public, max-age=31536000, immutable"}
    assert {each.headers["content-type"] for each in answers} == {
        "text/css; charset=utf-8", "text/javascript; charset=utf-8", "image/svg+xml"
    }  # fmt: skip
    assert visitor.get(re.sub(r"/static/\w", "/static/x", addresses[0])).status == 404
    assert visitor.get("/static/../accounts.py").status in (303, 404)


@pytest.mark.parametrize("is_removed", [False, True])
def test_every_address_has_the_prefix_of_the_proxy(serving: Serving, is_removed: bool) -> None:
    """Links, forms, files, cookies and redirects; whether or not the proxy removes the prefix."""
    api = serving(CONSOLE_PREFIX="/tools/mayfly")
    [job_id] = api.installation.enqueue("noop")
    visitor = Visitor(api.port, prefix="" if is_removed else "/tools/mayfly")
    login = visitor.get("/jobs").headers["location"]
    visitor.log_in()
    [cookie] = visitor.set_cookies
    pages = [page for path in routes("GET", job_id) if (page := visitor.get(path)).status == 200]
    addresses = [
        found for each in pages for found in re.findall(r'(?:href|src|action)="([^"#]*)', each.text) if found
    ]

    assert login == "/tools/mayfly/login?next=%2Fjobs"
    assert "path=/tools/mayfly" in cookie.lower()
    assert len(pages) > 20
    assert len(addresses) > 200
    assert [each for each in addresses if not each.startswith("/tools/mayfly/")] == []
    assert visitor.post("/jobs/act", verb="cancel", id=str(job_id)).headers["location"] == "/tools/mayfly/jobs"


def test_unknown_addresses_get_an_error_page(served: Api) -> None:
    """404 for unknown pages and jobs, 422 for an invalid id."""
    visitor = Visitor(served.port).log_in()
    nowhere, no_job, no_number = visitor.get("/nowhere"), visitor.get("/jobs/4711"), visitor.get("/jobs/x")

    assert (nowhere.status, no_job.status, no_number.status) == (404, 404, 422)
    assert {each.headers["content-type"] for each in (nowhere, no_job)} == {"text/html; charset=utf-8"}
    assert "There is no such page" in text_of(nowhere)
    assert "There is no job 4711" in text_of(no_job)


def test_a_large_form_is_refused(serving: Serving) -> None:
    """With an error page."""
    visitor = Visitor(serving(CONSOLE_BODY_LIMIT="2K").port).log_in()

    answer = visitor.post("/enqueue", type="noop", payload="x" * 3000)

    assert answer.status == 413
    assert "Content too large" in text_of(answer)


# The page does not depend on which server is down; the other one runs with --all.
@pytest.mark.parametrize(
    "module_server", ["mariadb", pytest.param("postgres", marks=pytest.mark.slow)], indirect=True
)
def test_pages_recover_from_a_database_outage(restartable_api: Api, restartable_server: PrivateServer) -> None:
    """Error pages reload themselves and name no server; sessions survive."""
    visitor = Visitor(restartable_api.port).log_in()
    before = visitor.get("/jobs").status
    restartable_server.kill()
    away = [visitor.get(each) for each in ("/jobs", "/lanes", "/dead", "/jobs/1")]
    acted = visitor.post("/lanes/workers", name="x", workers="3")
    login = Visitor(restartable_api.port).get("/login")
    restartable_server.start()
    wait_until(lambda: visitor.get("/jobs").status == 200, "the database is back")

    assert before == 200
    assert {each.status for each in [*away, acted]} == {503}
    assert {each.headers["refresh"] for each in away} == {"5"}
    assert "refresh" not in acted.headers
    assert "Database unavailable" in text_of(away[0])
    assert not any(
        secret in each.text for each in away for secret in [*restartable_api.installation.secrets, "127.0.0.1"]
    )
    assert login.status == 200
