"""docs/settings.md says what the code does: its tables list every setting, and its examples load."""

import re
from pathlib import Path

import pytest

from mayfly.settings import load
from mayfly.settings.model import LaneModel, SettingsModel

PAGE = (Path(__file__).parents[2] / "docs" / "settings.md").read_text("utf-8")

# What depends on the machine, or is said in other words than a value's.
WORDED = {"home": "[see below](#home)", "host_name": "the system's"}


def rows_under(heading: str) -> list[list[str]]:
    """The cells of the first table with four columns after a heading, its first two lines left out."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = re.findall(r"^\| (.+) \| (.+) \| (.+) \| (.+) \|$", section, flags=re.MULTILINE)
    return [[cell.strip("`") for cell in line] for line in lines[2:]]


def block_of(language: str) -> str:
    blocks = re.findall(rf"^```{language}\n(.+?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) == 1
    return str(blocks[0])


def test_the_table_has_every_setting_and_no_other() -> None:
    """In the order in which the code has them, too."""
    named = [name for name, *_ in rows_under("All settings")]

    assert named == ["MAYFLY_HOME" if name == "home" else name.upper() for name in SettingsModel.model_fields]


@pytest.mark.parametrize("row", rows_under("All settings"), ids=lambda row: row[0])
def test_the_table_says_what_is_allowed_in_the_words_of_the_error(row: list[str]) -> None:
    """Whoever searches the page for the sentence finds it."""
    name, _, allowed, _ = row

    assert allowed == SettingsModel.model_fields[field_of(name)].description


@pytest.mark.parametrize("row", rows_under("All settings"), ids=lambda row: row[0])
def test_the_table_says_the_default(row: list[str], tmp_path: Path) -> None:
    """As `mayfly config` shows it; paths as they are before they are put under home."""
    name, default, _, _ = row
    shown = {
        each.name: each.value.replace(f"{tmp_path}/", "") for each in load({"MAYFLY_HOME": str(tmp_path)}).origins
    }

    assert default == WORDED.get(field_of(name), shown.get(name, "none"))


def test_the_lanes_table_has_every_setting_of_a_lane() -> None:
    """With what is allowed."""
    rows = [(name, allowed) for name, _, allowed, _ in rows_under("Lanes and pools")]

    assert rows == [(name, field.description) for name, field in LaneModel.model_fields.items()]


def test_the_examples_load(tmp_path: Path) -> None:
    """What the page tells people to write is understood, without a warning."""
    (tmp_path / "mayfly.toml").write_text(block_of("toml"))
    (tmp_path / ".env").write_text(block_of("sh"))

    loaded = load({"MAYFLY_HOME": str(tmp_path)})

    assert loaded.warnings == ()
    assert loaded.settings.lane("send_email").pool == "email"
    assert loaded.settings.database_url.get_secret_value().startswith("mysql+pymysql://mayfly:")


def field_of(name: str) -> str:
    return "home" if name == "MAYFLY_HOME" else name.lower()
