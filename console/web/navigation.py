"""The screens, in the order in which they stand in the navigation. Whoever adds a screen adds its line here."""

from collections.abc import Sequence
from typing import NamedTuple

from console.web.accounts import OPERATOR, VIEWER


class Screen(NamedTuple):
    path: str
    title: str
    role: str = VIEWER  # who sees the link; the screen itself asks for its role again


SCREENS: Sequence[Screen] = (
    Screen("/jobs", "Jobs"),
    Screen("/dead", "Dead"),
    Screen("/lanes", "Lanes"),
    Screen("/enqueue", "Enqueue", OPERATOR),
)
