"""The settings of a lane that the plan uses."""

from typing import Any

import pytest

from mayfly.fleet.cycles import KnownLane
from mayfly.fleet.plan import LaneRules, lane_rules
from mayfly.queue.pauses import Pause
from mayfly.settings import Settings, load
from tests.factories import NOON

LANE = {"BATCH_SIZE": "7", "MAX_WORKERS": "9", "MIN_WORKERS": "2", "RANK": "3", "POOL": "email"}


@pytest.fixture
def settings() -> Settings:
    return load({f"LANES__MAIL__{name}": value for name, value in LANE.items()} | {"POOLS__EMAIL": "4"}).settings


def test_a_lane_has_the_rules_of_its_settings(settings: Settings) -> None:
    """Batch size, runners, rank and pool."""
    assert lane_rules(settings, "mail", KnownLane()) == LaneRules(
        "mail", batch_size=7, max_workers=9, min_workers=2, rank=3, pool="email"
    )


def test_a_maximum_set_by_an_operator_overrides_the_settings(settings: Settings) -> None:
    """The cut names the operator."""
    rules = lane_rules(settings, "mail", KnownLane(max_workers=3, set_by="ann"))

    assert (rules.max_workers, rules.cap) == (3, "max_workers 3 set by ann")


@pytest.mark.parametrize(
    ("name", "changed"), [("mail", {"paused": "paused: the vendor is down"}), ("other", {"external": True})]
)
def test_a_lane_may_be_paused_or_external(name: str, changed: dict[str, Any]) -> None:
    """Then it gets no runners."""
    settings = load({"LANES__OTHER__EXTERNAL": "true"}).settings
    pause = Pause("lane", "mail", NOON, reason="the vendor is down") if "paused" in changed else None

    rules = lane_rules(settings, name, KnownLane(), pause)

    assert {key: getattr(rules, key) for key in changed} == changed
