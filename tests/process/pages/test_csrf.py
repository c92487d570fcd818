"""Requests that change something need a CSRF token, the right origin and the right role."""

from collections.abc import Callable, Mapping

import pytest

from tests.process.console.api import PASSWORD, Api
from tests.process.pages.routes import routes
from tests.process.pages.visitor import Visitor, text_of

Serving = Callable[..., Api]
FOR_ALL_ROLES = {"/logout"}


def test_forms_without_a_valid_csrf_token_are_refused(served: Api) -> None:
    """On every page; also with the token of another session."""
    visitor, other = Visitor(served.port).log_in(), Visitor(served.port).log_in()
    foreign = other.token

    for form in ({}, {"csrf": ""}, {"csrf": "guess"}, {"csrf": foreign}):
        answers = {path: visitor.ask("POST", path, form) for path in routes("POST")}
        assert {path: each.status for path, each in answers.items() if each.status != 403} == {}
    assert "was not sent by a page of this console" in text_of(answers["/logout"])
    assert visitor.ask("DELETE", "/jobs/1").status == 403
    assert visitor.get("/jobs").status == 200  # still logged in


def test_the_csrf_token_may_be_in_a_header(served: Api) -> None:
    """For scripts of the console."""
    visitor = Visitor(served.port).log_in()

    assert visitor.ask("POST", "/theme", {"theme": "dark"}, {"X-CSRF-Token": visitor.token}).status == 303
    assert visitor.cookies["mayfly_theme"] == "dark"
    assert 'data-theme="dark"' in visitor.get("/jobs").text


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "same-origin"}, 303),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "https://mayfly.example.com"}, 303),  # a proxy changed Host
        ({"Sec-Fetch-Site": "cross-site", "Origin": "http://{host}"}, 403),
        ({"Origin": "http://{host}"}, 303),  # plain HTTP in an intranet: no Sec-Fetch-Site
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({}, 303),
    ],
)
def test_requests_of_other_sites_are_refused(served: Api, headers: Mapping[str, str], status: int) -> None:
    """Even with the token; also for the login form, which has none."""
    visitor = Visitor(served.port)
    sent = {name: value.format(host=f"127.0.0.1:{visitor.port}") for name, value in headers.items()}
    login = visitor.ask("POST", "/login", {"name": "admin", "password": PASSWORD}, sent)
    visitor.log_in()

    answer = visitor.post("/theme", sent, theme="light")

    assert (login.status, answer.status) == (status, status)


def test_a_viewer_changes_nothing(served: Api) -> None:
    """The server refuses it, although the buttons are hidden too; an operator may."""
    [job_id] = served.installation.enqueue("noop")
    viewer, operator = Visitor(served.port).log_in("viewer"), Visitor(served.port).log_in("operator")
    acts = [path for path in routes("POST", job_id) if path not in FOR_ALL_ROLES]
    refused = {path: viewer.post(path, verb="cancel", id=str(job_id), kind="lane", name="x") for path in acts}

    assert {path: each.status for path, each in refused.items() if each.status != 403} == {}
    assert served.installation.statuses() == {"pending": 1}
    assert served.installation.rows("SELECT * FROM mayfly_audit WHERE done_by = 'viewer'") == []
    assert [each.get(f"/jobs/confirm?verb=cancel&id={job_id}").status for each in (viewer, operator)] == [403, 200]
    assert [('name="verb"' in each.get(f"/jobs/{job_id}").text) for each in (viewer, operator)] == [False, True]
    assert [('href="/enqueue"' in each.get("/jobs").text) for each in (viewer, operator)] == [False, True]
    assert operator.post("/jobs/act", verb="cancel", id=str(job_id)).status == 303
    assert served.installation.statuses() == {"cancelled": 1}
    [entry] = served.installation.rows("SELECT done_by, via, verb FROM mayfly_audit WHERE verb = 'cancel'")
    assert tuple(entry) == ("operator", "page", "cancel")
