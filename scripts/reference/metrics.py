"""docs/reference/metrics.md: the metrics that are exported, and the alert rules that are shipped."""

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from mayfly.monitoring.metrics import of_cycles, of_jobs, of_lanes, of_sources
from mayfly.queue.outcome import OutcomeKind
from mayfly.stats.histograms import Count
from scripts.reference.markdown import GENERATED, paragraph, table

RULES = Path(__file__).parents[2] / "cron.d" / "mayfly.rules.yml"
# Histograms have labels only where they have samples.
SAMPLE = {("lane", "type", OutcomeKind.DONE.value): Count()}
SUFFIXES = {"counter": "_total"}


def page(_current: str) -> str:
    outcomes = ", ".join(f"`{each.value}`" for each in OutcomeKind)
    notes = paragraph(
        f"Outcomes of `mayfly_jobs_total` are {outcomes}."
        " [Monitor](../how-to/monitor.md#metrics) says how to scrape them."
    )
    return (
        f"# Metrics\n\n{GENERATED}\n{notes}\n\n"
        f"{table(('name', 'kind', 'labels', 'what it is'), _metrics())}\n## Alert rules\n\n"
        "Those of [`mayfly.rules.yml`](../../cron.d/mayfly.rules.yml), which `mayfly cron print rules` prints.\n\n"
        f"{table(('alert', 'severity', 'after', 'meaning'), _rules())}"
    )


def _metrics() -> Iterator[tuple[str, ...]]:
    for family in chain(of_jobs(SAMPLE), of_lanes([], {}), of_cycles([]), of_sources([])):
        labels = getattr(family, "_labelnames", None) or [each for each in family.samples[0].labels if each != "le"]
        name = f"{family.name}{SUFFIXES.get(family.type, '')}"
        yield f"`{name}`", family.type, ", ".join(labels), family.documentation


def _rules() -> Iterator[tuple[str, ...]]:
    [group] = yaml.safe_load(RULES.read_text("utf-8"))["groups"]
    for rule in group["rules"]:
        yield f"`{rule['alert']}`", rule["labels"]["severity"], rule.get("for", ""), _meaning(rule["annotations"])


def _meaning(annotations: Mapping[str, Any]) -> str:
    """Without Prometheus's templates: `{{ $labels.host }}` becomes HOST."""
    text = re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda match: match[1].upper(), annotations["summary"])
    text = re.sub(r"\{\{ \$value[^}]*\}\}", "…", text)
    return f"{text}. {annotations['description']}"
