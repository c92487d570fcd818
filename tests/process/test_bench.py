"""scripts/bench works: every line, on SQLite, at a thousandth of its size. No timing is part of the tests."""

import json
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from scripts.benchmark import ledger
from scripts.benchmark.registry import LINES
from scripts.benchmark.verify import Ledgers, check_once

CHECKOUT = Path(__file__).parent.parent.parent


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [CHECKOUT / "scripts" / "bench", *arguments], capture_output=True, text=True, timeout=240, check=False
    )


def records(directory: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((directory / "results.json").read_text())["records"]
    return found


def test_every_line_is_measured_and_written(tmp_path: Path) -> None:
    """Each has figures and no error; the exit code says whether a goal was missed; JSON and plots are there."""
    run = bench("--engine", "sqlite", "--scale", "0.001", "--times", "1", "--output", str(tmp_path))

    found = records(tmp_path)
    assert [(each["line"], each["engine"], each["error"]) for each in found] == [
        (name, "sqlite", None) for name in LINES
    ]
    assert all(each["figures"] for each in found)
    missed = [figure for each in found if each["judged"] for figure in each["figures"] if figure["reached"] is False]
    assert run.returncode == (1 if missed else 0), run.stderr
    assert [line for line in run.stdout.splitlines() if line.startswith("idle cycle: CPU ")]
    for name in ("drain.svg", "size.svg"):
        assert (tmp_path / name).read_text().startswith("<svg")
    assert "\x1b" not in run.stderr  # no bar where nobody watches


def test_a_later_run_keeps_what_others_measured(tmp_path: Path) -> None:
    """Two lines in two runs are two records; the profile's parts of a runner make a whole."""
    for name in ("enqueue", "profile"):
        bench("--only", name, "--engine", "sqlite", "--scale", "0.001", "--times", "1", "--output", str(tmp_path))

    enqueue, profile = records(tmp_path)
    assert (enqueue["line"], profile["line"]) == ("enqueue", "profile")
    shares = [each["median"] for each in profile["figures"] if each["name"].startswith("a runner's time: ")]
    assert sum(shares) == pytest.approx(100)
    assert min(shares) > 0  # each part was found by its function's name


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--only", "drian"], "there is no 'drian'; there are drain, each, .* Did you mean drain?"),
        (["--engine", "oracle"], "there is no 'oracle'; there are mariadb, postgres, sqlite."),
        (["--scale", "0"], "0 is not in the range 0.001<=x<=10"),
        (["--times", "0"], "0 is not in the range x>=1"),
        (["--write-docs", "--output", "/nonexistent"], "There are no results in /nonexistent"),
    ],
)
def test_wrong_input_is_answered_by_a_sentence(arguments: Sequence[str], sentence: str) -> None:
    """On stderr, with exit code 64; nothing is measured."""
    run = bench(*arguments)

    assert (run.returncode, run.stdout) == (64, "")
    assert re.search(sentence, run.stderr)
    assert "Traceback" not in run.stderr


def test_the_lines_are_listed_with_their_time() -> None:
    """And nothing is measured."""
    run = bench("--list")

    assert run.returncode == 0
    assert [line.split()[0] for line in run.stdout.splitlines()[: len(LINES)]] == list(LINES)
    assert re.search(r"All of it: about \d+ min\.", run.stdout)


def test_the_notes_of_a_process_outlive_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fork keeps a ledger of its own, and what is in it is there however the process ended."""
    monkeypatch.setenv(ledger.DIRECTORY, str(tmp_path))
    monkeypatch.setenv(ledger.SLOTS, "10")
    ledger._forget()
    ledger.record(1)
    for job_id in (2, 3):
        pid = os.fork()
        if pid == 0:
            ledger.record(job_id)
            os.kill(os.getpid(), 9)
        os.waitpid(pid, 0)
    ledger.record(4)
    ledger._forget()

    check_once(Ledgers(tmp_path).ids(), range(1, 5))
    assert len(list(tmp_path.iterdir())) == 3
