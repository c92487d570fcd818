"""The quickstart command, on a new checkout."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parent.parent.parent


@pytest.mark.slow
def test_the_quickstart_works_from_a_clean_clone_and_again(tmp_path: Path) -> None:
    """It creates .venv and database, and runs 23 jobs, one of them after a retry; a second run does too.

    The output is that of the README.
    """
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", CHECKOUT, clone], check=True)
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}

    runs = [
        subprocess.run(
            ["scripts/quickstart"], cwd=clone, env=environment, capture_output=True, text=True, check=False
        )
        for _ in range(2)
    ]

    for run in runs:
        assert run.returncode == 0, run.stdout + run.stderr
        assert "23 of 23 jobs done, 1 of them after a retry." in run.stdout
        assert "What to do next:" in run.stdout
    assert re.search(quickstart_in_readme(), runs[0].stdout, re.DOTALL)


def quickstart_in_readme() -> str:
    """A pattern: … is any text, and a line of the log begins with its time."""
    readme = (CHECKOUT / "README.md").read_text("utf-8")
    _, _, shown = readme.partition("$ scripts/quickstart\n")
    parts = shown.partition("$ .venv")[0].split("…")
    return ".*".join(re.escape(each.strip("\n")) for each in parts)


@pytest.mark.parametrize("name", ["quickstart", "install-cron", "pin", "screenshots", "search"])
def test_help_is_printed_and_nothing_runs(name: str, tmp_path: Path) -> None:
    """In 80 columns, with exit code 0; no file of the checkout changes."""
    scripts = tmp_path / "scripts"
    shutil.copytree(CHECKOUT / "scripts", scripts, ignore=shutil.ignore_patterns("__pycache__"))
    if name in ("install-cron", "search"):  # Python programs of an installed checkout
        (tmp_path / ".venv").symlink_to(CHECKOUT / ".venv")
        (tmp_path / "handlers").symlink_to(CHECKOUT / "handlers")
    before = sorted(tmp_path.iterdir())

    shown = subprocess.run(
        [scripts / name, "--help"], env={**os.environ, "COLUMNS": "80"}, capture_output=True, text=True, check=False
    )

    assert (shown.returncode, shown.stderr) == (0, "")
    assert f"scripts/{name}" in shown.stdout.splitlines()[0]
    assert max(map(len, shown.stdout.splitlines())) <= 80
    assert sorted(tmp_path.iterdir()) == before


def test_the_quickstart_refuses_arguments() -> None:
    refused = subprocess.run([CHECKOUT / "scripts/quickstart", "--all"], capture_output=True, text=True, check=False)

    assert (refused.returncode, refused.stdout) == (64, "")
    assert refused.stderr == "scripts/quickstart takes no arguments; see --help.\n"
