"""docs/metrics.md says what is true: its table is what Mayfly tells, its rules are those that are shipped."""

import re
from pathlib import Path

import pytest

from mayfly.admin.jobs import MAX_COUNTED
from mayfly.monitoring.metrics import MetricValues
from mayfly.monitoring.prometheus import prometheus_text
from mayfly.queue.outcome import OutcomeKind
from mayfly.settings import load
from mayfly.stats.histograms import BOUNDS

CHECKOUT = Path(__file__).parents[2]
PAGE = (CHECKOUT / "docs" / "metrics.md").read_text("utf-8")
RULES = (CHECKOUT / "cron.d" / "mayfly.rules.yml").read_text("utf-8")


def rows(header: str) -> list[list[str]]:
    table = PAGE.split(header)[1].split("\n\n")[0]
    return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in table.splitlines()[2:] if line]


def test_every_metric_is_in_the_table() -> None:
    """And no other; counters by the name that Prometheus stores."""
    nothing = MetricValues({}, [], [], {})
    told = re.findall(r"^# TYPE (\S+)", prometheus_text(nothing).decode(), re.MULTILINE)

    assert sorted(name for name, *_ in rows("| name | labels | what it is |")) == sorted(told)
    assert len(told) > 10


def test_the_words_and_numbers_are_the_codes() -> None:
    """Outcomes, and how far is counted."""
    [listed] = re.findall(r"outcomes are ([^|]+)", PAGE)

    assert set(re.findall(r"`([^`]+)`", listed)) == set(OutcomeKind)
    assert f"counted to {MAX_COUNTED:,}" in PAGE
    assert round(BOUNDS[-2] / 3_600_000) == 14


def test_every_rule_is_in_the_table() -> None:
    """In the order in which they are shipped."""
    assert [name for name, _ in rows("| alert | when |")] == re.findall(r"- alert: (\w+)", RULES)


@pytest.mark.parametrize("name", re.findall(r"mayfly_\w+", RULES))
def test_the_rules_name_what_is_told(name: str) -> None:
    """A rule about a metric that does not exist never fires."""
    assert name in {named for named, *_ in rows("| name | labels | what it is |")}


def test_the_setting_is_one(tmp_path: Path) -> None:
    """As the page has it."""
    [block] = re.findall(r"^```sh\n(.+?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / ".env").write_text(block)

    loaded = load({"MAYFLY_HOME": str(tmp_path)})

    assert (loaded.warnings, str(loaded.settings.metrics_textfile)) == (
        (),
        "/var/lib/node_exporter/textfile/mayfly.prom",
    )
