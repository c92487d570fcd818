"""Commands in a page: each prints what the page shows below it."""

import re
import shlex
from pathlib import Path

from tests.process.installation import Installation

CHECKOUT = Path(__file__).parents[2]


def page_named(name: str) -> str:
    return (CHECKOUT / "docs" / name).read_text("utf-8")


def section_named(name: str, title: str) -> str:
    """A section of level 2 as if it were a page: its headings are one level higher."""
    [text] = re.findall(rf"^## {title}\n.+?(?=^## |\Z)", page_named(name), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"^#(#+ )", r"\1", str(text), flags=re.MULTILINE)


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.+?)^```$", page, flags=re.MULTILINE | re.DOTALL)


def run_consoles(installation: Installation, page: str) -> int:
    """Run all commands of the page in order; returns their number. … matches any text within a line."""
    steps = [step for block in blocks(page, "console") for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    for step in steps:
        command, _, printed = step.partition("\n")

        ran = installation.run(*shlex.split(command, comments=True))

        expected = ".+".join(map(re.escape, printed.split("…")))
        code = re.search(r"# exit code (\d+)$", command)
        assert ran.returncode == (int(code[1]) if code else 0), ran.stderr
        assert re.fullmatch(expected, ran.stdout), f"{command}\n{ran.stdout}"
    return len(steps)
