"""What changes something must come from a page of ours, and from somebody who may."""

from collections.abc import Callable, Mapping

import pytest

from tests.process.console.api import Api
from tests.process.pages.routes import routes
from tests.process.pages.visitor import PASSWORD, Visitor, text_of

Serving = Callable[..., Api]
FOR_ALL = {"/logout"}  # of those that change something


def test_nothing_is_changed_without_the_token(served: Api) -> None:
    """On any page, with a session or not; nor with that of another session."""
    visitor, other = Visitor(served.port).log_in(), Visitor(served.port).log_in()
    foreign = other.token

    for form in ({}, {"csrf": ""}, {"csrf": "guess"}, {"csrf": foreign}):
        answers = {path: visitor.ask("POST", path, form) for path in routes("POST")}
        assert {path: each.status for path, each in answers.items() if each.status != 403} == {}
    assert "was not sent from a page of this console" in text_of(answers["/logout"])
    assert visitor.ask("DELETE", "/jobs/1").status == 403
    assert visitor.get("/jobs").status == 200  # still logged in


def test_a_token_in_a_header_counts_too(served: Api) -> None:
    """For a script of ours."""
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
def test_what_comes_from_another_site_is_refused(served: Api, headers: Mapping[str, str], status: int) -> None:
    """Even with the token, and for the login, which has none yet."""
    visitor = Visitor(served.port)
    sent = {name: value.format(host=f"127.0.0.1:{visitor.port}") for name, value in headers.items()}
    login = visitor.ask("POST", "/login", {"name": "admin", "password": PASSWORD}, sent)
    visitor.log_in()

    answer = visitor.post("/theme", sent, theme="light")

    assert (login.status, answer.status) == (status, status)


def test_a_viewer_changes_nothing(served: Api) -> None:
    """The server refuses what the page does not even show; an operator may."""
    [job_id] = served.installation.enqueue("noop")
    viewer, operator = Visitor(served.port).log_in("viewer"), Visitor(served.port).log_in("operator")
    acts = [path for path in routes("POST", job_id) if path not in FOR_ALL]
    refused = {path: viewer.post(path, verb="cancel", id=str(job_id), kind="lane", name="x") for path in acts}

    assert {path: each.status for path, each in refused.items() if each.status != 403} == {}
    assert served.installation.statuses() == {"pending": 1}
    assert served.installation.rows("SELECT * FROM mayfly_audit WHERE done_by = 'viewer'") == []
    assert [each.get(f"/jobs/confirm?verb=cancel&id={job_id}").status for each in (viewer, operator)] == [403, 200]
    assert [('name="verb"' in each.get(f"/jobs/{job_id}").text) for each in (viewer, operator)] == [False, True]
    assert [('href="/enqueue"' in each.get("/jobs").text) for each in (viewer, operator)] == [False, True]
    assert operator.post("/jobs/act", verb="cancel", id=str(job_id)).status == 303
    assert served.installation.statuses() == {"cancelled": 1}
    [deed] = served.installation.rows("SELECT done_by, via, verb FROM mayfly_audit WHERE verb = 'cancel'")
    assert tuple(deed) == ("operator", "page", "cancel")
