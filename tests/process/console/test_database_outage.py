"""The database server goes away while the console serves: 503, no traceback, and recovery."""

import threading

import pytest

from tests.process.console.api import Answer, Api
from tests.process.installation import wait_until
from tests.servers import PrivateServer


def ask_all(api: Api) -> list[Answer]:
    """With more requests at once than the console has connections."""
    answers: list[Answer] = []
    threads = [
        threading.Thread(target=lambda: answers.append(api.post("/enqueue", {"type": "noop"}))) for _ in range(12)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return answers


@pytest.fixture
def api(restartable_api: Api) -> Api:
    return restartable_api


def test_the_console_recovers_from_a_database_outage(api: Api, restartable_server: PrivateServer) -> None:
    """Enqueues, long polls and /health get 503, /livez stays 200; no restart is needed afterwards."""
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
    wait_until(
        lambda: api.ask("GET", "/health", token=None).json["reasons"][0]["reason"] == "cycle",
        "it is seen",
    )
    api.process.terminate()
    _out, log = api.process.communicate()
    assert "can't be reached" in log
    assert "Traceback" not in log
    secrets = api.installation.secrets
    assert not any(secret in log + away[0].text + health.text for secret in secrets)


def test_connections_closed_by_the_server_are_replaced(api: Api, restartable_server: PrivateServer) -> None:
    """All at once, as after a night without requests; no request fails."""
    ask_all(api)
    restartable_server.restart()

    assert {each.status for each in ask_all(api)} == {201}
