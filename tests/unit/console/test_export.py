"""Lists exported as CSV and JSON."""

import csv
import io
import json
from typing import Any

import pytest

from console.web.export import as_csv, as_json


def read(body: bytes | memoryview) -> list[list[str]]:
    return list(csv.reader(io.StringIO(bytes(body).decode())))


def test_csv_has_one_column_per_key_of_any_row() -> None:
    """A gap has other keys than a cycle; lists and objects are written as JSON."""
    facts: list[dict[str, Any]] = [{"host": "a", "took": 7}, {"host": "b", "missed": [1, 2]}]

    assert read(as_csv("cycles", facts).body) == [
        ["host", "took", "missed"],
        ["a", "7", ""],
        ["b", "", "[1, 2]"],
    ]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_no_cell_is_a_formula(text: str) -> None:
    """A spreadsheet would run it; negative numbers stay numbers."""
    assert read(as_csv("jobs", [{"error": text, "number": -1}]).body)[1] == [f"'{text}", "-1"]


def test_json_is_not_escaped_to_ascii() -> None:
    """Letters with accents stay readable."""
    answer = as_json("audit", [{"reason": "größer"}])

    assert json.loads(bytes(answer.body)) == [{"reason": "größer"}]
    assert "größer".encode() in bytes(answer.body)
    assert answer.headers["content-disposition"] == 'attachment; filename="audit.json"'


def test_an_empty_list_is_a_valid_file() -> None:
    """CSV without rows, JSON without elements."""
    assert read(as_csv("jobs", []).body) == [[]]
    assert bytes(as_json("jobs", []).body) == b"[]"
