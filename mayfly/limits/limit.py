"""What a handler may use only so much of: declared beside it, with a key that its payload fills."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from mayfly.errors import BadDeclaration
from mayfly.queue.failure import storable
from mayfly.schema.tables import KEY_LENGTH

AT_ONCE = "at once"  # the span of a limit that counts what runs, not what began in a window
SPANS = ("second", "minute", "hour", "day", "week", "month")
MAX_LIMIT = 1_000_000_000  # fits the column everywhere

_FIELD = re.compile(r"\{([^{}]*)\}")


class NoKey(ValueError):
    """A payload from which a limit's key cannot be made, and why."""


@dataclass(frozen=True)
class Limit:
    template: str
    most: int
    span: str = AT_ONCE
    zone: str = "UTC"  # in which days, weeks and months begin

    @cached_property
    def fields(self) -> tuple[str, ...]:
        return tuple(_FIELD.findall(self.template))

    def key_for(self, payload: Mapping[str, Any]) -> str:
        """The template with the payload's values in it, or the reason why there is no such key."""
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
            raise NoKey(f"its limit {self.template!r} needs a text or a whole number in the field {name!r}")
        return str(value)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        literals = _FIELD.split(self.template)[::2]
        return re.compile(".+".join(map(re.escape, literals)), re.DOTALL)

    def fits(self, key: str) -> bool:
        """Whether some payload would give this key."""
        return self._pattern.fullmatch(key) is not None and key_problem(key) is None


class LimitKey(NamedTuple):
    """One unit of one limit's key."""

    key: str
    limit: Limit

    @property
    def place(self) -> tuple[str, str]:
        """Which row counts it."""
        return self.key, self.limit.span


LimitRequest = tuple[LimitKey, ...]  # all of them, or none


def concurrency(key: str, most: int) -> Limit:
    """At most so many jobs at a time for each key: concurrency("smtp:{account}", 2)."""
    return _checked(f"concurrency({key!r}, {most!r})", Limit(key, most))


def rate(key: str, most: int, *, per: str, tz: str = "UTC") -> Limit:
    """At most so many in each window for each key: rate("sender:{account}", 50, per="day", tz="Europe/Berlin")."""
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # whoever declares no rate need not load it

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
        raise BadDeclaration(called, "how many must be a whole number of 1 or more")
    if not isinstance(limit.template, str):
        raise BadDeclaration(called, "the key must be a text such as 'smtp:{account}'")
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
    return None if storable(key) == key else "has characters that no database holds"


def limit_request(limits: Iterable[Limit], payload: Mapping[str, Any]) -> LimitRequest:
    """What a job with this payload needs to start. What counts in the same row counts once, at its strictest."""
    if not isinstance(payload, Mapping):
        raise NoKey("it is no JSON object")
    return strictest(LimitKey(each.key_for(payload), each) for each in limits)


def strictest(needs: Iterable[LimitKey]) -> LimitRequest:
    found: dict[tuple[str, str], LimitKey] = {}
    for need in needs:
        known = found.get(need.place)
        if known is None or need.limit.most < known.limit.most:
            found[need.place] = need
    return tuple(found.values())
