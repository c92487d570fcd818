"""The Prometheus text format of the metrics."""

from datetime import datetime
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from mayfly.admin.jobs import CappedCount
from mayfly.admin.lanes import LaneView
from mayfly.admin.sources import SourceView
from mayfly.monitoring.metrics import MetricValues, prometheus_text
from mayfly.stats.histograms import BOUNDS, Count
from mayfly.stats.history import NEVER_ENDED, CycleCounts
from tests.factories import NOON


def exported_samples(**changes: Any) -> dict[str, float]:
    """Each sample by its name and labels, as in the text."""
    empty: dict[str, Any] = {"counters": {}, "cycles": [], "lanes": [], "targets": {}}
    text = prometheus_text(MetricValues(**{**empty, **changes})).decode()
    return {
        f"{sample.name}{{{labels_of(sample)}}}": sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def labels_of(sample: Any) -> str:
    return ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))


def make_cycles(
    host: str = "a", exit_code: int = 0, cycles: int = 1, at: datetime = NOON, **figures: int
) -> CycleCounts:
    usual = dict.fromkeys(("spawned", "successful", "timed_out", "rescued", "repeated", "pruned", "duration_ms"), 0)
    return CycleCounts(host, exit_code, at, cycles, **{**usual, **figures})


def make_lane(lane: str = "mail", due: int = 0, waits: float | None = None, **changes: Any) -> LaneView:
    empty: dict[str, Any] = dict.fromkeys(LaneView._fields)
    none = CappedCount()
    counted = {"pending": CappedCount(due), "claimed": none, "running": 0, "dead": none, "runners": 0}
    return LaneView(**{**empty, **counted, "lane": lane, "wait_seconds": waits, **changes})


def test_buckets_are_cumulative_and_the_last_one_is_inf() -> None:
    """The last bucket also holds longer durations, so it has no upper bound."""
    samples = exported_samples(counters={("mail", "send", "done"): Count(6, {1: 1, 20: 2, BOUNDS[-1]: 3})})

    name = "mayfly_job_duration_seconds_bucket{lane=mail,le=%s,type=send}"
    assert [samples[name % bound] for bound in ("0.001", "0.01", "0.02", "50000", "+Inf")] == [1, 1, 3, 3, 6]
    assert name % f"{BOUNDS[-1] / 1000:g}" not in samples
    assert samples["mayfly_job_duration_seconds_count{lane=mail,type=send}"] == 6


def test_all_outcomes_of_a_type_share_a_histogram() -> None:
    """The duration of a handler does not depend on the outcome of its job."""
    counters = {("mail", "send", "done"): Count(1, {1: 1}), ("mail", "send", "failed"): Count(2, {1: 2})}

    assert exported_samples(counters=counters)["mayfly_job_duration_seconds_count{lane=mail,type=send}"] == 3


def test_series_used_by_alert_rules_exist_from_the_start() -> None:
    """Prometheus sees no increase in the first value of a series."""
    samples = exported_samples(counters={("mail", "send", "done"): Count(1)})

    assert samples["mayfly_jobs_total{lane=mail,outcome=dead,type=send}"] == 0
    assert samples["mayfly_jobs_total{lane=mail,outcome=crashed,type=send}"] == 0
    assert samples["mayfly_leases_lost_total{lane=mail,type=send}"] == 0


def test_a_lost_lease_is_not_an_outcome() -> None:
    """The job is counted by the runner that holds it now."""
    samples = exported_samples(counters={("mail", "send", "lease lost"): Count(2)})

    assert samples["mayfly_leases_lost_total{lane=mail,type=send}"] == 2
    assert not [name for name in samples if "outcome=lease lost" in name]


def test_a_cycle_that_did_not_end_has_no_exit_code() -> None:
    """Not even -1."""
    samples = exported_samples(cycles=[make_cycles(exit_code=NEVER_ENDED, cycles=2)])

    assert samples["mayfly_cycles_total{exit_code=none,host=a}"] == 2
    assert "mayfly_last_success_timestamp_seconds{host=a}" not in samples


def test_a_host_is_reported_over_all_exit_codes() -> None:
    """The figures of its exit codes are added up; the last success is its own series."""
    good = make_cycles(cycles=3, spawned=5, successful=5, duration_ms=500)
    bad = make_cycles(exit_code=1, at=NOON.replace(hour=13), spawned=4, successful=1, timed_out=2, repeated=7)

    samples = exported_samples(cycles=[bad, good])

    assert samples["mayfly_cycle_duration_seconds_sum{host=a}"] == 0.5
    assert samples["mayfly_cycle_duration_seconds_count{host=a}"] == 4
    endings = ("ok", "timeout", "failed")
    assert [samples[f"mayfly_workers_ended_total{{ending={each},host=a}}"] for each in endings] == [6, 2, 1]
    assert samples["mayfly_deadlocks_retried_total{host=a}"] == 7
    assert samples["mayfly_last_cycle_timestamp_seconds{host=a}"] == bad.last_at.timestamp()
    assert samples["mayfly_last_success_timestamp_seconds{host=a}"] == good.last_at.timestamp()


def test_a_lane_without_due_jobs_has_a_wait_of_zero() -> None:
    """The series stays, since a series that comes and goes is hard to alert on."""
    samples = exported_samples(lanes=[make_lane(), make_lane("other", 3, 61.5, runners=2, paused="paused: down")])

    assert [samples[f"mayfly_pending_jobs{{lane={lane}}}"] for lane in ("mail", "other")] == [0, 3]
    assert [samples[f"mayfly_oldest_wait_seconds{{lane={lane}}}"] for lane in ("mail", "other")] == [0, 61.5]
    assert [samples[f"mayfly_workers{{lane={lane}}}"] for lane in ("mail", "other")] == [0, 2]
    assert [samples[f"mayfly_lane_paused{{lane={lane}}}"] for lane in ("mail", "other")] == [0, 1]


def test_label_values_are_escaped() -> None:
    """Types can be inserted by SQL and contain any character."""
    samples = exported_samples(counters={('a"b\\c', "d\ne", "done"): Count(1)})

    assert samples['mayfly_jobs_total{lane=a"b\\c,outcome=done,type=d\ne}'] == 1


def test_sources_have_their_due_rows() -> None:
    """A source that cannot be used has no samples: 0 would mean that no row waits."""
    usable = SourceView("posts", "posts", "posts", "publish", CappedCount(1000, is_more=True), None, 90.0)
    text = prometheus_text(
        MetricValues({}, [], [], {}, [usable, usable._replace(source="broken", problem="no table")])
    ).decode()

    assert 'mayfly_source_due_rows{source="posts"} 1000.0\n' in text
    assert 'mayfly_source_oldest_due_seconds{source="posts"} 90.0\n' in text
    assert "broken" not in text
