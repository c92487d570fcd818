"""JSON as text, the only form in which payloads, results and checkpoints are kept. Never pickle, never eval."""

import json
import re
from itertools import accumulate
from typing import Any

MAX_DEPTH = 31  # levels of objects and lists: MariaDB takes no JSON that is nested deeper
ENVELOPE_DEPTH = 3  # levels that a request may have around a payload: its own object, a list of jobs, a job

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_BRACKET = re.compile(r"[\[\]{}]")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


def encode(value: object) -> str:
    """Compact JSON that every database takes, and that stays readable in SQL: only control characters are escaped."""
    text = _ENCODER.encode(value)
    if _depth(text) > MAX_DEPTH:
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels")
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError("text with half a character in it, a lone surrogate") from error
    return text


def decode(text: str) -> Any:
    """Whatever cannot be read is a ValueError, also what is nested too deep for Python."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deep to be read") from error


def decode_bounded(text: str) -> Any:
    """The same for what comes from outside, of which nothing is even begun that is nested too deep."""
    if _depth(text) > MAX_DEPTH + ENVELOPE_DEPTH:
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels")
    return decode(text)


def decode_first(text: str) -> tuple[Any, int]:
    """The value that a text begins with, and where it ends."""
    try:
        return json.JSONDecoder().raw_decode(text)
    except RecursionError as error:
        raise ValueError("nested too deep to be read") from error


def _depth(text: str) -> int:
    """How deep brackets are nested; as long as there are few of them at all, they are not looked at closely."""
    brackets = text.count("{") + text.count("[")
    if brackets <= MAX_DEPTH:
        return brackets
    steps = (1 if each in "{[" else -1 for each in _BRACKET.findall(_STRING.sub("", text)))
    return max(accumulate(steps), default=0)
