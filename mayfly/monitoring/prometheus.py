"""Metric values in the text format of Prometheus. The only importer of prometheus_client."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from mayfly.admin.jobs import MAX_COUNTED
from mayfly.admin.lanes import LaneView
from mayfly.monitoring.metrics import MetricValues
from mayfly.stats.histograms import BOUNDS, Count, Tally
from mayfly.stats.history import NEVER_ENDED, CycleCounts
from mayfly.stats.totals import LOST_TOTALS

CAPPED = f"counted to {MAX_COUNTED} at most"
ALWAYS_SHOWN = ("done", "dead", "crashed", LOST_TOTALS)
Samples = Iterable[tuple[Sequence[str], float]]  # label values and the sample


def prometheus_text(figures: MetricValues) -> bytes:
    registry = CollectorRegistry()
    registry.register(_Collector(figures))
    return generate_latest(registry)


class _Collector(Collector):
    def __init__(self, figures: MetricValues) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        yield from of_jobs(self._figures.counters)
        yield from of_lanes(self._figures.lanes, self._figures.targets)
        yield from of_cycles(self._figures.cycles)


def of_jobs(counters: Tally) -> Iterator[Metric]:
    """Series of alert rules exist from the start: Prometheus sees no increase when a series appears."""
    types = _by_type(counters)
    known = {(*key, outcome): 0 for key in types for outcome in ALWAYS_SHOWN}
    jobs = sorted((known | {key: count.jobs for key, count in counters.items()}).items())
    settled = [(key, number) for key, number in jobs if key[2] != LOST_TOTALS]
    lost = [(key[:2], number) for key, number in jobs if key[2] == LOST_TOTALS]
    yield _counter("mayfly_jobs", "Jobs settled.", ["lane", "type", "outcome"], settled)
    yield _counter(
        "mayfly_leases_lost", "Jobs taken over by another runner before they ended.", ["lane", "type"], lost
    )
    durations = {key: count.durations for key, count in types.items()}
    yield _histogram("mayfly_job_duration_seconds", "How long handlers took, successful or not.", durations)
    waits = {key: count.waits for key, count in types.items()}
    yield _histogram("mayfly_job_wait_seconds", "From when jobs were due to when their handler began.", waits)


def _by_type(counters: Tally) -> dict[tuple[str, str], Count]:
    found: dict[tuple[str, str], Count] = {}
    for (lane, type_name, _outcome), count in sorted(counters.items()):
        found[lane, type_name] = found.get((lane, type_name), Count()).plus(count)
    return found


def of_lanes(lanes: Sequence[LaneView], targets: Mapping[str, float]) -> Iterator[Metric]:
    def by_lane(name: str, words: str, figure: Callable[[LaneView], float]) -> Metric:
        return _gauge(name, words, "lane", {each.lane: figure(each) for each in lanes})

    yield by_lane("mayfly_pending_jobs", f"Jobs that are due, {CAPPED}.", lambda lane: lane.pending.number)
    yield by_lane("mayfly_running_jobs", f"Jobs that runners hold, {CAPPED}.", lambda lane: lane.running.number)
    yield by_lane("mayfly_dead_jobs", f"Jobs that are dead, {CAPPED}.", lambda lane: lane.dead.number)
    waiting = "How long the oldest due job has waited."
    yield by_lane("mayfly_oldest_wait_seconds", waiting, lambda lane: lane.wait_seconds or 0.0)
    yield by_lane("mayfly_workers", "Runners alive, or with an unrecorded end.", lambda lane: lane.runners)
    yield by_lane("mayfly_lane_paused", "1 while the lane is paused.", lambda lane: bool(lane.paused))
    yield _gauge("mayfly_latency_target_seconds", "LATENCY_TARGET of the lane.", "lane", targets)


def of_cycles(cycles: Iterable[CycleCounts]) -> Iterator[Metric]:
    known, hosts = sorted(cycles), _by_host(cycles)
    ended = [((each.host, _exit_code(each)), each.cycles) for each in known]
    yield _counter("mayfly_cycles", "Dispatcher runs, by exit code.", ["host", "exit_code"], ended)
    duration = SummaryMetricFamily("mayfly_cycle_duration_seconds", "How long cycles took.", labels=["host"])
    for host, each in hosts.items():
        duration.add_metric([host], each.cycles, each.duration_ms / 1000)
    yield duration
    endings = [((host, ending), number) for host, each in hosts.items() for ending, number in _endings(each)]
    yield _counter("mayfly_workers_ended", "Runners that ended, and how.", ["host", "ending"], endings)
    for name, words, figure in (
        ("mayfly_jobs_rescued", "Jobs released from lost runners.", "rescued"),
        ("mayfly_deadlocks_retried", "Transactions repeated after a deadlock or a similar error.", "repeated"),
        ("mayfly_rows_pruned", "Old rows deleted.", "pruned"),
    ):
        yield _counter(name, words, ["host"], [([host], getattr(each, figure)) for host, each in hosts.items()])
    last = {host: each.last_at.timestamp() for host, each in hosts.items()}
    yield _gauge("mayfly_last_cycle_timestamp_seconds", "When the last cycle began.", "host", last)
    succeeded = {each.host: each.last_at.timestamp() for each in known if each.exit_code == 0}
    yield _gauge("mayfly_last_success_timestamp_seconds", "The same, of one with exit code 0.", "host", succeeded)


def _by_host(cycles: Iterable[CycleCounts]) -> dict[str, CycleCounts]:
    found: dict[str, CycleCounts] = {}
    for each in sorted(cycles):
        found[each.host] = found[each.host].plus(each) if each.host in found else each
    return found


def _exit_code(cycles: CycleCounts) -> str:
    return "none" if cycles.exit_code == NEVER_ENDED else str(cycles.exit_code)


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
