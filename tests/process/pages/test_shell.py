"""What every page has: its headers, its files, its address behind a proxy, and its words when something is wrong."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.process.console.api import Api
from tests.process.installation import Installation, wait_until
from tests.process.pages.routes import routes
from tests.process.pages.visitor import Visitor, serve, text_of
from tests.servers import PrivateServer

Serving = Callable[..., Api]
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


def test_every_answer_has_the_headers_that_protect_it(served: Api) -> None:
    """Pages, files, refusals and redirects."""
    visitor = Visitor(served.port)
    before = [visitor.get(each) for each in ("/login", "/jobs", "/robots.txt", "/static/x/console.css")]
    visitor.log_in()
    answers = [*before, *(visitor.get(each) for each in routes("GET"))]

    assert {each.headers["content-security-policy"] for each in answers} == {POLICY}
    assert {each.headers["x-content-type-options"] for each in answers} == {"nosniff"}
    assert {each.headers["x-frame-options"] for each in answers} == {"DENY"}
    assert {each.headers["referrer-policy"] for each in answers} == {"same-origin"}
    assert {each.headers["cache-control"] for each in answers} == {"no-store"}


def test_no_page_has_code_or_style_in_it(served: Api) -> None:
    """What the policy forbids would not work."""
    [job_id] = served.installation.enqueue("noop")
    visitor = Visitor(served.port).log_in()
    pages = {path: visitor.get(path) for path in routes("GET", job_id) if "." not in path}
    shown = {path: page.text for path, page in pages.items() if page.status != 303}

    assert len(shown) > 5
    for path, page in shown.items():
        assert not re.findall(r"<style|<script(?! src=)| style=| on\w+=|javascript:", page), path
        assert page.count("<h1") == 1, path


def test_files_are_kept_for_ever_under_the_hash_of_their_content(served: Api) -> None:
    """One with another hash is not there."""
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


@pytest.mark.parametrize("is_taken_off", [False, True])
def test_it_works_under_a_prefix(serving: Serving, is_taken_off: bool) -> None:
    """Whether or not the proxy takes it off: every link, form, file, cookie and redirect has it."""
    api = serving(CONSOLE_PREFIX="/tools/mayfly")
    [job_id] = api.installation.enqueue("noop")
    visitor = Visitor(api.port, prefix="" if is_taken_off else "/tools/mayfly")
    login = visitor.get("/jobs").headers["location"]
    visitor.log_in()
    [cookie] = visitor.set_cookies
    pages = [visitor.get(each) for each in ("/jobs", f"/jobs/{job_id}", "/lanes", "/dead", "/enqueue?type=noop")]
    addresses = [
        found for each in pages for found in re.findall(r'(?:href|src|action)="([^"#]*)', each.text) if found
    ]

    assert login == "/tools/mayfly/login?next=%2Fjobs"
    assert "path=/tools/mayfly" in cookie.lower()
    assert {each.status for each in pages} == {200}
    assert len(addresses) > 50
    assert [each for each in addresses if not each.startswith("/tools/mayfly/")] == []
    assert visitor.post("/jobs/act", verb="cancel", id=str(job_id)).headers["location"] == "/tools/mayfly/jobs"


def test_what_is_not_there_is_a_page_that_says_so(served: Api) -> None:
    """For people; a mistake in an address too."""
    visitor = Visitor(served.port).log_in()
    nowhere, no_job, no_number = visitor.get("/nowhere"), visitor.get("/jobs/4711"), visitor.get("/jobs/x")

    assert (nowhere.status, no_job.status, no_number.status) == (404, 404, 422)
    assert {each.headers["content-type"] for each in (nowhere, no_job)} == {"text/html; charset=utf-8"}
    assert "There is no such page" in text_of(nowhere)
    assert "There is no job 4711" in text_of(no_job)


def test_a_large_form_is_refused(serving: Serving) -> None:
    """As a page."""
    visitor = Visitor(serving(CONSOLE_BODY_LIMIT="2K").port).log_in()

    answer = visitor.post("/enqueue", type="noop", payload="x" * 3000)

    assert answer.status == 413
    assert "That is too large" in text_of(answer)


@pytest.fixture
def fragile(restartable_url: str, tmp_path: Path) -> Iterator[Api]:
    made = Installation(tmp_path, restartable_url)
    yield serve(made)
    made.end()


# The page does not depend on which server is down; the other one runs with --all.
@pytest.mark.parametrize(
    "module_server", ["mariadb", pytest.param("postgres", marks=pytest.mark.slow)], indirect=True
)
def test_a_database_that_goes_away_is_a_calm_notice(fragile: Api, restartable_server: PrivateServer) -> None:
    """That looks again by itself, keeps whoever is logged in, and names no server; then all is as before."""
    visitor = Visitor(fragile.port).log_in()
    before = visitor.get("/jobs").status
    restartable_server.kill()
    away = [visitor.get(each) for each in ("/jobs", "/lanes", "/dead", "/jobs/1")]
    acted = visitor.post("/lanes/workers", name="x", workers="3")
    login = Visitor(fragile.port).get("/login")
    restartable_server.start()
    wait_until(lambda: visitor.get("/jobs").status == 200, "it is back")

    assert before == 200
    assert {each.status for each in [*away, acted]} == {503}
    assert {each.headers["refresh"] for each in away} == {"5"}
    assert "refresh" not in acted.headers
    assert "The database is away" in text_of(away[0])
    assert not any(secret in each.text for each in away for secret in [*fragile.installation.secrets, "127.0.0.1"])
    assert login.status == 200
