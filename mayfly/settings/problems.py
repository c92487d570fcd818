"""Say what is wrong with settings: as people wrote them, what is allowed, and never a secret. Pure."""

import json
from collections.abc import Callable, Iterator, Mapping

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from mayfly.settings.files import Given
from mayfly.settings.names import ACCOUNTS, Key, is_secret, variable_of
from mayfly.settings.sources import DEFAULT
from mayfly.settings.values import NAME_RULE, mask_password

CONFLICTS = "conflicts"  # pydantic's name for an error that carries Conflicts

_LONGEST_SHOWN = 60
_SINGULAR = {"lanes": "a lane", "pools": "a pool", ACCOUNTS: "an account"}


def empty_value(key: Key, given: Given, allowed: Callable[[Key], str]) -> str:
    wanted = "the path of a file" if given.from_file else allowed(key)
    return f"{given.spelled}= ({given.source}): is empty; give {wanted}, or unset it"


def sentences(error: ValidationError, given: Mapping[Key, Given], allowed: Callable[[Key], str]) -> Iterator[str]:
    for detail in error.errors(include_url=False, include_input=False):
        if detail["type"] == CONFLICTS:
            for conflict in detail["ctx"]["conflicts"]:
                said = " and ".join(_said(key, given, value) for key, value in conflict.values.items())
                yield f"{said}: {conflict.rule}"
        elif detail["loc"][-1] == "[key]":
            yield _wrong_name(detail, given)
        else:
            key = _key_of(detail)
            clause = str(detail.get("ctx", {}).get("error", "")) or f"must be {allowed(key)}"
            yield f"{_said(key, given)}: {clause}"


def shown(value: object) -> str:
    """What was given, on one line, short, and without what could be a password."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = mask_password(value if isinstance(value, str) else json.dumps(value, default=str))
    text = text if text.isprintable() else ascii(text)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def _said(key: Key, given: Mapping[Key, Given], default: object = None) -> str:
    told = given.get(key) or Given(variable_of(key), default, DEFAULT)
    value = "" if is_secret(key) or told.value is None else f"={shown(told.value)}"
    return f"{told.spelled}{value} ({told.source})"


def _wrong_name(detail: ErrorDetails, given: Mapping[Key, Given]) -> str:
    kind, name = str(detail["loc"][0]), str(detail["loc"][1])
    told = next(told for key, told in given.items() if key[:2] == (kind, name))
    return f"{told.spelled} ({told.source}): the name of {_SINGULAR[kind]} must be {NAME_RULE}"


def _key_of(detail: ErrorDetails) -> Key:
    # Pydantic's path goes on into the value: ("handlers", 0).
    depth = {"lanes": 3, "pools": 2, ACCOUNTS: 3}.get(str(detail["loc"][0]), 1)
    return tuple(str(part) for part in detail["loc"][:depth])
