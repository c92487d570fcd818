"""The number of examples of a property: few by default, all of them with --databases=all."""

from hypothesis import HealthCheck, settings

FULL = 100
USUAL = 20


def use_profile(full: bool) -> None:
    """Call it before any test module is imported: settings of a test inherit the profile in use at that time.

    There is no deadline and no health check: on a busy machine an example can take ten times as long.
    """
    unhurried = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
    settings.register_profile("full", max_examples=FULL, deadline=None, suppress_health_check=unhurried)
    settings.register_profile("usual", settings.get_profile("full"), max_examples=USUAL)
    settings.load_profile("full" if full else "usual")


def in_full(number: int) -> settings:
    """This many examples in a full run, and a proportional number by default."""
    return settings(max_examples=max(1, number * settings().max_examples // FULL))
