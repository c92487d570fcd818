"""docs/explanation/one-cycle.md: functions on the path of a job, their files and numbers are correct."""

import ast
import re

from tests.process.installation import CHECKOUT

PAGE = (CHECKOUT / "docs" / "explanation" / "one-cycle.md").read_text()
PARTS = [part for part in PAGE.split("\n## ") if "| step | function |" in part]
ROW = re.compile(r"^\|[^|]*\| `([\w.]+)` \| (?:`([\w/.]+)`)? ?\|", re.MULTILINE)
COUNTS = re.compile(r"^\| (?:\[.*\]\(#.*\)|all) \| (\d+) \| (\d+) \|$", re.MULTILINE)


def functions_on(part: str) -> set[tuple[str, str]]:
    """Each with its file; a row without one is in the file of the row above."""
    found, file = set(), ""
    for name, its_file in ROW.findall(part):
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


def test_the_page_counts_its_functions_and_files() -> None:
    """Each part, and all of them: at most 90 functions in 40 files."""
    counts = [(len(each), len({file for file, _ in each})) for each in map(functions_on, [*PARTS, PAGE])]

    assert counts == [(int(functions), int(files)) for functions, files in COUNTS.findall(PAGE)]
    assert max(counts[-1][0] - 90, counts[-1][1] - 40) <= 0
