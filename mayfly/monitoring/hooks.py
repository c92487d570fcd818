"""Find the functions that HOOKS_BEFORE, HOOKS_AFTER and HOOKS_ON_DEAD name, or say what is wrong with the name."""

import importlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from mayfly.errors import HookUnusable
from mayfly.settings import Settings

BEFORE, AFTER, ON_DEAD = "HOOKS_BEFORE", "HOOKS_AFTER", "HOOKS_ON_DEAD"
HOOK_ARGUMENTS = {BEFORE: ("job",), AFTER: ("job", "outcome"), ON_DEAD: ("job", "outcome")}


@dataclass(frozen=True)
class Hook:
    name: str  # module:function
    function: Callable[..., Any]


def hooks_named_in(settings: Settings, variable: str) -> tuple[str, ...]:
    return {BEFORE: settings.hooks_before, AFTER: settings.hooks_after, ON_DEAD: settings.hooks_on_dead}[variable]


def find_hooks(settings: Settings, *variables: str) -> Iterator[tuple[str, Hook | HookUnusable]]:
    """All that these settings name. Handlers are loaded first: until then MAYFLY_HOME is no place to import from."""
    for variable in variables:
        for name in hooks_named_in(settings, variable):
            try:
                yield variable, find_hook(variable, name)
            except HookUnusable as error:
                yield variable, error


def find_hook(variable: str, name: str) -> Hook:
    module_name, _, function_name = name.partition(":")
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # foreign code, as handlers are
        reason = f"{module_name} cannot be imported: {type(error).__name__}: {error}"
        raise HookUnusable(variable, name, reason) from error
    function = getattr(module, function_name, None)
    if not callable(function):
        hint = _hint(module, function_name)
        raise HookUnusable(variable, name, f"{module_name} has no function {function_name!r}{hint}")
    if inspect.iscoroutinefunction(function):
        raise HookUnusable(variable, name, "it is an `async def`, and hooks are plain functions")
    if not _takes(function, HOOK_ARGUMENTS[variable]):
        raise HookUnusable(variable, name, f"it must take ({', '.join(HOOK_ARGUMENTS[variable])})")
    return Hook(name, function)


def _takes(function: Callable[..., Any], arguments: tuple[str, ...]) -> bool:
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError:
        return False
    except ValueError:  # written in C, and says nothing
        return True
    return True


def _hint(module: object, name: str) -> str:
    from difflib import get_close_matches  # here because no runner that goes well needs it

    functions = [each for each, found in vars(module).items() if callable(found)]
    nearest = get_close_matches(name, functions, n=1)
    return f" (did you mean {nearest[0]!r}?)" if nearest else ""
