"""The hooks' part of `mayfly doctor`: names in the settings that lead nowhere."""

from collections.abc import Iterator

from mayfly.errors import HookUnusable
from mayfly.finding import Finding, Health
from mayfly.hooks.find import AFTER, BEFORE, ON_DEAD, find_all
from mayfly.settings import Settings


def examine_hooks(settings: Settings) -> Iterator[Finding]:
    """Nothing at all where there are none. After the handlers, which say what is wrong with their own modules."""
    for variable, found in find_all(settings, BEFORE, AFTER, ON_DEAD):
        if isinstance(found, HookUnusable):
            yield Finding("hooks", Health.PROBLEM, str(found))
        else:
            yield Finding("hooks", Health.OK, f"{variable}={found.name}")
