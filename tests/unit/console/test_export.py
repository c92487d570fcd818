"""Lists as files."""

import csv
import io
import json
from typing import Any

import pytest

from console.web.export import as_csv, as_json


def read(body: bytes | memoryview) -> list[list[str]]:
    return list(csv.reader(io.StringIO(bytes(body).decode())))


def test_a_row_has_a_cell_for_each_key_of_any_of_them() -> None:
    """A gap has other facts than a cycle; what is a list or an object in JSON is JSON in its cell."""
    facts: list[dict[str, Any]] = [{"host": "a", "took": 7}, {"host": "b", "missed": [1, 2]}]

    assert read(as_csv("cycles", facts).body) == [
        ["host", "took", "missed"],
        ["a", "7", ""],
        ["b", "", "[1, 2]"],
    ]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_no_text_is_a_formula(text: str) -> None:
    """A spreadsheet would run it; a number below zero stays one."""
    assert read(as_csv("jobs", [{"error": text, "number": -1}]).body)[1] == [f"'{text}", "-1"]


def test_json_is_told_as_it_is() -> None:
    """With letters that others escape."""
    answer = as_json("audit", [{"reason": "größer"}])

    assert json.loads(bytes(answer.body)) == [{"reason": "größer"}]
    assert "größer".encode() in bytes(answer.body)
    assert answer.headers["content-disposition"] == 'attachment; filename="audit.json"'


def test_an_empty_list_is_a_file_too() -> None:
    """Of nothing."""
    assert read(as_csv("jobs", []).body) == [[]]
    assert bytes(as_json("jobs", []).body) == b"[]"
