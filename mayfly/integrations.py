"""Which handlers cannot do their work here, because a setting of what they talk to is missing."""

from collections.abc import Iterable, Iterator, Mapping

from mayfly.finding import Finding, Health
from mayfly.registry import Handler
from mayfly.settings.integrations import find_integration

WHAT = "integrations"


def missing_settings(handlers: Mapping[str, Handler]) -> dict[str, tuple[str, ...]]:
    """By type, for those alone that miss something. Looked up once a runner: it lives for less than a minute."""
    found = {name: find_integration(name) for name in required_names(handlers.values())}
    missing = {type_name: tuple(each for each in known.requires if found[each] is None)
               for type_name, known in handlers.items() if known.requires}  # fmt: skip
    return {type_name: names for type_name, names in missing.items() if names}


def required_names(handlers: Iterable[Handler]) -> list[str]:
    return sorted({name for each in handlers for name in each.requires})


def examine_integrations(handlers: Mapping[str, Handler]) -> Iterator[Finding]:
    """One that is off is somebody's decision, not a problem; but who wonders should find it here."""
    if not required_names(handlers.values()):
        return
    missing = missing_settings(handlers)
    off = sorted({name for names in missing.values() for name in names})
    for name in off:
        types = ", ".join(sorted(each for each, names in missing.items() if name in names))
        yield Finding(WHAT, Health.OK, f"off: {name} is not set: jobs of {types} are cancelled.")
    if not off:
        yield Finding(WHAT, Health.OK, "all are configured: " + ", ".join(required_names(handlers.values())))
