"""Metrics and alert rules are valid for Prometheus's own tool, and each rule fires when it should."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.process.installation import CHECKOUT, Installation
from tests.servers import Unavailable

RULES = CHECKOUT / "cron.d" / "mayfly.rules.yml"


@pytest.fixture
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        raise Unavailable("promtool is not installed; on Debian, apt-get install prometheus brings it.")
    return found


def run(*command: str, cwd: Path, text: str = "") -> tuple[int, str]:
    done = subprocess.run(command, cwd=cwd, input=text, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


def test_the_rules_are_valid(promtool: str, tmp_path: Path) -> None:
    """As shipped."""
    code, output = run(promtool, "check", "rules", str(RULES), cwd=tmp_path)

    assert code == 0, output


def test_the_rules_fire_in_their_cases_only(promtool: str, tmp_path: Path) -> None:
    """See rules_test.yml."""
    shutil.copy(RULES, tmp_path)
    shutil.copy(Path(__file__).with_name("rules_test.yml"), tmp_path)

    code, output = run(promtool, "test", "rules", "rules_test.yml", cwd=tmp_path)

    assert code == 0, output


def test_every_rule_has_a_test(promtool: str) -> None:
    """Otherwise a new one would be unchecked."""
    named = {line.split()[-1] for line in RULES.read_text().splitlines() if "- alert:" in line}
    tried = Path(__file__).with_name("rules_test.yml").read_text()

    assert {name for name in named if f"alertname: {name}\n" in tried} == named


def test_the_metrics_are_valid(promtool: str, embedded: Installation, tmp_path: Path) -> None:
    """Names, types, units and labels pass the linter."""
    embedded.enqueue("noop")
    embedded.enqueue("give_up")
    embedded.dispatch()

    printed = embedded.run("mayfly", "metrics")

    assert printed.returncode == 0, printed.stderr
    assert run(promtool, "check", "metrics", cwd=tmp_path, text=printed.stdout) == (0, "")
