"""Partial matches of payloads."""

from typing import Any
from unittest.mock import ANY

import pytest

from mayfly.testing.database import contains

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
def test_a_part_of_the_payload_matches(expected: dict[str, Any]) -> None:
    """Other fields do not matter, at any depth."""
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
def test_other_values_do_not_match(expected: dict[str, Any]) -> None:
    """Lists must have all their elements, and a missing field is not null."""
    assert not contains(PAYLOAD, expected)
