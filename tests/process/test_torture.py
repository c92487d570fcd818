"""Faults at random moments on several hosts break no guarantee, as checked by scripts/torture."""

import subprocess
import sys

import pytest

from scripts.faults.galera import PROVIDER
from tests.process.installation import CHECKOUT

LIMIT_SECONDS = 900


def torture(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "scripts.faults", *arguments]
    return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=LIMIT_SECONDS)


def test_some_seconds_of_faults_on_sqlite() -> None:
    """No job is lost or repeated without reason, and all other guarantees hold."""
    done = torture("--minutes", "0.07", "--hosts", "2", "--database", "sqlite")

    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "Every guarantee held." in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("database", ["sqlite", "mariadb", "postgres", "galera"])
def test_two_minutes_of_faults(database: str) -> None:
    """With every kind of fault that can be injected here."""
    if database == "galera" and not PROVIDER.exists():
        pytest.skip("galera-4 is not installed")
    done = torture("--minutes", "2", "--database", database)

    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "Every guarantee held." in done.stdout


@pytest.mark.slow
def test_without_faults_no_run_is_repeated() -> None:
    """So repetitions in a run with faults are caused by them."""
    done = torture("--minutes", "0.1", "--hosts", "1", "--faults", "none")

    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert " 0 faults: none." in f" {done.stdout.splitlines()[1]}"
