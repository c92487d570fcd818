"""Which lanes share runners, and in which order they wait."""

from pathlib import Path

import pytest

from dispatcher.waiting_lanes import in_order, shared_lanes, shared_settings
from mayfly.fleet.plan import LaneCount, LaneRules, Plan, Slots, plan_runners
from mayfly.settings import Settings, load


def settings_with(**variables: str) -> Settings:
    return load({"MAYFLY_HOME": "/", **variables}).settings


def counted(settings: Settings, *lanes: str, passed_over: dict[str, int] | None = None) -> list[LaneCount]:
    return [
        LaneCount(
            LaneRules(lane, 5, 5, rank=settings.lane(lane).rank, pool=settings.lane(lane).pool),
            pending=5,
            passed_over=(passed_over or {}).get(lane, 0),
        )
        for lane in lanes
    ]


def waiting(settings: Settings, plan: Plan) -> list[str]:
    return in_order(settings, plan.waiting)


def test_lanes_with_equal_settings_share_runners() -> None:
    """Their names do not matter."""
    settings = settings_with(LANES__MAIL__RANK="1", LANES__SMS__RANK="1", LANES__FAX__RANK="2")

    assert shared_settings(settings, "a") == shared_settings(settings, "b") is not None
    assert shared_settings(settings, "mail") == shared_settings(settings, "sms") is not None
    assert len({shared_settings(settings, lane) for lane in ("a", "mail", "fax")}) == 3


@pytest.mark.parametrize(
    ("name", "value"),
    [("MAX_WORKERS", "2"), ("BATCH_SIZE", "9"), ("WORKER_TIMEOUT", "20"), ("LINGER", "5"), ("WORKER_MEMORY", "1GB")],
)
def test_a_lane_with_any_other_setting_shares_none_of_them(name: str, value: str) -> None:
    """The runner was started with the settings of its first lane."""
    settings = settings_with(**{f"LANES__OWN__{name}": value})

    assert shared_settings(settings, "own") != shared_settings(settings, "a")


def test_a_long_lane_has_runners_of_its_own() -> None:
    """They may outlive their dispatcher."""
    settings = settings_with(LANES__REPORTS__WORKER_TIMEOUT="600")

    assert shared_settings(settings, "reports") is None


def test_a_lane_of_a_launcher_has_runners_of_its_own(tmp_path: Path) -> None:
    """They are on other machines, which have no list of waiting lanes."""
    (tmp_path / "mayfly.toml").write_text('[launchers.slurm]\n[lanes.import]\nlauncher = "slurm"\n')
    settings = load({"MAYFLY_HOME": str(tmp_path)}).settings

    assert shared_settings(settings, "import") is None


def test_lanes_wait_in_the_order_of_rank_and_waiting_time() -> None:
    """As they would get slots of their own."""
    settings = settings_with(LANES__LATE__RANK="3", LANES__URGENT__RANK="1")
    counts = counted(settings, "first", "late", "old", "urgent", "young", passed_over={"first": 9, "old": 2})

    plan = plan_runners(counts, {}, Slots(1))

    assert [each.count.lane.name for each in plan.lanes if each.planned] == ["first"]
    assert waiting(settings, plan) == ["old", "young", "urgent", "late"]


def test_lanes_with_the_same_settings_wait_together() -> None:
    """So that a runner can continue; the first lane decides which settings come first."""
    settings = settings_with(LANES__B__MAX_WORKERS="2", LANES__D__MAX_WORKERS="2")

    plan = plan_runners(counted(settings, "0", "a", "b", "c", "d", "e"), {}, Slots(1))

    *first, fourth, fifth = waiting(settings, plan)
    assert (set(first), {fourth, fifth}) == ({"a", "c", "e"}, {"b", "d"})


def test_lanes_of_a_full_pool_wait_last() -> None:
    """A free slot of the host does not help them."""
    pooled = {f"LANES__{lane}__POOL": "api" for lane in ("A", "B")}
    settings = settings_with(POOLS__API="1", **pooled)

    plan = plan_runners(counted(settings, "a", "b", "c", "d"), {"api": 1}, Slots(2))

    assert waiting(settings, plan) == ["d", "b"]


def test_only_lanes_with_the_settings_of_a_runner_are_shared() -> None:
    """The others wait for a runner of their own."""
    settings = settings_with(LANES__OWN__MAX_WORKERS="2")

    plan = plan_runners(counted(settings, "a", "b", "c", "own"), {}, Slots(2))

    assert shared_lanes(settings, plan) == 1


def test_a_thousand_lanes_are_planned() -> None:
    """Each waits once, whatever the number of slots."""
    settings = settings_with()
    lanes = [f"customer-{number:04}" for number in range(1000)]

    plan = plan_runners(counted(settings, *lanes), {}, Slots(32))

    assert plan.runners == 32
    assert sorted(waiting(settings, plan)) == lanes[32:]
