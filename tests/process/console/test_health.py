"""GET /livez and GET /health: ok, and each kind of problem."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from mayfly.clock import milliseconds
from mayfly.fleet.cycles import open_cycle
from tests.process.console.api import Api, Serve
from tests.process.installation import Installation, wait_until

SETTINGS = {
    "LANES__MAIL__LATENCY_TARGET": "5m",
    "LANES__SLOW__LATENCY_TARGET": "3h",
    "HANDLERS": "tests.basic_handlers",
}


def serve_with_targets(installation: Installation, **settings: str) -> Api:
    installation.settings = SETTINGS
    return Api(installation, settings)


@pytest.fixture
def serve() -> Serve:
    return serve_with_targets


@pytest.fixture
def api(api: Api) -> Api:
    """The response is cached for a second: wait until that of the last test is gone."""
    wait_until(lambda: reasons(api) == ["cycle"], "the cache has expired")
    return api


def health(api: Api) -> tuple[int, Any]:
    answer = api.ask("GET", "/health", token=None)
    return answer.status, answer.json


def reasons(api: Api) -> list[str]:
    return [each["reason"] for each in health(api)[1]["reasons"]]


def warnings(api: Api) -> list[str]:
    return [each["reason"] for each in health(api)[1]["warnings"]]


def ago(api: Api, minutes: float) -> datetime:
    return api.installation.now() - timedelta(minutes=minutes)


def test_an_installation_without_cycles_is_unhealthy(api: Api) -> None:
    """503: no job would ever run."""
    status, found = health(api)

    assert (status, found["status"], [each["reason"] for each in found["reasons"]]) == (503, "degraded", ["cycle"])


def test_an_installation_is_healthy_after_a_cycle(api: Api) -> None:
    """200, with the age of the last cycle of this host."""
    api.installation.dispatch()

    wait_until(lambda: health(api)[0] == 200, "the cycle is seen")
    status, found = health(api)
    assert (status, found["reasons"]) == (200, [])
    assert [age for age in found["cycles"].values() if 0 <= age < 60]


def test_a_host_without_recent_cycles_is_a_problem(api: Api) -> None:
    """Named, although another host is healthy; one without cycles for a day is ignored."""
    api.installation.dispatch()
    for host, minutes in {"web-1": 7, "web-0": 3000}.items():
        at = ago(api, minutes)
        cycle_id = milliseconds(at)
        api.installation.database.run(lambda c, at=at, id=cycle_id, host=host: open_cycle(c, id, host, at))  # type: ignore[misc]

    problem = "The last cycle of host web-1 began 7 min ago: is cron running there?"
    wait_until(lambda: [each["text"] for each in health(api)[1]["reasons"]] == [problem], "the host is reported")


def test_a_wait_over_the_latency_target_is_a_problem(api: Api) -> None:
    """Of that lane only; paused lanes are ignored."""
    api.installation.dispatch()
    for lane in ("mail", "slow", "none"):
        api.installation.enqueue("noop", lane=lane, run_at=ago(api, 20))

    wait_until(lambda: reasons(api) == ["wait"], "the wait is seen")
    waits = health(api)[1]["waits"]
    api.installation.run("mayfly", "pause", "lane", "mail")

    assert set(waits) == {"mail", "slow"}
    assert 1190 < waits["mail"] < 1300
    wait_until(lambda: reasons(api) == [], "the paused lane is ignored")


def test_deaths_in_the_last_hour_are_a_warning(api: Api) -> None:
    """200 and ok, until the job is retried."""
    [job_id] = api.installation.enqueue("fail", max_attempts=1)
    api.installation.dispatch()

    wait_until(lambda: warnings(api) == ["dead"], "the death is seen")
    status, found = health(api)
    api.installation.run("mayfly", "retry", str(job_id))

    assert (status, found["status"], found["reasons"], found["dead"]) == (200, "ok", [], {"default": 1})
    wait_until(lambda: warnings(api) == [], "the retry is seen")
    assert health(api)[1]["dead"] == {}


def test_livez_needs_no_database(api: Api) -> None:
    """200 as long as the process responds."""
    assert api.ask("GET", "/livez", token=None).json == {"status": "alive"}


def test_health_and_status_agree(api: Api) -> None:
    """A warning is 200 here and exit code 0 there, a problem 503 and 1, with the same sentences."""
    api.installation.enqueue("fail", count=3, max_attempts=1)
    api.installation.dispatch()
    wait_until(lambda: warnings(api) == ["dead"], "the deaths are seen")
    warned, first = health(api), api.installation.run("mayfly", "status")
    api.installation.enqueue("noop", lane="mail", run_at=ago(api, 20))
    wait_until(lambda: reasons(api) == ["wait"], "the wait is seen")
    late, second = health(api), api.installation.run("mayfly", "status")

    assert (warned[0], warned[1]["status"], first.returncode) == (200, "ok", 0)
    assert (late[0], late[1]["status"], second.returncode) == (503, "degraded", 1)
    assert warned[1]["warnings"][0]["text"] in first.stdout
    for each in (*late[1]["reasons"], *late[1]["warnings"]):
        assert each["text"] in second.stdout
