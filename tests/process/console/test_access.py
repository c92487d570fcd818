"""Access to the API: tokens, scopes, the address to listen on, rate and size limits, the prefix of a proxy."""

import http.client
import json
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from mayfly.admin.auth import SCOPES
from tests.process.console.api import Api
from tests.process.installation import CHECKOUT, Installation, wait_until

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
    assert installation.run("mayfly", "token", "revoke", "unknown").returncode == 64


def test_other_addresses_than_loopback_need_tls(embedded: Installation) -> None:
    """Otherwise the console exits with code 64."""
    refused = embedded.run("console", CONSOLE_HOST="0.0.0.0")

    assert refused.returncode == 64
    assert "CONSOLE_TLS_PROXY=true" in refused.stderr


def test_any_address_is_allowed_behind_a_tls_proxy(serving: Any) -> None:
    """With CONSOLE_TLS_PROXY."""
    assert serving(CONSOLE_HOST="0.0.0.0", CONSOLE_TLS_PROXY="true").is_up


def test_an_address_in_use_is_an_error_message(served: Api) -> None:
    """Exit code 1; the running console continues."""
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


def test_each_worker_of_a_token_has_its_own_rate(serving: Any) -> None:
    """By its name, or else its address; a token without the scope `work` has one rate, whatever is sent."""
    api: Api = serving(CONSOLE_RATE="1")
    work, read = api.make_token("work", "work"), api.make_token("read", "read")

    def statuses(token: str, worker: str | None) -> list[int]:
        headers = {} if worker is None else {"Mayfly-Worker": worker}
        return [api.ask("GET", DOCUMENT, token=token, headers=headers).status for _ in range(20)]

    assert 429 in statuses(work, "one")
    assert [statuses(work, each)[0] for each in ("two", None)] == [200, 200]
    assert 429 in statuses(read, "one")
    assert statuses(read, "two")[0] == 429


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
        for _ in range(3):  # just above the limit: the server closes the connection with its answer
            connection.send(b"1000\r\n" + b" " * 4096 + b"\r\n")

        assert connection.getresponse().status == 413


def test_answers_of_the_api_are_neither_cached_nor_sniffed(served: Api) -> None:
    """Whatever the status; a proxy or browser must not keep payloads."""
    paths = (DOCUMENT, "/livez", "/health", "/metrics", "/api/v1/jobs", "/api/v1/jobs/999999", "/nowhere")

    answers = [served.ask("GET", path, token=token) for path in paths for token in ("", None)]

    assert {answer.status for answer in answers} >= {200, 401, 404}
    assert {answer.headers.get("x-content-type-options") for answer in answers} == {"nosniff"}
    assert {answer.headers.get("cache-control") for answer in answers} == {"no-store"}


def test_a_request_with_two_lengths_is_refused(served: Api) -> None:
    """Transfer-Encoding and Content-Length: a proxy may take another one than the console (request smuggling)."""
    smuggled = b"GET /livez HTTP/1.1\r\nHost: mayfly\r\n\r\n"
    head = f"POST /api/v1/enqueue HTTP/1.1\r\nHost: mayfly\r\nAuthorization: Bearer {served.token}\r\n"
    lengths = "Content-Type: application/json\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
    with closing(socket.create_connection(("127.0.0.1", served.port), timeout=20)) as connection:
        connection.sendall(f"{head}{lengths}".encode() + b"0\r\n\r\n" + smuggled)
        answer = b"".join(iter(partial(connection.recv, 65536), b"")).decode()

    assert answer.startswith("HTTP/1.1 400 ")
    assert answer.count("HTTP/1.1") == 1
    assert "Send either Content-Length or Transfer-Encoding, not both." in answer


@pytest.fixture
def many_files() -> Iterator[None]:
    """This process may open 2,000 connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_files")
@pytest.mark.parametrize("sent", ["", "GET /livez HTTP/1.1\r\nHost: mayfly\r\n", "{post}Content-Length: 9\r\n\r\n{{"])
def test_livez_answers_while_2000_connections_are_half_open(serving: Any, sent: str) -> None:
    """Those that wait longest for the rest of a request are closed; the newest are not."""
    api: Api = serving(CONSOLE_RATE="10000")
    post = f"POST /api/v1/enqueue HTTP/1.1\r\nHost: mayfly\r\nAuthorization: Bearer {api.token}\r\n"
    post += "Content-Type: application/json\r\n"
    with ExitStack() as opened:
        half_open = []
        for _ in range(2000):
            half_open.append(opened.enter_context(closing(socket.create_connection(("127.0.0.1", api.port), 60))))
            half_open[-1].sendall(sent.format(post=post).encode())

        assert half_open[0].recv(1) == b""
        assert api.ask("GET", "/livez", token=None).status == 200
        rest = (
            b"}" * 8
            if "Content-Length" in sent
            else b"GET /livez HTTP/1.1\r\nHost: mayfly\r\n\r\n"
            if not sent
            else b"\r\n"
        )
        half_open[-1].sendall(rest)
        assert half_open[-1].recv(12) == (b"HTTP/1.1 422" if "Content-Length" in sent else b"HTTP/1.1 200")


def test_a_request_that_ends_in_the_middle_is_not_acted_on(own_api: Api) -> None:
    """Even if the part that was received is valid."""
    head = f"POST /api/v1/enqueue HTTP/1.1\r\nHost: mayfly\r\nAuthorization: Bearer {own_api.token}\r\n"
    kind = "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    part = '{"type": "noop"}'
    with closing(socket.create_connection(("127.0.0.1", own_api.port), timeout=20)) as connection:
        connection.sendall(f"{head}{kind}{len(part):x}\r\n{part}\r\n".encode())
        wait_until(lambda: is_used(own_api), "the token was checked")
    assert own_api.is_up  # it has seen the end of the connection

    own_api.process.terminate()  # waits for requests in progress
    log = own_api.process.communicate()[1]

    assert own_api.installation.statuses() == {}
    assert "Traceback" not in log


def is_used(api: Api) -> bool:
    return api.installation.rows("SELECT last_used_at FROM mayfly_tokens")[0].last_used_at is not None
