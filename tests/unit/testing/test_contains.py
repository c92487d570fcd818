"""What a payload must have at least."""

from typing import Any
from unittest.mock import ANY

import pytest

from mayfly.testing.assertions import contains

PAYLOAD = {"to": "ann", "tags": ["a", {"b": 1, "c": 2}], "address": {"city": "Ulm", "zip": None}}


@pytest.mark.parametrize(
    "expected",
    [
        {},
        {"to": "ann"},
        {"to": ANY},
        {"address": {"city": "Ulm"}},
        {"address": {"zip": None}},
        {"tags": ["a", {"b": 1}]},
        {"tags": ("a", ANY)},
        PAYLOAD,
    ],
)
def test_what_is_there_is_found(expected: dict[str, Any]) -> None:
    """Fields that are not asked for do not matter, at any depth."""
    assert contains(PAYLOAD, expected)


@pytest.mark.parametrize(
    "expected",
    [
        {"to": "bob"},
        {"from": ANY},
        {"from": None},
        {"address": {"street": None}},
        {"address": "Ulm"},
        {"tags": ["a"]},
        {"tags": [{"b": 1}, "a"]},
        {"to": {"ann": 1}},
    ],
)
def test_what_is_not_there_is_missed(expected: dict[str, Any]) -> None:
    """Lists have all their elements; a field that is missing is not null."""
    assert not contains(PAYLOAD, expected)
