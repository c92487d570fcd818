"""Problem details: every error has a documented code, and the OpenAPI document describes it."""

import json
import re
from pathlib import Path

import pytest

from console.problems import CODES, ERRORS, PROBLEM_TYPE, json_problem, schemas

PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "pull-workers.md").read_text("utf-8")


def test_the_docs_list_every_code_with_its_status() -> None:
    """The table in docs/how-to/pull-workers.md has the default code of each status, and the specific ones."""
    section = PAGE.partition("| status | codes |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (\d{3}) \| (.+?) \|$", section, flags=re.MULTILINE)
    documented = {(int(status), code) for status, codes in rows for code in re.findall(r"`(\w+)`", codes)}

    assert documented == {*CODES.items(), *((status, code) for _kind, status, code in ERRORS)}


@pytest.mark.parametrize(("status", "code"), CODES.items())
def test_a_problem_has_the_code_of_its_status(status: int, code: str) -> None:
    """Unless a more specific code is given; the title is the default code in words."""
    plain, specific = json_problem(status, "Why."), json_problem(status, "Why.", code="special")

    assert plain.media_type == PROBLEM_TYPE
    assert json.loads(bytes(plain.body)) == {
        "title": code.replace("_", " ").capitalize(), "status": status, "code": code, "detail": "Why.", "errors": [],
    }  # fmt: skip
    assert json.loads(bytes(specific.body))["code"] == "special"


def test_the_openapi_document_requires_the_code() -> None:
    """Clients that are generated from the document can rely on it."""
    assert {"title", "status", "code", "detail"} <= {*schemas()["Problem"]["required"]}
