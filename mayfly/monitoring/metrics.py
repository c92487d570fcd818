"""Metrics in the Prometheus text format, for `mayfly metrics`, GET /metrics and node_exporter's textfile collector.

The only importer of prometheus_client, which is an extra.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from pathlib import Path

from mayfly.admin.health import latency_targets
from mayfly.admin.jobs import MAX_COUNTED
from mayfly.admin.lanes import LaneView, list_lanes
from mayfly.admin.sources import MAX_DUE_COUNTED, SourceView, list_sources
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.errors import ExtraMissing, TextfileUnwritable
from mayfly.settings import Settings
from mayfly.stats.histograms import BOUNDS, Count, Tally
from mayfly.stats.history import NEVER_ENDED, CycleCounts, read_counters, read_cycles
from mayfly.stats.totals import LOST_TOTALS

try:
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
    from prometheus_client.registry import Collector
except ModuleNotFoundError as error:
    raise ExtraMissing("Metrics need prometheus_client", "metrics") from error

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
CAPPED = f"counted up to {MAX_COUNTED}"
ALWAYS_SHOWN = ("done", "dead", "crashed", LOST_TOTALS)
Samples = Iterable[tuple[Sequence[str], float]]  # label values and the sample


def render_metrics(database: Database, settings: Settings) -> bytes:
    now = database.clock.now()
    return prometheus_text(database.read(lambda connection: read_metric_values(connection, settings, now)))


def write_textfile(path: Path, text: bytes) -> None:
    """Write atomically, readable for all users."""
    new = path.with_name(f".{path.name}.{os.getpid()}")  # does not end in .prom: node_exporter ignores it
    try:
        try:
            new.write_bytes(text)
            new.chmod(0o644)
            new.replace(path)
        finally:
            new.unlink(missing_ok=True)
    except OSError as error:
        raise TextfileUnwritable(path, str(error.strerror)) from error


@dataclass(eq=False, frozen=True)  # registries hash collectors by identity
class MetricValues(Collector):
    counters: Tally  # since the first job; cycles too
    cycles: Sequence[CycleCounts]
    lanes: Sequence[LaneView]
    targets: Mapping[str, float]  # seconds
    sources: Sequence[SourceView] = ()

    def collect(self) -> Iterator[Metric]:
        yield from of_jobs(self.counters)
        yield from of_lanes(self.lanes, self.targets)
        yield from of_cycles(self.cycles)
        yield from of_sources(self.sources)


def read_metric_values(connection: Connection, settings: Settings, now: datetime) -> MetricValues:
    return MetricValues(
        counters=read_counters(connection),
        cycles=read_cycles(connection),
        lanes=list_lanes(connection, settings, now),
        targets={lane: target.total_seconds() for lane, target in latency_targets(settings).items()},
        sources=list_sources(connection, settings, now) if settings.sources else (),
    )


def prometheus_text(values: MetricValues) -> bytes:
    registry = CollectorRegistry()
    registry.register(values)
    return generate_latest(registry)


def of_jobs(counters: Tally) -> Iterator[Metric]:
    """Series used in alert rules start at 0: Prometheus sees no increase when a series first appears."""
    types = _by_type(counters)
    known = {(*key, outcome): 0 for key in types for outcome in ALWAYS_SHOWN}
    jobs = sorted((known | {key: count.jobs for key, count in counters.items()}).items())
    settled = [(key, number) for key, number in jobs if key[2] != LOST_TOTALS]
    lost = [(key[:2], number) for key, number in jobs if key[2] == LOST_TOTALS]
    yield _counter("mayfly_jobs", "Jobs settled.", ["lane", "type", "outcome"], settled)
    yield _counter("mayfly_leases_lost", "Jobs taken over from a runner that lost its lease.", ["lane", "type"], lost)
    durations = {key: count.durations for key, count in types.items()}
    yield _histogram("mayfly_job_duration_seconds", "Duration of handlers, successful or not.", durations)
    waits = {key: count.waits for key, count in types.items()}
    yield _histogram("mayfly_job_wait_seconds", "Time from due to the start of the handler.", waits)


def _by_type(counters: Tally) -> dict[tuple[str, str], Count]:
    found: dict[tuple[str, str], Count] = {}
    for (lane, type_name, _outcome), count in sorted(counters.items()):
        found[lane, type_name] = found.get((lane, type_name), Count()).plus(count)
    return found


def of_lanes(lanes: Sequence[LaneView], targets: Mapping[str, float]) -> Iterator[Metric]:
    def by_lane(name: str, words: str, figure: Callable[[LaneView], float]) -> Metric:
        return _gauge(name, words, "lane", {each.lane: figure(each) for each in lanes})

    yield by_lane("mayfly_pending_jobs", f"Due jobs, {CAPPED}.", lambda lane: lane.pending.number)
    not_started = f"Claimed jobs that have not started, {CAPPED}."
    yield by_lane("mayfly_claimed_jobs", not_started, lambda lane: lane.claimed.number)
    yield by_lane("mayfly_running_jobs", "Running jobs, at most two seconds ago.", lambda lane: lane.running)
    yield by_lane("mayfly_dead_jobs", f"Dead jobs, {CAPPED}.", lambda lane: lane.dead.number)
    waiting = "Wait of the oldest due job."
    yield by_lane("mayfly_oldest_wait_seconds", waiting, lambda lane: lane.wait_seconds or 0.0)
    yield by_lane("mayfly_workers", "Runners whose end is not recorded.", lambda lane: lane.runners)
    yield by_lane("mayfly_lane_paused", "1 while the lane is paused.", lambda lane: bool(lane.paused))
    yield _gauge("mayfly_latency_target_seconds", "LATENCY_TARGET of the lane.", "lane", targets)


def of_sources(sources: Sequence[SourceView]) -> Iterator[Metric]:
    """A source that cannot be used has no samples: 0 would mean that all its rows are processed."""
    usable = [each for each in sources if each.problem is None]
    due = {each.source: float(each.pending.number) for each in usable}
    yield _gauge("mayfly_source_due_rows", f"Due rows, counted up to {MAX_DUE_COUNTED}.", "source", due)
    waits = {each.source: each.wait_seconds or 0.0 for each in usable}
    yield _gauge("mayfly_source_oldest_due_seconds", "Wait of the oldest due row.", "source", waits)


def of_cycles(cycles: Iterable[CycleCounts]) -> Iterator[Metric]:
    known, hosts = sorted(cycles), _by_host(cycles)
    codes = {NEVER_ENDED: "none"}
    ended = [((each.host, codes.get(each.exit_code, str(each.exit_code))), each.cycles) for each in known]
    yield _counter("mayfly_cycles", "Cycles, by exit code.", ["host", "exit_code"], ended)
    duration = SummaryMetricFamily("mayfly_cycle_duration_seconds", "Duration of cycles.", labels=["host"])
    for host, each in hosts.items():
        duration.add_metric([host], each.cycles, each.duration_ms / 1000)
    yield duration
    endings = [((host, ending), number) for host, each in hosts.items() for ending, number in _endings(each)]
    yield _counter("mayfly_workers_ended", "Runners that have ended, by ending.", ["host", "ending"], endings)
    for name, words, figure in (
        ("mayfly_jobs_rescued", "Jobs released from lost runners.", "rescued"),
        ("mayfly_deadlocks_retried", "Transactions repeated after a deadlock or a similar error.", "repeated"),
        ("mayfly_rows_pruned", "Old rows deleted.", "pruned"),
    ):
        yield _counter(name, words, ["host"], [([host], getattr(each, figure)) for host, each in hosts.items()])
    last = {host: each.last_at.timestamp() for host, each in hosts.items()}
    yield _gauge("mayfly_last_cycle_timestamp_seconds", "Start of the last cycle.", "host", last)
    succeeded = {each.host: each.last_at.timestamp() for each in known if each.exit_code == 0}
    yield _gauge("mayfly_last_success_timestamp_seconds", "Start of the last successful cycle.", "host", succeeded)


def _by_host(cycles: Iterable[CycleCounts]) -> dict[str, CycleCounts]:
    found: dict[str, CycleCounts] = {}
    for each in sorted(cycles):
        found[each.host] = found[each.host].plus(each) if each.host in found else each
    return found


def _endings(cycles: CycleCounts) -> Iterator[tuple[str, int]]:
    yield "ok", cycles.successful
    yield "timeout", cycles.timed_out
    yield "failed", cycles.spawned - cycles.successful - cycles.timed_out


def _counter(name: str, words: str, labels: Sequence[str], samples: Samples) -> Metric:
    family = CounterMetricFamily(name, words, labels=labels)
    for values, figure in samples:
        family.add_metric(values, figure)
    return family


def _gauge(name: str, words: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name, words, labels=[label])
    for key, figure in values.items():
        family.add_metric([key], figure)
    return family


def _histogram(name: str, words: str, histograms: Mapping[tuple[str, str], Mapping[int, int]]) -> Metric:
    """Without a sum, which is not recorded. The last bucket has no upper bound."""
    family = Metric(name, words, "histogram")
    bounds = [*(f"{bound / 1000:g}" for bound in BOUNDS[:-1]), "+Inf"]
    for (lane, type_name), buckets in histograms.items():
        labels = {"lane": lane, "type": type_name}
        reached = accumulate(buckets.get(bound, 0) for bound in BOUNDS)
        for bound, number in zip(bounds, reached, strict=True):
            family.add_sample(f"{name}_bucket", {**labels, "le": bound}, number)
        family.add_sample(f"{name}_count", labels, sum(buckets.values()))
    return family
