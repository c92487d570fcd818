"""Mask secrets: payload fields named in REDACT, and their values wherever else they appear. Pure."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from mayfly import json_text

MASK = "•••"
SHORT = 4  # characters: a shorter value is masked only as a whole word


class Redactor:
    """For one job: it masks the secret values of its payload in all texts."""

    def __init__(self, fields: Sequence[str], payload: Any = None) -> None:
        self._fields = frozenset(each.lower() for each in fields)
        self._patterns = [*_named(sorted(self._fields)), *map(_as_pattern, sorted(self._secrets(payload)))]

    def text(self, given: str | None) -> str | None:
        """For an error, a traceback or any other text."""
        if given is None:
            return None
        for pattern, shown in self._patterns:
            given = pattern.sub(shown, given)
        return given

    def value(self, given: Any) -> Any:
        """For a JSON value: the fields are masked at any depth."""
        if isinstance(given, dict):
            return {key: MASK if self.is_secret(key) else self.value(each) for key, each in given.items()}
        if isinstance(given, list):
            return [self.value(each) for each in given]
        return self.text(given) if isinstance(given, str) else given

    def is_secret(self, field: str) -> bool:
        return field.lower() in self._fields

    def _secrets(self, given: Any) -> set[str]:
        """In every form in which a text may contain them: plain, as JSON, as Python's repr."""
        found = {text for leaf in self._leaves(given, inside=False) for text in _spellings(leaf)}
        return {each for each in found if each}

    def _leaves(self, given: Any, inside: bool) -> Iterator[Any]:
        if isinstance(given, dict):
            for key, each in given.items():
                yield from self._leaves(each, inside or self.is_secret(key))
        elif isinstance(given, list):
            for each in given:
                yield from self._leaves(each, inside)
        elif inside and given is not None and not isinstance(given, bool):
            yield given


def for_payload(fields: Sequence[str], text: str | None) -> Redactor:
    """For a payload that is not decoded yet."""
    try:
        return Redactor(fields, None if text is None else json_text.decode(text))
    except ValueError:  # inserted by plain SQL, nested too deep: values behind the names of fields are still masked
        return Redactor(fields)


def _spellings(leaf: Any) -> Iterator[str]:
    yield str(leaf)
    if isinstance(leaf, str):
        yield repr(leaf)[1:-1]
        yield leaf.replace("'", "\\'")  # as repr() of a list or dict has it
        yield json.dumps(leaf)[1:-1]
        yield json.dumps(leaf, ensure_ascii=False)[1:-1]


def _as_pattern(secret: str) -> tuple[re.Pattern[str], str]:
    escaped = re.escape(secret)
    return re.compile(escaped if len(secret) >= SHORT else rf"(?<!\w){escaped}(?!\w)"), MASK


def _named(fields: Sequence[str]) -> Iterator[tuple[re.Pattern[str], str]]:
    """`password=x`, `'token': 'y'`, `Authorization: Bearer z`."""
    if fields:
        names = "|".join(map(re.escape, fields))
        value = r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|(?:bearer|basic|token)\s+[^\s,;'\"]+|[^\s,;&)}\]'\"]+"
        yield re.compile(rf"(?<!\w)((?:{names})\\?[\"']?\s*[:=]\s*\\?)(?:{value})", re.IGNORECASE), rf"\g<1>{MASK}"
