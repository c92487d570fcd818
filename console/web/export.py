"""Export lists: JSON in the format of the command line, CSV for spreadsheets."""

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response

from console.web.page import Viewer

MAX_EXPORTED = 10_000
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet would run a cell that begins with one of them
Facts = Mapping[str, Any]


def add_routes(router: APIRouter, name: str, rows: Callable[..., Any], role: Any = Viewer) -> None:
    """Serve the result of the dependency `rows` as /NAME.json and /NAME.csv."""
    Rows = Annotated[Iterable[Facts], Depends(rows)]  # noqa: N806 - a type

    async def json_file(_user: role, found: Rows) -> Response:
        return as_json(name, found)

    async def csv_file(_user: role, found: Rows) -> Response:
        return as_csv(name, found)

    router.add_api_route(f"/{name}.json", json_file)
    router.add_api_route(f"/{name}.csv", csv_file)


def as_json(name: str, facts: Iterable[Facts]) -> Response:
    return _file(json.dumps(list(facts), indent=1, ensure_ascii=False), "application/json", f"{name}.json")


def as_csv(name: str, facts: Iterable[Facts]) -> Response:
    """One column per key of any row; lists and objects are written as JSON."""
    rows = list(facts)
    columns = list(dict.fromkeys(key for each in rows for key in each))
    written = io.StringIO()
    writer = csv.writer(written)
    writer.writerow(columns)
    writer.writerows([_cell(each.get(name)) for name in columns] for each in rows)
    return _file(written.getvalue(), "text/csv; charset=utf-8", f"{name}.csv")


def _cell(value: Any) -> Any:
    """Escape text that a spreadsheet would run as a formula, with an apostrophe."""
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def _file(content: str, media_type: str, name: str) -> Response:
    return Response(content, media_type=media_type, headers={"Content-Disposition": f'attachment; filename="{name}"'})
