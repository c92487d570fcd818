"""The screens, in the order in which they stand in the navigation. Whoever adds a screen adds its line here."""

from collections.abc import Sequence
from typing import NamedTuple

from console.web.accounts import ADMIN, OPERATOR, VIEWER


class Screen(NamedTuple):
    path: str
    title: str
    role: str = VIEWER  # who sees the link; the screen itself asks for its role again


SCREENS: Sequence[Screen] = (
    Screen("/", "Overview"),
    Screen("/jobs", "Jobs"),
    Screen("/dead", "Dead"),
    Screen("/lanes", "Lanes"),
    Screen("/schedules", "Schedules"),
    Screen("/cycles", "Cycles"),
    Screen("/runners", "Runners"),
    Screen("/limits", "Limits"),
    Screen("/audit", "Audit"),
    Screen("/settings", "Settings", ADMIN),
    Screen("/enqueue", "Enqueue", OPERATOR),
)
