"""Declare limits: a maximum number of jobs at a time, or per window, for each key built from a payload."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from mayfly.errors import BadDeclaration
from mayfly.queue.outcome import storable
from mayfly.schema.tables import KEY_LENGTH

AT_ONCE = "at once"  # the span of a concurrency limit, which counts running jobs instead of starts in a window
SPANS = ("second", "minute", "hour", "day", "week", "month")
MAX_LIMIT = 1_000_000_000  # fits the column everywhere

_FIELD = re.compile(r"\{([^{}]*)\}")


class NoKey(ValueError):
    """A limit's key cannot be built from a payload."""


@dataclass(frozen=True)
class Limit:
    template: str
    most: int
    span: str = AT_ONCE
    zone: str = "UTC"  # where days, weeks and months begin

    @cached_property
    def fields(self) -> tuple[str, ...]:
        return tuple(_FIELD.findall(self.template))

    def key_for(self, payload: Mapping[str, Any]) -> str:
        """The template with the payload's values; raises NoKey with the reason."""
        values = {name: self._value(name, payload) for name in self.fields}
        key = _FIELD.sub(lambda found: values[found[1]], self.template)
        problem = key_problem(key)
        if problem is not None:
            raise NoKey(f"its limit {self.template!r} {problem}")
        return key

    def _value(self, name: str, payload: Mapping[str, Any]) -> str:
        if name not in payload:
            raise NoKey(f"its limit {self.template!r} needs the field {name!r}, which is missing")
        value = payload[name]
        if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
            raise NoKey(f"its limit {self.template!r} needs a string or an integer in the field {name!r}")
        return str(value)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        literals = _FIELD.split(self.template)[::2]
        return re.compile(".+".join(map(re.escape, literals)), re.DOTALL)

    def fits(self, key: str) -> bool:
        """Whether a payload could produce this key."""
        return self._pattern.fullmatch(key) is not None and key_problem(key) is None


class LimitKey(NamedTuple):
    """A key with its limit; a job acquires one unit of it."""

    key: str
    limit: Limit

    @property
    def row_key(self) -> tuple[str, str]:
        """The row of mayfly_limits that counts it."""
        return self.key, self.limit.span


LimitRequest = tuple[LimitKey, ...]  # all of them are acquired, or none


def concurrency(key: str, most: int) -> Limit:
    """At most `most` jobs at a time per key: concurrency("smtp:{account}", 2)."""
    return _checked(f"concurrency({key!r}, {most!r})", Limit(key, most))


def rate(key: str, most: int, *, per: str, tz: str = "UTC") -> Limit:
    """At most `most` jobs per window and key: rate("sender:{account}", 50, per="day", tz="Europe/Berlin")."""
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # slow to import, and only rates need it

    called = f"rate({key!r}, {most!r}, per={per!r})"
    if per not in SPANS:
        raise BadDeclaration(called, f"per must be one of {', '.join(SPANS)}")
    try:
        ZoneInfo(tz)
    except (ZoneInfoNotFoundError, ValueError, TypeError, OSError) as error:
        raise BadDeclaration(called, f"there is no time zone {tz!r}; write one such as 'Europe/Berlin'") from error
    return _checked(called, Limit(key, most, per, tz))


def _checked(called: str, limit: Limit) -> Limit:
    if type(limit.most) is not int or not 1 <= limit.most <= MAX_LIMIT:
        raise BadDeclaration(called, "the maximum must be an integer of 1 or more")
    if not isinstance(limit.template, str):
        raise BadDeclaration(called, "the key must be a string such as 'smtp:{account}'")
    problem = key_problem(limit.template)
    if problem is not None:
        raise BadDeclaration(called, f"the key {problem}")
    if re.search("[{}]", _FIELD.sub("", limit.template)):
        raise BadDeclaration(called, "its braces do not match; write 'smtp:{account}'")
    for name in limit.fields:
        if not name.isidentifier():
            raise BadDeclaration(called, f"{{{name}}} must be the name of a field of the payload")
    return limit


def key_problem(key: str) -> str | None:
    if not 1 <= len(key) <= KEY_LENGTH:
        return f"must have 1 to {KEY_LENGTH} characters, not {len(key)}"
    return None if storable(key) == key else "contains NUL or an unpaired surrogate"


def limit_request(limits: Iterable[Limit], payload: Mapping[str, Any]) -> LimitRequest:
    """What a job with this payload must acquire. Of limits that share a row, only the strictest counts."""
    if not isinstance(payload, Mapping):
        raise NoKey("it is not a JSON object")
    return strictest(LimitKey(each.key_for(payload), each) for each in limits)


def strictest(keys: Iterable[LimitKey]) -> LimitRequest:
    found: dict[tuple[str, str], LimitKey] = {}
    for each in keys:
        known = found.get(each.row_key)
        if known is None or each.limit.most < known.limit.most:
            found[each.row_key] = each
    return tuple(found.values())
