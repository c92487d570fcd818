"""JSON as text, the only format in which payloads, results and checkpoints are stored. Never pickle, never eval."""

import json
import re
from itertools import accumulate
from typing import Any

MAX_DEPTH = 31  # levels of objects and lists: the limit of MariaDB
ENVELOPE_DEPTH = 3  # levels of an HTTP request around a payload: its own object, a list of jobs, a job

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_BRACKET = re.compile(r"[\[\]{}]")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


def encode(value: object) -> str:
    """Compact JSON that every database accepts, readable in SQL: only control characters are escaped."""
    text = _ENCODER.encode(value)
    if _depth(text) > MAX_DEPTH:
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels")
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError("text with an unpaired surrogate") from error
    return text


def decode(text: str) -> Any:
    """Raises ValueError for invalid text, also if it is nested too deep for Python."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deep to be read") from error


def decode_bounded(text: str) -> Any:
    """The same for untrusted text, which is refused before it is parsed if it is nested too deep."""
    if _depth(text) > MAX_DEPTH + ENVELOPE_DEPTH:
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels")
    return decode(text)


def decode_first(text: str) -> tuple[Any, int]:
    """The value at the start of a text, and the position where it ends."""
    try:
        return json.JSONDecoder().raw_decode(text)
    except RecursionError as error:
        raise ValueError("nested too deep to be read") from error


def _depth(text: str) -> int:
    """How deep brackets are nested. If there are few, their number is a sufficient upper bound."""
    brackets = text.count("{") + text.count("[")
    if brackets <= MAX_DEPTH:
        return brackets
    steps = (1 if each in "{[" else -1 for each in _BRACKET.findall(_STRING.sub("", text)))
    return max(accumulate(steps), default=0)
