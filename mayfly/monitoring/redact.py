"""Mask secrets: fields named in REDACT and their values in any text, and secret settings in printed text. Pure."""

import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from mayfly import json_text
from mayfly.settings.values import Secret, Settings, mask_password

MASK = "•••"
SHORT = 4  # characters: a shorter value is masked only as a whole word
MIN_SETTING_LENGTH = 6  # characters: masking a shorter setting would mask ordinary words


class Redactor:
    """Masks the secret values of one job's payload in all its texts."""

    def __init__(self, fields: Sequence[str], payload: Any = None) -> None:
        self.payload = payload  # None: unreadable or absent
        self._fields = frozenset(each.lower() for each in fields)
        self._patterns = [*_named(tuple(sorted(self._fields))), *map(_as_pattern, sorted(self._secrets(payload)))]

    def text(self, given: str | None) -> str | None:
        """Mask an error, a traceback or any other text."""
        if given is None:
            return None
        for pattern, shown in self._patterns:
            given = pattern.sub(shown, given)
        return given

    def value(self, given: Any) -> Any:
        """Mask the fields of a JSON value at any depth."""
        if isinstance(given, dict):
            return {key: MASK if self.is_secret(key) else self.value(each) for key, each in given.items()}
        if isinstance(given, list):
            return [self.value(each) for each in given]
        return self.text(given) if isinstance(given, str) else given

    def is_secret(self, field: str) -> bool:
        return field.lower() in self._fields

    def _secrets(self, given: Any) -> set[str]:
        """The secrets in every form that a text may contain: plain, as JSON, as Python's repr."""
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
    """The redactor of a payload that is not decoded yet."""
    try:
        return Redactor(fields, None if text is None else json_text.decode(text))
    except ValueError:  # inserted by plain SQL, or nested too deep: values after field names are still masked
        return Redactor(fields)


def first_line(fields: Sequence[str], payload_text: str | None, error: str | None) -> str:
    """The masked first line of a job's error, for logs, alerts and traces."""
    line = (error or "").partition("\n")[0]
    return for_payload(fields, payload_text).text(line) or "" if fields else line


def _spellings(leaf: Any) -> Iterator[str]:
    yield str(leaf)
    if isinstance(leaf, str):
        yield " ".join(leaf.split())  # as in the first line of an error
        yield repr(leaf)[1:-1]
        yield leaf.replace("'", "\\'")  # as in the repr() of a list or dict
        yield json.dumps(leaf)[1:-1]
        yield json.dumps(leaf, ensure_ascii=False)[1:-1]


def _as_pattern(secret: str) -> tuple[re.Pattern[str], str]:
    escaped = re.escape(secret)
    return re.compile(escaped if len(secret) >= SHORT else rf"(?<!\w){escaped}(?!\w)"), MASK


@cache
def _named(fields: tuple[str, ...]) -> Sequence[tuple[re.Pattern[str], str]]:
    """`password=x`, `'token': 'y'`, `Authorization: Bearer z`."""
    if not fields:
        return ()
    names = "|".join(map(re.escape, fields))
    value = r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|(?:bearer|basic|token)\s+[^\s,;'\"]+|[^\s,;&)}\]'\"]+"
    pattern = re.compile(rf"(?<!\w)((?:{names})\\?[\"']?\s*[:=]\s*\\?)(?:{value})", re.IGNORECASE)
    return [(pattern, rf"\g<1>{MASK}")]


# --- the output of processes ------------------------------------------------------------------------------

CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
PASSWORD_OF_URL = re.compile(r"://[^/\s]*?:([^\s]+)@")


def printed_text(text: str, settings: Settings, max_bytes: int = 500) -> str:
    """The end of what a process of another machine has printed, safe to store and to show.

    Without control characters, in valid text, and with the secrets of the settings and REDACT masked.
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    shown = "\n".join(mask_password(line) if "://" in line else line for line in lines)
    for secret in _secrets_of(settings):
        shown = shown.replace(secret, MASK)
    shown = Redactor(settings.redact).text(CONTROLS.sub("\N{REPLACEMENT CHARACTER}", shown)) or ""
    encoded = shown.encode()
    return shown if len(encoded) <= max_bytes else encoded[-max_bytes:].decode(errors="ignore")


def _secrets_of(settings: Settings) -> Iterator[str]:
    for value in vars(settings).values():
        if isinstance(value, Secret):
            text = value.get_secret_value()
            found = PASSWORD_OF_URL.search(text)
            yield from (each for each in (text, found and found[1]) if each and len(each) >= MIN_SETTING_LENGTH)
