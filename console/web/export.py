"""A list as a file: JSON as the command line prints it, or CSV for a spreadsheet."""

import csv
import io
import json
from collections.abc import Iterable, Mapping
from typing import Any

from fastapi import Response

FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet would take for one
Facts = Mapping[str, Any]


def as_json(name: str, facts: Iterable[Facts]) -> Response:
    return _file(json.dumps(list(facts), indent=1, ensure_ascii=False), "application/json", f"{name}.json")


def as_csv(name: str, facts: Iterable[Facts]) -> Response:
    """A column for each key of any of them; what is a list or an object in JSON is JSON in its cell."""
    rows = list(facts)
    columns = list(dict.fromkeys(key for each in rows for key in each))
    written = io.StringIO()
    writer = csv.writer(written)
    writer.writerow(columns)
    writer.writerows([_cell(each.get(name)) for name in columns] for each in rows)
    return _file(written.getvalue(), "text/csv; charset=utf-8", f"{name}.csv")


def _cell(value: Any) -> Any:
    """A text that a spreadsheet does not take for a formula."""
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def _file(content: str, media_type: str, name: str) -> Response:
    return Response(content, media_type=media_type, headers={"Content-Disposition": f'attachment; filename="{name}"'})
