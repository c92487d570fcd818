"""What is looked for inside of jobs: a text anywhere, or a field of a payload. No index knows of either."""

import json
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from mayfly import jsontext
from mayfly.connection import Connection
from mayfly.errors import BadField
from mayfly.schema import JobTable
from mayfly.wording import storable


def pattern(text: str) -> str:
    """For LIKE: what stands for other letters stands for itself."""
    return f"%{_literal('text', text)}%"


def field_pattern(name: str, value: str) -> str:
    """What every payload with the field has; some others have it too."""
    _literal("value", value)
    return f'%"{_literal("field", name)}"%{_literal("value", _as_in_json(value))}%'


def has_field(payload: str | None, name: str, value: str) -> bool:
    """Whether a field of this name, at any depth, has this value as people write it, in whatever case. Pure."""
    if payload is None:
        return False
    try:
        found = _fields(jsontext.decode(payload), name.lower())
        return any(_written(each).lower() == value.lower() for each in found)
    except ValueError:  # nested too deep for Python: came by plain SQL
        return False


def read_payloads(connection: Connection, jobs: JobTable, ids: Sequence[int]) -> dict[int, str]:
    """By the id of each, as JSON."""
    if not ids:
        return {}
    rows = connection.execute(payloads_statement(jobs), ids=ids).all()
    return {job_id: payload if isinstance(payload, str) else json.dumps(payload) for job_id, payload in rows}


@cache
def payloads_statement(jobs: JobTable) -> str:
    return f"SELECT {jobs.c.id}, {jobs.c.payload} FROM {jobs.table} WHERE {{ids of {jobs.c.id}}}"


def _fields(value: Any, name: str) -> Iterator[Any]:
    inner: Sequence[Any] = ()
    if isinstance(value, dict):
        yield from (each for key, each in value.items() if key.lower() == name)
        inner = list(value.values())
    elif isinstance(value, list):
        inner = value
    for each in inner:
        yield from _fields(each, name)


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _as_in_json(text: str) -> str:
    """Its longest word that needs no escape: quotes and other alphabets are written in several ways."""
    plain = [
        part for part in text.split() if part.isascii() and part.isprintable() and not {*part} & {'"', "\\", "/"}
    ]
    return max(plain, key=len, default="")


def _literal(name: str, text: str) -> str:
    if not isinstance(text, str) or (not text and name != "value") or storable(text) != text:
        raise BadField(name, text, "a text that every database can hold")
    for each in "!%_":
        text = text.replace(each, f"!{each}")
    return text.lower()
