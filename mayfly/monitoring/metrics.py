"""Values of the Prometheus metrics, for `mayfly metrics`, GET /metrics and node_exporter's textfile collector."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path

from mayfly.admin.health import latency_targets
from mayfly.admin.lanes import LaneView, list_lanes
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.errors import ExtraMissing, TextfileUnwritable
from mayfly.settings import Settings
from mayfly.stats.counters import read_counters
from mayfly.stats.histograms import Tally
from mayfly.stats.history import CycleCounts, read_cycles

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def render_metrics(database: Database, settings: Settings) -> bytes:
    """In the text format of Prometheus."""
    try:
        from mayfly.monitoring.prometheus import prometheus_text  # prometheus_client is an extra
    except ModuleNotFoundError as error:
        raise ExtraMissing("Metrics need prometheus_client", "metrics") from error
    return prometheus_text(
        database.read(lambda connection: read_metric_values(connection, settings, database.clock.now()))
    )


@dataclass(frozen=True)
class MetricValues:
    """Read at one time."""

    counters: Tally  # since the first job, as the cycles are
    cycles: Sequence[CycleCounts]
    lanes: Sequence[LaneView]
    targets: Mapping[str, float]  # seconds


def read_metric_values(connection: Connection, settings: Settings, now: datetime) -> MetricValues:
    return MetricValues(
        counters=read_counters(connection),
        cycles=read_cycles(connection),
        lanes=list_lanes(connection, settings, now),
        targets={lane: target.total_seconds() for lane, target in latency_targets(settings).items()},
    )


def textfile_problem(path: Path) -> str | None:
    """Why METRICS_TEXTFILE cannot be written, if so."""
    if find_spec("prometheus_client") is None:
        return str(ExtraMissing("Metrics need prometheus_client", "metrics"))
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        advice = "create that directory, writable for the user that runs the dispatcher"
        return f"METRICS_TEXTFILE {path} cannot be written: {advice}."
    return None


def write_textfile(path: Path, text: bytes) -> None:
    """Written beside it and renamed, so that no half file is read; readable for all."""
    new = path.with_name(f".{path.name}.{os.getpid()}")  # without .prom at its end node_exporter ignores it
    try:
        try:
            new.write_bytes(text)
            new.chmod(0o644)
            new.replace(path)
        finally:
            new.unlink(missing_ok=True)
    except OSError as error:
        raise TextfileUnwritable(path, str(error.strerror)) from error
