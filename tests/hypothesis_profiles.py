"""How many examples a property is tried with: few in a usual run, all of them with --databases=all."""

from hypothesis import HealthCheck, settings

FULL = 100
USUAL = 20


def use_profile(full: bool) -> None:
    """Call it before any test module is imported: a test's settings begin with the profile in use at that time.

    There is no deadline and no check of the speed: on a busy machine an example may take ten times as long.
    """
    unhurried = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
    settings.register_profile("full", max_examples=FULL, deadline=None, suppress_health_check=unhurried)
    settings.register_profile("usual", settings.get_profile("full"), max_examples=USUAL)
    settings.load_profile("full" if full else "usual")


def in_full(number: int) -> settings:
    """This many examples in a full run, and as large a share of them in a usual one as of the others."""
    return settings(max_examples=max(1, number * settings().max_examples // FULL))
