"""docs/how-to/monitor.md is correct: its table has every metric, its rules are those that are shipped."""

import re
from pathlib import Path

import pytest

from mayfly.admin.jobs import MAX_COUNTED
from mayfly.monitoring.metrics import MetricValues, prometheus_text
from mayfly.queue.outcome import OutcomeKind
from mayfly.settings import load
from mayfly.stats.histograms import BOUNDS
from tests.docs.consoles import section_named

CHECKOUT = Path(__file__).parents[2]
PAGE = section_named("how-to/monitor.md", "Metrics")
RULES = (CHECKOUT / "cron.d" / "mayfly.rules.yml").read_text("utf-8")


def rows(header: str) -> list[list[str]]:
    table = PAGE.split(header)[1].split("\n\n")[0]
    return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in table.splitlines()[2:] if line]


def test_every_metric_is_in_the_table() -> None:
    """And no other; counters with the name that Prometheus stores."""
    nothing = MetricValues({}, [], [], {})
    exported = re.findall(r"^# TYPE (\S+)", prometheus_text(nothing).decode(), re.MULTILINE)

    assert sorted(name for name, *_ in rows("| name | labels | what it is |")) == sorted(exported)
    assert len(exported) > 10


def test_words_and_numbers_equal_the_code() -> None:
    """Outcomes, and the limits of the counts."""
    [listed] = re.findall(r"outcomes are ([^|]+)", PAGE)

    assert set(re.findall(r"`([^`]+)`", listed)) == set(OutcomeKind)
    assert f"counted up to {MAX_COUNTED:,}" in PAGE
    assert round(BOUNDS[-2] / 3_600_000) == 14


def test_every_rule_is_in_the_table() -> None:
    """In the order of the file."""
    assert [name for name, _ in rows("| alert | when |")] == re.findall(r"- alert: (\w+)", RULES)


@pytest.mark.parametrize("name", re.findall(r"mayfly_\w+", RULES))
def test_the_rules_name_existing_metrics(name: str) -> None:
    """A rule about a metric that does not exist never fires."""
    assert name in {named for named, *_ in rows("| name | labels | what it is |")}


def test_the_setting_loads(tmp_path: Path) -> None:
    """As shown on the page."""
    [block] = re.findall(r"^```sh\n(.+?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / ".env").write_text(block)

    loaded = load({"MAYFLY_HOME": str(tmp_path)})

    assert (loaded.warnings, str(loaded.settings.metrics_textfile)) == (
        (),
        "/var/lib/node_exporter/textfile/mayfly.prom",
    )
