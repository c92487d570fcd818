"""Figures as Prometheus reads them."""

from datetime import datetime
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from mayfly.admin.jobs import CappedCount
from mayfly.admin.lanes import LaneView
from mayfly.monitoring.metrics import MetricValues
from mayfly.monitoring.prometheus import prometheus_text
from mayfly.stats.histograms import BOUNDS, Count
from mayfly.stats.history import NEVER_ENDED, CycleCounts
from tests.factories import NOON


def told(**changes: Any) -> dict[str, float]:
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
    counted = {"pending": CappedCount(due), "running": CappedCount(), "dead": CappedCount(), "runners": 0}
    return LaneView(**{**empty, **counted, "lane": lane, "wait_seconds": waits, **changes})


def test_buckets_add_up_and_the_last_has_no_bound() -> None:
    """What took longer than the largest bound is in it too, so it must not claim to be below that."""
    samples = told(counters={("mail", "send", "done"): Count(6, {1: 1, 20: 2, BOUNDS[-1]: 3})})

    name = "mayfly_job_duration_seconds_bucket{lane=mail,le=%s,type=send}"
    assert [samples[name % bound] for bound in ("0.001", "0.01", "0.02", "50000", "+Inf")] == [1, 1, 3, 3, 6]
    assert name % f"{BOUNDS[-1] / 1000:g}" not in samples
    assert samples["mayfly_job_duration_seconds_count{lane=mail,type=send}"] == 6


def test_all_outcomes_of_a_type_share_a_histogram() -> None:
    """How long a handler takes does not depend on what its job is called afterwards."""
    counters = {("mail", "send", "done"): Count(1, {1: 1}), ("mail", "send", "failed"): Count(2, {1: 2})}

    assert told(counters=counters)["mayfly_job_duration_seconds_count{lane=mail,type=send}"] == 3


def test_what_rules_ask_for_is_there_before_it_happens() -> None:
    """Prometheus sees no increase in the first value of a figure."""
    samples = told(counters={("mail", "send", "done"): Count(1)})

    assert samples["mayfly_jobs_total{lane=mail,outcome=dead,type=send}"] == 0
    assert samples["mayfly_jobs_total{lane=mail,outcome=crashed,type=send}"] == 0
    assert samples["mayfly_leases_lost_total{lane=mail,type=send}"] == 0


def test_lost_leases_are_no_outcome() -> None:
    """The job itself is counted by whoever has it now."""
    samples = told(counters={("mail", "send", "lease lost"): Count(2)})

    assert samples["mayfly_leases_lost_total{lane=mail,type=send}"] == 2
    assert not [name for name in samples if "outcome=lease lost" in name]


def test_a_cycle_that_never_ended_has_no_exit_code() -> None:
    """Not even -1."""
    samples = told(cycles=[make_cycles(exit_code=NEVER_ENDED, cycles=2)])

    assert samples["mayfly_cycles_total{exit_code=none,host=a}"] == 2
    assert "mayfly_last_success_timestamp_seconds{host=a}" not in samples


def test_a_host_is_told_whole_whatever_its_cycles_ended_with() -> None:
    """The figures of all its exit codes together, the last success by itself."""
    good = make_cycles(cycles=3, spawned=5, successful=5, duration_ms=500)
    bad = make_cycles(exit_code=1, at=NOON.replace(hour=13), spawned=4, successful=1, timed_out=2, repeated=7)

    samples = told(cycles=[bad, good])

    assert samples["mayfly_cycle_duration_seconds_sum{host=a}"] == 0.5
    assert samples["mayfly_cycle_duration_seconds_count{host=a}"] == 4
    endings = ("ok", "timeout", "failed")
    assert [samples[f"mayfly_workers_ended_total{{ending={each},host=a}}"] for each in endings] == [6, 2, 1]
    assert samples["mayfly_deadlocks_retried_total{host=a}"] == 7
    assert samples["mayfly_last_cycle_timestamp_seconds{host=a}"] == bad.last_at.timestamp()
    assert samples["mayfly_last_success_timestamp_seconds{host=a}"] == good.last_at.timestamp()


def test_a_lane_without_due_jobs_waits_for_nothing() -> None:
    """It is told all the same: a figure that comes and goes is hard to alert on."""
    samples = told(lanes=[make_lane(), make_lane("other", 3, 61.5, runners=2, paused="paused: down")])

    assert [samples[f"mayfly_pending_jobs{{lane={lane}}}"] for lane in ("mail", "other")] == [0, 3]
    assert [samples[f"mayfly_oldest_wait_seconds{{lane={lane}}}"] for lane in ("mail", "other")] == [0, 61.5]
    assert [samples[f"mayfly_workers{{lane={lane}}}"] for lane in ("mail", "other")] == [0, 2]
    assert [samples[f"mayfly_lane_paused{{lane={lane}}}"] for lane in ("mail", "other")] == [0, 1]


def test_names_of_all_kinds_are_escaped() -> None:
    """Types come by plain SQL, with whatever is in them."""
    samples = told(counters={('a"b\\c', "d\ne", "done"): Count(1)})

    assert samples['mayfly_jobs_total{lane=a"b\\c,outcome=done,type=d\ne}'] == 1
