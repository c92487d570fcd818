"""docs/explanation/one-cycle.md: the functions on the path of a job are in the named files, and are few."""

import ast
import re

from tests.process.installation import CHECKOUT

PAGE = (CHECKOUT / "docs" / "explanation" / "one-cycle.md").read_text()
ROW = re.compile(r"^\|[^|]*\| `([\w.]+)` \| (?:`([\w/.]+)`)? ?\|", re.MULTILINE)


def functions_on(page: str) -> set[tuple[str, str]]:
    """Each with its file; a row without one is in the file of the row above."""
    found, file = set(), ""
    for name, its_file in ROW.findall(page):
        file = its_file or file
        found.add((file, name))
    return found


def functions_in(file: str) -> set[str]:
    body = ast.parse((CHECKOUT / file).read_text()).body
    owners = {"": body} | {f"{each.name}.": each.body for each in body if isinstance(each, ast.ClassDef)}
    return {f"{owner}{each.name}" for owner in owners for each in owners[owner] if isinstance(each, ast.FunctionDef)}


def test_every_function_is_in_the_named_file() -> None:
    """A renamed or moved function must change the page too."""
    assert [(file, name) for file, name in functions_on(PAGE) if name not in functions_in(file)] == []


def test_the_path_is_short() -> None:
    """At most 60 functions in 30 files."""
    found = functions_on(PAGE)

    assert len(found) <= 60
    assert len({file for file, _name in found}) <= 30
