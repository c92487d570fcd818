"""The generated pages of docs/ are those of the code, and the site has no broken link."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mayfly.cli import VERBS
from mayfly.schema.metadata import metadata
from scripts.reference import DOCS, PAGES, current, outdated

CHECKOUT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_current(name: str) -> None:
    """If this fails, run `scripts/docs reference`."""
    assert outdated([name]) == {}


def test_the_pages_name_everything() -> None:
    """Every verb, table and column."""
    commands, tables = current("reference/cli.md"), current("reference/tables.md")

    assert [verb for verb in VERBS if f"\n## mayfly {verb}\n" not in commands] == []
    for table in metadata.sorted_tables:
        chapter = tables.partition(f"\n## {table.name}\n")[2].partition("\n## ")[0]
        named = re.findall(r"^(?:- |\| )`(\w+)`", chapter, re.MULTILINE)
        assert named == [column.name for column in table.columns]


def test_every_page_is_in_the_navigation() -> None:
    """Except the decision records, which their index lists."""
    named = (CHECKOUT / "zensical.toml").read_text("utf-8")
    pages = [str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")]

    assert [each for each in pages if "decisions/0" not in each and f'"{each}"' not in named] == []


def test_the_site_has_no_broken_link(tmp_path: Path) -> None:
    """Zensical aborts a strict build at each link to a page or heading that does not exist."""
    shutil.copytree(DOCS, tmp_path / "docs")
    configuration = (CHECKOUT / "zensical.toml").read_text("utf-8")
    (tmp_path / "zensical.toml").write_text(configuration, "utf-8")

    built = subprocess.run(
        [Path(sys.executable).with_name("zensical"), "build", "--strict"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip

    assert built.returncode == 0, built.stderr
    assert (tmp_path / "build" / "site" / "reference" / "cli.html").exists()
