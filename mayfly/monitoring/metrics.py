"""What Prometheus is told, whoever asks: `mayfly metrics`, GET /metrics, or node_exporter by a file."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

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
    """The text format of Prometheus."""
    try:
        from mayfly.monitoring.prometheus import prometheus_text  # the only importer of prometheus_client
    except ModuleNotFoundError as error:
        raise ExtraMissing("Metrics need prometheus_client", "metrics") from error
    return prometheus_text(
        database.read(lambda connection: read_metric_values(connection, settings, database.clock.now()))
    )


@dataclass(frozen=True)
class MetricValues:
    """As they were at one time."""

    counters: Tally  # of all times, as the cycles are
    cycles: Sequence[CycleCounts]
    lanes: Sequence[LaneView]
    targets: Mapping[str, float]  # seconds


def read_metric_values(connection: Connection, settings: Settings, now: datetime) -> MetricValues:
    targets = {lane: each.latency_target for lane, each in settings.lanes.items()}
    return MetricValues(
        counters=read_counters(connection),
        cycles=read_cycles(connection),
        lanes=list_lanes(connection, settings, now),
        targets={lane: target for lane, target in targets.items() if target is not None},
    )


def write_textfile(path: Path, text: bytes) -> None:
    """Renamed into its place, so that nobody reads half of it; as readable as any other in that directory."""
    new = path.with_name(f".{path.name}.{os.getpid()}")  # no .prom at its end: not read
    try:
        try:
            new.write_bytes(text)
            new.chmod(0o644)
            new.replace(path)
        finally:
            new.unlink(missing_ok=True)
    except OSError as error:
        raise TextfileUnwritable(path, str(error.strerror)) from error
