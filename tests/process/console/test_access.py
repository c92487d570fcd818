"""Access to the API: tokens, scopes, the address to listen on, rate and size limits, the prefix of a proxy."""

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

DOCUMENT = "/api/v1/openapi.json"


def operations(api: Api) -> list[tuple[str, str]]:
    paths = api.ask("GET", DOCUMENT).json["paths"]
    return [(method.upper(), path.replace("{job_id}", "1")) for path, found in paths.items() for method in found]


def test_only_livez_and_health_are_open_without_a_token(served: Api) -> None:
    """401 for everything else, even for unknown paths."""
    requests = [*operations(served), ("GET", DOCUMENT), ("GET", "/nowhere"), ("DELETE", "/"), ("GET", "/docs")]

    answers = {f"{method} {path}": served.ask(method, path, token=None).status for method, path in requests}

    opened = {what for what, status in answers.items() if status != 401}
    assert opened == {"GET /livez", "GET /health"}
    assert len(requests) > 10


def test_a_token_is_accepted_only_as_bearer_header(served: Api) -> None:
    """Never in an address, which proxies log."""
    sent = [
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer mayfly_wrong"},
        {"Authorization": f"Basic {served.token}"},
        {"X-Token": served.token},
        {"Cookie": f"token={served.token}"},
    ]

    answers = [served.ask("GET", DOCUMENT, token=None, headers=each).status for each in sent]

    assert answers == [401] * len(sent)
    assert served.ask("GET", f"{DOCUMENT}?token={served.token}&access_token={served.token}", token=None).status == 401
    assert served.ask("GET", DOCUMENT, token=None, headers={"Authorization": f"bearer {served.token}"}).status == 200


def test_revoked_and_expired_tokens_are_refused(api: Api) -> None:
    """From the next request on."""
    now = api.installation.now()
    old = api.make_token("old", "read", expires_at=now - timedelta(seconds=1))
    lent = api.make_token("lent", "read", expires_at=now + timedelta(hours=1))
    before = api.ask("GET", DOCUMENT, token=lent).status
    api.installation.run("mayfly", "token", "revoke", "lent")

    assert [before, *(api.ask("GET", DOCUMENT, token=each).status for each in (old, lent))] == [200, 401, 401]


def test_each_route_needs_its_scope(served: Api) -> None:
    """A token without it gets 403, and every scope is needed by some route."""
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


def test_only_the_hash_of_a_token_is_stored(installation: Installation) -> None:
    """Its text is printed once, and is neither in the table nor in the list."""
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


def test_other_addresses_than_loopback_need_tls(embedded: Installation) -> None:
    """Otherwise the console exits with code 64."""
    refused = embedded.run("console", CONSOLE_HOST="0.0.0.0")

    assert refused.returncode == 64
    assert "CONSOLE_TLS_PROXY=true" in refused.stderr


def test_any_address_is_allowed_behind_a_tls_proxy(serving: Any) -> None:
    """With CONSOLE_TLS_PROXY."""
    assert serving(CONSOLE_HOST="0.0.0.0", CONSOLE_TLS_PROXY="true").is_up


def test_an_address_in_use_is_an_error_message(served: Api) -> None:
    """Exit code 1; the running console goes on."""
    second = served.installation.run("console", "--api-only", CONSOLE_PORT=str(served.port))

    assert second.returncode == 1
    assert f"The console cannot listen on 127.0.0.1, port {served.port}: Address already in use" in second.stderr
    assert "Traceback" not in second.stderr
    assert served.is_up


def test_a_missing_package_is_an_error_message(embedded: Installation) -> None:
    """Which names the extra to install."""
    script = "import sys; sys.modules['uvicorn'] = None; from console.__main__ import main; main()"
    ran = subprocess.run(
        [sys.executable, "-c", script], env=embedded.environment(), cwd=CHECKOUT, capture_output=True, text=True
    )

    assert ran.returncode == 64
    assert "mayfly-jobs[console]" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_too_many_requests_are_refused(serving: Any) -> None:
    """429 with Retry-After, for that token alone."""
    api: Api = serving(CONSOLE_RATE="1")
    answers = [api.ask("GET", DOCUMENT)]
    while answers[-1].status == 200 and len(answers) < 100:
        answers.append(api.ask("GET", DOCUMENT))
    other = api.ask("GET", DOCUMENT, token=api.make_token("other", "read"))

    assert (answers[0].status, answers[-1].status) == (200, 429)
    assert int(answers[-1].headers["retry-after"]) >= 1
    assert other.status == 200


@pytest.mark.parametrize("path", ["/mayfly/api/v1/openapi.json", "/api/v1/openapi.json"])
def test_the_api_works_under_the_prefix_of_a_proxy(serving: Any, path: str) -> None:
    """Whether or not the proxy removes it; the OpenAPI document names it."""
    answer = serving(CONSOLE_PREFIX="/mayfly").ask("GET", path)

    assert answer.status == 200
    assert answer.json["servers"] == [{"url": "/mayfly"}]


def test_a_body_without_a_length_is_read_up_to_the_limit(serving: Any) -> None:
    """Then it is 413."""
    api: Api = serving(CONSOLE_BODY_LIMIT="10K")
    with closing(http.client.HTTPConnection("127.0.0.1", api.port, timeout=20)) as connection:
        connection.putrequest("POST", "/api/v1/enqueue")
        connection.putheader("Authorization", f"Bearer {api.token}")
        connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()
        for _ in range(5):
            connection.send(b"1000\r\n" + b" " * 4096 + b"\r\n")

        assert connection.getresponse().status == 413
