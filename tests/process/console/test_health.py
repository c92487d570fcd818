"""GET /livez and GET /health over real HTTP, on every database: well, and each reason why not."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from mayfly.clock import milliseconds
from mayfly.fleet.cycles import open_cycle
from tests.process.console.api import Api
from tests.process.console.shared import Consoles
from tests.process.installation import Installation, wait_until
from tests.shelf import Shelf

SETTINGS = {"LANES__MAIL__LATENCY_TARGET": "5m", "LANES__SLOW__LATENCY_TARGET": "3h", "HANDLERS": "handlers"}


def serve(installation: Installation) -> Api:
    installation.settings = SETTINGS
    return Api(installation)


@pytest.fixture(scope="module")
def consoles(shelf: Shelf, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consoles]:
    with Consoles(shelf, tmp_path_factory, serve) as opened:
        yield opened


@pytest.fixture
def api(engine_name: str, consoles: Consoles) -> Api:
    """What it has found is kept for a second: that of the last test is over."""
    found = consoles.like_new(engine_name)
    wait_until(lambda: reasons(found) == ["cycle"], "it has looked again")
    return found


def health(api: Api) -> tuple[int, Any]:
    answer = api.ask("GET", "/health", token=None)
    return answer.status, answer.json


def reasons(api: Api) -> list[str]:
    return [each["reason"] for each in health(api)[1]["reasons"]]


def ago(api: Api, minutes: float) -> datetime:
    return api.installation.now() - timedelta(minutes=minutes)


def test_where_cron_never_ran_nothing_is_well(api: Api) -> None:
    """503: nothing that is enqueued would ever be run."""
    status, found = health(api)

    assert (status, found["status"], [each["reason"] for each in found["reasons"]]) == (503, "ill", ["cycle"])


def test_after_a_cycle_all_is_well(api: Api) -> None:
    """200, with the age of the last cycle of this host."""
    api.installation.dispatch()

    wait_until(lambda: health(api)[0] == 200, "it is seen")
    status, found = health(api)
    assert (status, found["reasons"]) == (200, [])
    assert [age for age in found["cycles"].values() if 0 <= age < 60]


def test_a_host_on_which_cron_is_silent_is_told(api: Api) -> None:
    """By name, though another host is well; one that was taken out of service a day ago is not."""
    api.installation.dispatch()
    for host, minutes in {"web-1": 7, "web-0": 3000}.items():
        at = ago(api, minutes)
        cycle_id = milliseconds(at)
        api.installation.database.run(lambda c, at=at, id=cycle_id, host=host: open_cycle(c, id, host, at))  # type: ignore[misc]

    told = "The last cycle of host web-1 was 7 min ago: is cron at work there?"
    wait_until(lambda: [each["text"] for each in health(api)[1]["reasons"]] == [told], "one is missed")


def test_a_wait_beyond_its_lanes_target_is_told(api: Api) -> None:
    """Only of the lane that has passed its own; a paused lane waits because it shall."""
    api.installation.dispatch()
    for lane in ("mail", "slow", "none"):
        api.installation.enqueue("noop", lane=lane, run_at=ago(api, 20))

    wait_until(lambda: reasons(api) == ["wait"], "the wait is seen")
    waits = health(api)[1]["waits"]
    api.installation.run("mayfly", "pause", "lane", "mail")

    assert set(waits) == {"mail", "slow"}
    assert 1190 < waits["mail"] < 1300
    wait_until(lambda: reasons(api) == [], "it shall wait")


def test_deaths_of_the_last_hour_are_told(api: Api) -> None:
    """From the totals, not from the table."""
    api.installation.enqueue("fail", max_attempts=1)
    api.installation.dispatch()

    wait_until(lambda: reasons(api) == ["dead"], "the death is seen")
    assert health(api)[1]["dead"] == {"default": 1}


def test_livez_asks_nobody(api: Api) -> None:
    """200 with nothing but the process."""
    assert api.ask("GET", "/livez", token=None).json == {"status": "alive"}
