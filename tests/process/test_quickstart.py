"""The first of the two commands, on a checkout that nobody has touched."""

import os
import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parent.parent.parent


@pytest.mark.slow
def test_the_quickstart_works_from_a_clean_clone_and_works_again(tmp_path: Path) -> None:
    """A fresh .venv, a fresh database, 23 jobs done, one of them after a retry; and the same once more."""
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
