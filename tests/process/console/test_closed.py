"""Closed by default: tokens, scopes, the address it listens on, how often and how much, and the prefix of a proxy."""

import http.client
import json
import subprocess
import sys
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest

from mayfly.admin.auth import SCOPES
from tests.process.console.api import Api
from tests.process.installation import CHECKOUT, Installation

HERE = "/api/v1/openapi.json"


def operations(api: Api) -> list[tuple[str, str]]:
    paths = api.ask("GET", HERE).json["paths"]
    return [(method.upper(), path.replace("{job_id}", "1")) for path, found in paths.items() for method in found]


def test_without_a_token_nothing_but_livez_and_health_answers(served: Api) -> None:
    """401 for everything else, be it there or not."""
    asked = [*operations(served), ("GET", HERE), ("GET", "/nowhere"), ("DELETE", "/"), ("GET", "/docs")]

    answers = {f"{method} {path}": served.ask(method, path, token=None).status for method, path in asked}

    opened = {what for what, status in answers.items() if status != 401}
    assert opened == {"GET /livez", "GET /health"}
    assert len(asked) > 10


def test_a_token_counts_only_as_a_bearer_in_its_header(served: Api) -> None:
    """Least of all in an address, which every proxy writes down."""
    sent = [
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer mayfly_wrong"},
        {"Authorization": f"Basic {served.token}"},
        {"X-Token": served.token},
        {"Cookie": f"token={served.token}"},
    ]

    answers = [served.ask("GET", HERE, token=None, headers=each).status for each in sent]

    assert answers == [401] * len(sent)
    assert served.ask("GET", f"{HERE}?token={served.token}&access_token={served.token}", token=None).status == 401
    assert served.ask("GET", HERE, token=None, headers={"Authorization": f"bearer {served.token}"}).status == 200


def test_revoked_and_expired_tokens_open_nothing(api: Api) -> None:
    """From the next request on; on every database."""
    now = api.installation.now()
    old = api.make_token("old", "read", expires_at=now - timedelta(seconds=1))
    lent = api.make_token("lent", "read", expires_at=now + timedelta(hours=1))
    before = api.ask("GET", HERE, token=lent).status
    api.installation.run("mayfly", "token", "revoke", "lent")

    assert [before, *(api.ask("GET", HERE, token=each).status for each in (old, lent))] == [200, 401, 401]


def test_each_route_needs_its_scope(served: Api) -> None:
    """A token with all scopes but one is refused where that one is needed, and every scope is needed somewhere."""
    needed: dict[str, list[str]] = {}
    for scope in SCOPES:
        token = served.make_token(f"no-{scope}", *(SCOPES.keys() - {scope}))
        for method, path in operations(served):
            if served.ask(method, path, body={} if method == "POST" else None, token=token).status == 403:
                needed.setdefault(f"{method} {path}", []).append(scope)

    open_to_all = {f"{method} {path}" for method, path in operations(served)} - needed.keys()
    assert open_to_all == {"GET /livez", "GET /health"}
    assert all(len(scopes) == 1 for scopes in needed.values())
    assert {scope for [scope] in needed.values()} == SCOPES.keys()


def test_a_token_is_shown_once_and_kept_as_a_hash(installation: Installation) -> None:
    """Neither the table nor the list has it."""
    made = installation.run("mayfly", "token", "create", "shop", "--scope", "enqueue", "--scope", "read")
    text = made.stdout.strip()
    again = installation.run("mayfly", "token", "create", "shop", "--scope", "read")
    listed = installation.run("mayfly", "token", "list", "--json")

    [row] = installation.rows("SELECT * FROM mayfly_tokens")
    [facts] = json.loads(listed.stdout)
    assert (made.returncode, len(text)) == (0, 50)
    assert (again.returncode, "There is or was a token 'shop'" in again.stderr) == (64, True)
    assert (facts["name"], facts["scopes"], facts["holds"]) == ("shop", ["enqueue", "read"], True)
    assert text not in str(row) + listed.stdout
    assert installation.run("mayfly", "token", "revoke", "nobody").returncode == 64


def test_beyond_the_loopback_it_refuses_to_start_without_tls(embedded: Installation) -> None:
    """A sentence and exit code 64."""
    refused = embedded.run("console", CONSOLE_HOST="0.0.0.0")

    assert refused.returncode == 64
    assert "CONSOLE_TLS_PROXY=true" in refused.stderr


def test_behind_a_proxy_that_speaks_tls_it_may_listen_anywhere(serving: Any) -> None:
    """It was told so."""
    assert serving(CONSOLE_HOST="0.0.0.0", CONSOLE_TLS_PROXY="true").is_up


def test_an_address_that_is_taken_is_a_sentence(served: Api) -> None:
    """Exit code 1; the one that is there goes on."""
    second = served.installation.run("console", "--api-only", CONSOLE_PORT=str(served.port))

    assert second.returncode == 1
    assert f"The console cannot listen on 127.0.0.1, port {served.port}: Address already in use" in second.stderr
    assert "Traceback" not in second.stderr
    assert served.is_up


def test_a_missing_package_is_a_sentence(embedded: Installation) -> None:
    """Mayfly is installed without the console's packages unless asked."""
    script = "import sys; sys.modules['uvicorn'] = None; from console.cli import main; main()"
    ran = subprocess.run(
        [sys.executable, "-c", script], env=embedded.environment(), cwd=CHECKOUT, capture_output=True, text=True
    )

    assert ran.returncode == 64
    assert "mayfly-jobs[console]" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_who_asks_too_often_is_told_to_wait(serving: Any) -> None:
    """429 with Retry-After, for that token alone."""
    api: Api = serving(CONSOLE_RATE="1")
    answers = [api.ask("GET", HERE)]
    while answers[-1].status == 200 and len(answers) < 100:
        answers.append(api.ask("GET", HERE))
    other = api.ask("GET", HERE, token=api.make_token("other", "read"))

    assert (answers[0].status, answers[-1].status) == (200, 429)
    assert int(answers[-1].headers["retry-after"]) >= 1
    assert other.status == 200


@pytest.mark.parametrize("path", ["/mayfly/api/v1/openapi.json", "/api/v1/openapi.json"])
def test_it_works_under_the_prefix_of_a_proxy(serving: Any, path: str) -> None:
    """Whether the proxy takes it off or not; and the document names it."""
    answer = serving(CONSOLE_PREFIX="/mayfly").ask("GET", path)

    assert answer.status == 200
    assert answer.json["servers"] == [{"url": "/mayfly"}]


def test_a_body_that_does_not_say_how_long_it_is_is_not_read_for_ever(serving: Any) -> None:
    """413 as soon as it is too long."""
    api: Api = serving(CONSOLE_BODY_LIMIT="10K")
    with closing(http.client.HTTPConnection("127.0.0.1", api.port, timeout=20)) as connection:
        connection.putrequest("POST", "/api/v1/enqueue")
        connection.putheader("Authorization", f"Bearer {api.token}")
        connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()
        for _ in range(5):
            connection.send(b"1000\r\n" + b" " * 4096 + b"\r\n")

        assert connection.getresponse().status == 413
