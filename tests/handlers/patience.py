"""How many payloads hypothesis tries: a few by default, many in the complete run. A busy machine makes none wrong."""

from collections.abc import Callable
from typing import TypeVar

from hypothesis import HealthCheck, settings

USUAL, FULL = "handlers, usual", "handlers, full"
settings.register_profile(
    USUAL,
    deadline=None,
    max_examples=10,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.register_profile(FULL, settings.get_profile(USUAL), max_examples=100)

Test = TypeVar("Test", bound=Callable[..., None])
_chosen = USUAL


def choose_profile(name: str) -> None:
    """Before the modules of tests are imported. Not as hypothesis' default, which holds for all other tests."""
    global _chosen
    _chosen = name


def patient(test: Test) -> Test:
    return settings(settings.get_profile(_chosen))(test)
