"""docs/how-to/monitor.md is correct: and the generated list has every metric."""

import re
from pathlib import Path

import pytest

from mayfly.admin.jobs import MAX_COUNTED
from mayfly.monitoring.metrics import MetricValues, prometheus_text
from mayfly.settings import load
from tests.docs.consoles import page_named, section_named

CHECKOUT = Path(__file__).parents[2]
PAGE = section_named("how-to/monitor.md", "Metrics")
LISTED = re.findall(r"^\| `(mayfly_\w+)`", page_named("reference/metrics.md"), re.MULTILINE)
RULES = (CHECKOUT / "cron.d" / "mayfly.rules.yml").read_text("utf-8")


def test_every_metric_is_in_the_list() -> None:
    """And no other; counters with the name that Prometheus stores."""
    nothing = MetricValues({}, [], [], {})
    exported = re.findall(r"^# TYPE (\S+)", prometheus_text(nothing).decode(), re.MULTILINE)

    assert sorted(LISTED) == sorted(exported)
    assert len(exported) > 10


def test_the_number_equals_the_code() -> None:
    """The limit of the counts."""
    assert f"stop at {MAX_COUNTED:,}" in PAGE


@pytest.mark.parametrize("name", re.findall(r"mayfly_\w+", RULES))
def test_the_rules_name_existing_metrics(name: str) -> None:
    """A rule about a metric that does not exist never fires."""
    assert name in LISTED


def test_the_setting_loads(tmp_path: Path) -> None:
    """As shown on the page."""
    [block] = re.findall(r"^```sh\n(.+?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / ".env").write_text(block)

    loaded = load({"MAYFLY_HOME": str(tmp_path)})

    assert (loaded.warnings, str(loaded.settings.metrics_textfile)) == (
        (),
        "/var/lib/node_exporter/textfile/mayfly.prom",
    )
