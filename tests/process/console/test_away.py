"""A database server that goes away while the console serves: a clear 503, never a traceback, and it comes back."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.console.api import Answer, Api
from tests.process.console.conftest import OUTSIDE
from tests.process.installation import Installation, wait_until
from tests.servers import PrivateServer


@pytest.fixture
def api(restartable_url: str, tmp_path: Path) -> Iterator[Api]:
    made = Installation(tmp_path, restartable_url, OUTSIDE)
    yield Api(made)
    made.end()


def ask_all(api: Api) -> list[Answer]:
    """On as many connections at once as the console has."""
    answers: list[Answer] = []
    threads = [
        threading.Thread(target=lambda: answers.append(api.post("/enqueue", {"type": "noop"}))) for _ in range(12)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return answers


def test_a_server_that_goes_away_is_a_503_and_nobody_restarts_anything(
    api: Api, restartable_server: PrivateServer
) -> None:
    """Who enqueues, who waits for work and /health hear it; /livez goes on; and all is well when it is back."""
    assert {each.status for each in ask_all(api)} == {201}
    polled: list[Answer] = []
    poller = threading.Thread(target=lambda: polled.append(api.post("/pull", {"lanes": ["outside"], "wait": 20})))
    poller.start()
    restartable_server.kill()
    away = [*ask_all(api), api.ask("GET", "/api/v1/openapi.json")]
    poller.join()
    health = api.ask("GET", "/health", token=None)
    alive = api.ask("GET", "/livez", token=None).status
    restartable_server.start()
    back = [each.status for each in ask_all(api)]

    assert {each.status for each in [*away, *polled]} == {503}
    assert {each.headers["content-type"] for each in away} == {"application/problem+json"}
    assert (health.status, [each["reason"] for each in health.json["reasons"]]) == (503, ["database"])
    assert alive == 200
    assert back == [201] * 12
    wait_until(lambda: api.ask("GET", "/health", token=None).json["reasons"][0]["reason"] == "cycle", "it is seen")
    api.process.terminate()
    _out, told = api.process.communicate()
    assert "can't be reached" in told
    assert "Traceback" not in told
    secrets = api.installation.secrets
    assert not any(secret in told + away[0].text + health.text for secret in secrets)


def test_sessions_that_the_server_has_ended_are_replaced(api: Api, restartable_server: PrivateServer) -> None:
    """All of them at once, as after an idle night: nobody gets an error for it."""
    ask_all(api)
    restartable_server.restart()

    assert {each.status for each in ask_all(api)} == {201}
