"""`scripts/demo`: all handlers at once, against fake services, in real cycles."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from mayfly.bootstrap import load_registry
from mayfly.settings import load_settings
from tests.process.installation import CHECKOUT


def demo(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "scripts.demonstration", *arguments],
        cwd=CHECKOUT, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.slow
def test_the_demo_runs_every_handler(tmp_path: Path) -> None:
    """No job is dead or left pending, and the mails can be read."""
    home = tmp_path / "demo"

    run = demo("--home", str(home), "--people", "20", "--seconds", "300", "--until-done")

    assert (run.returncode, run.stderr) == (0, "")
    lanes = re.findall(r"│ (\w+) +│ (\w+) +│ +(\d*) │ +(\d*) │ +(\d*) │ +(\d*) │", run.stdout)
    assert [each for each in lanes if each[3:] != ("", "", "")] == []  # dead, cancelled, waiting
    assert platform_types() - {type_name for _lane, type_name, *_ in lanes} == {"unsubscribe", "undo_merge"}
    mails = re.search(r"│ mails +│ +([\d,]+) │", run.stdout)
    assert mails is not None
    assert len(list((home / "mail").iterdir())) == int(mails[1].replace(",", "")) > 20
    assert list((home / "archives").glob("*.zip"))
    assert list((home / "attachments").rglob("*.pdf"))


def platform_types() -> set[str]:
    """The types of all areas."""
    known = load_registry(load_settings()).handlers.items()
    return {name for name, each in known if re.fullmatch(r"handlers\.(?!samples)\w+", each.function.__module__)}


def test_a_directory_with_other_files_is_not_emptied(tmp_path: Path) -> None:
    """A mistyped --home loses nothing."""
    (tmp_path / "thesis.txt").write_text("years of work")

    run = demo("--home", str(tmp_path))

    assert (run.returncode, (tmp_path / "thesis.txt").read_text()) == (1, "years of work")
    assert "holds something else: name an empty directory with --home" in run.stderr
