"""What is well and what is not: pure."""

from datetime import timedelta

import pytest

from mayfly.admin.health import HealthSnapshot, find_problems

WELL = HealthSnapshot(cycle_ages={"web-1": timedelta(seconds=50)})
TARGETS = {"mail": timedelta(minutes=5)}


@pytest.mark.parametrize(
    ("vitals", "found"),
    [
        (WELL, []),
        (HealthSnapshot(), ["No cycle has run in the last day on any host: is cron at work?"]),
        (
            HealthSnapshot({**WELL.cycle_ages, "web-2": timedelta(minutes=4)}),
            ["The last cycle of host web-2 was 4 min ago: is cron at work there?"],
        ),
        (HealthSnapshot(WELL.cycle_ages, {"mail": timedelta(minutes=5)}), []),
        (
            HealthSnapshot(WELL.cycle_ages, {"mail": timedelta(minutes=6)}),
            ["A job of lane mail has waited for 6 min; the target is 5 min."],
        ),
        (HealthSnapshot(WELL.cycle_ages, deaths={"mail": 2}), []),
        (
            HealthSnapshot(WELL.cycle_ages, deaths={"mail": 2, "images": 1}),
            ["3 jobs died in the last hour: 1 in lane images, 2 in lane mail."],
        ),
    ],
)
def test_what_is_not_as_it_should_be_is_said(vitals: HealthSnapshot, found: list[str]) -> None:
    """Up to three minutes, up to the target, up to the limit: well."""
    assert [each.text for each in find_problems(vitals, TARGETS, dead_limit=2)] == found
