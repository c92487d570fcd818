"""Prometheus's own tool has nothing against the metrics and the alert rules, and the rules say what they should."""

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
    """As they are shipped."""
    code, said = run(promtool, "check", "rules", str(RULES), cwd=tmp_path)

    assert code == 0, said


def test_the_rules_say_what_they_should(promtool: str, tmp_path: Path) -> None:
    """Each fires in its case and is silent in the others, see rules_test.yml."""
    shutil.copy(RULES, tmp_path)
    shutil.copy(Path(__file__).with_name("rules_test.yml"), tmp_path)

    code, said = run(promtool, "test", "rules", "rules_test.yml", cwd=tmp_path)

    assert code == 0, said


def test_every_rule_is_tried(promtool: str) -> None:
    """Or a new one would be taken on trust."""
    named = {line.split()[-1] for line in RULES.read_text().splitlines() if "- alert:" in line}
    tried = Path(__file__).with_name("rules_test.yml").read_text()

    assert {name for name in named if f"alertname: {name}\n" in tried} == named


def test_the_metrics_are_valid(promtool: str, embedded: Installation, tmp_path: Path) -> None:
    """Names, types, units, labels: nothing that its linter complains of."""
    embedded.enqueue("noop")
    embedded.enqueue("give_up")
    embedded.dispatch()

    printed = embedded.run("mayfly", "metrics")

    assert printed.returncode == 0, printed.stderr
    assert run(promtool, "check", "metrics", cwd=tmp_path, text=printed.stdout) == (0, "")
