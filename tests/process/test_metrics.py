"""Metrics of real cycles: figures are correct, counters never decrease, and the file is always complete."""

import os
import re
import stat
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.process.installation import Installation

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def samples_in(text: str) -> Samples:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def metrics(installation: Installation) -> Samples:
    printed = installation.run("mayfly", "metrics")
    assert printed.returncode == 0, printed.stderr
    return samples_in(printed.stdout)


def value(samples: Samples, name: str, **labels: str) -> float | None:
    return samples.get((name, tuple(sorted(labels.items()))))


def jobs(samples: Samples, outcome: str, type_name: str = "noop") -> float | None:
    return value(samples, "mayfly_jobs_total", lane="default", type=type_name, outcome=outcome)


def test_metrics_report_outcomes_backlog_and_cycles(installation: Installation) -> None:
    """By lane and type, and by host and exit code."""
    installation.enqueue("noop", count=7)
    installation.enqueue("give_up")
    installation.dispatch(HOST_NAME="a")
    installation.enqueue("crash", lane="wild")
    installation.dispatch(HOST_NAME="a")
    installation.enqueue("noop", count=3, lane="mail")

    found = metrics(installation)

    assert (jobs(found, "done"), jobs(found, "dead"), jobs(found, "dead", "give_up")) == (7, 0, 1)
    assert value(found, "mayfly_jobs_total", lane="wild", type="crash", outcome="crashed") == 1
    assert value(found, "mayfly_job_duration_seconds_count", lane="default", type="noop") == 7
    assert value(found, "mayfly_job_wait_seconds_bucket", lane="default", type="noop", le="+Inf") == 7
    # Each job was due a minute before it ran.
    assert value(found, "mayfly_job_wait_seconds_bucket", lane="default", type="noop", le="20") == 0
    assert value(found, "mayfly_pending_jobs", lane="mail") == 3
    assert value(found, "mayfly_pending_jobs", lane="default") == 0
    assert 60 <= (value(found, "mayfly_oldest_wait_seconds", lane="mail") or 0) < 120
    assert value(found, "mayfly_workers", lane="mail") == 0
    assert value(found, "mayfly_cycles_total", host="a", exit_code="0") == 1
    assert value(found, "mayfly_cycles_total", host="a", exit_code="1") == 1
    assert value(found, "mayfly_cycle_duration_seconds_count", host="a") == 2
    assert value(found, "mayfly_workers_ended_total", host="a", ending="failed") == 1
    succeeded = value(found, "mayfly_last_success_timestamp_seconds", host="a")
    last = value(found, "mayfly_last_cycle_timestamp_seconds", host="a")
    assert succeeded is not None
    assert last is not None
    assert installation.now().timestamp() - 60 < succeeded < last


def test_counters_never_decrease(installation: Installation) -> None:
    """Not while runners work, not when a cycle adds them up, not when its rows are pruned."""
    installation.enqueue("noop", count=5)
    installation.dispatch()
    installation.enqueue("gated")
    working = installation.start("dispatcher")
    installation.wait_for_gate()
    seen = [metrics(installation)]
    installation.open_gate()
    working.wait(60)
    seen.append(metrics(installation))
    installation.dispatch(KEEP_CYCLES_DAYS="0.000001")
    seen.append(metrics(installation))

    assert [jobs(each, "done") for each in seen] == [5, 5, 5]
    assert [jobs(each, "done", "gated") for each in seen] == [None, 1, 1]
    for before, after in pairwise(seen):
        for key, number in before.items():
            if key[0].endswith(("_total", "_count", "_bucket")) and "host" not in dict(key[1]):
                assert after[key] >= number, key


def test_lost_leases_and_latency_targets_are_exported(embedded: Installation) -> None:
    """The first come from the totals, the second from the settings."""
    embedded.enqueue("noop")
    embedded.dispatch()
    row = "SELECT cycle_id, lane, type, 'lease lost', 'worker-1', 2, '{}', '{}' FROM mayfly_totals LIMIT 1"
    embedded.execute(
        f"INSERT INTO mayfly_totals (cycle_id, lane, type, outcome, worker_id, jobs, durations, waits) {row}"
    )

    printed = embedded.run("mayfly", "metrics", LANES__DEFAULT__LATENCY_TARGET="90s")

    found = samples_in(printed.stdout)
    assert value(found, "mayfly_leases_lost_total", lane="default", type="noop") == 2
    assert value(found, "mayfly_latency_target_seconds", lane="default") == 90
    assert jobs(found, "lease lost") is None


def test_a_missing_package_is_an_error_message(embedded: Installation) -> None:
    """It names the extra to install; the dispatcher works without it."""
    embedded.new_interpreters = True  # a warm process may have imported it
    embedded.enqueue("noop")
    hidden = embedded.home / "hidden" / "prometheus_client"
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").write_text("raise ModuleNotFoundError('prometheus_client')")
    path = f"{hidden.parent}:{embedded.environment()['PYTHONPATH']}"

    printed = embedded.run("mayfly", "metrics", PYTHONPATH=path)
    cycle = embedded.dispatch(PYTHONPATH=path, METRICS_TEXTFILE="x.prom")

    sentence = "Metrics need prometheus_client, which is not installed. Run `pip install 'mayfly-jobs[metrics]'`."
    assert (printed.returncode, printed.stderr) == (1, f"{sentence}\n")
    assert (cycle.returncode, cycle.stderr, embedded.statuses()) == (0, "", {"done": 1})
    assert f"ERROR: Sending metrics failed: {sentence}" in embedded.log


# --- the file for node_exporter ---------------------------------------------------------------------------


def test_every_cycle_writes_the_file(embedded: Installation) -> None:
    """An idle cycle too; it is readable by all users, and no temporary file is left."""
    directory = embedded.home / "textfile"
    directory.mkdir()
    file = directory / "mayfly.prom"
    for expected in (1, 2):
        assert embedded.dispatch(METRICS_TEXTFILE=str(file), HOST_NAME="a").returncode == 0

        assert value(samples_in(file.read_text()), "mayfly_cycles_total", host="a", exit_code="0") == expected
    assert [each.name for each in directory.iterdir()] == ["mayfly.prom"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o644


def test_the_file_is_replaced_atomically(embedded: Installation) -> None:
    """A reader that has opened the old file reads it to its end."""
    file = embedded.home / "mayfly.prom"
    file.write_text("old\n" * 1000)
    with file.open() as opened:
        embedded.dispatch(METRICS_TEXTFILE=str(file))

        assert opened.read() == "old\n" * 1000
    assert file.read_text().startswith("# HELP mayfly_jobs_total")


@pytest.mark.skipif(
    os.getuid() != 0, reason="as root, which ignores permissions, only a missing directory refuses the file"
)
def test_a_file_that_cannot_be_written_harms_no_cycle(embedded: Installation) -> None:
    """The log has an error, and the exit code is the cycle's."""
    cycle = embedded.dispatch(METRICS_TEXTFILE="nowhere/mayfly.prom")

    assert (cycle.returncode, cycle.stderr) == (0, "")
    assert re.search(r"ERROR: Sending metrics failed: METRICS_TEXTFILE .*/nowhere/mayfly.prom cannot", embedded.log)


def test_doctor_checks_the_directory(embedded: Installation) -> None:
    """A directory that does not exist is a problem."""
    printed = [embedded.run("mayfly", "doctor", METRICS_TEXTFILE=each).stdout for each in ("no/x.prom", "x.prom")]

    assert "problem  metrics" in re.sub(" +", "  ", printed[0])
    assert "written to" in printed[1]


def test_an_unmonitored_cycle_imports_no_monitoring_modules(embedded: Installation) -> None:
    """Neither an idle one nor one with work."""
    embedded.new_interpreters = True
    embedded.dispatch()  # leaves a snapshot of the settings: validating them imports much more
    embedded.enqueue("noop")
    watching = (
        "dispatcher.notify",
        "mayfly.alerts",
        "mayfly.monitoring.metrics",
        "prometheus_client",
        "opentelemetry",
        "http.client",
        "smtplib",
        "ssl",
    )

    worked = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "dispatcher"],
        env=embedded.environment(),
        cwd=Path("/"),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    modules = set(re.findall(r"\| +(\S+)$", worked.stderr, re.MULTILINE))
    assert "dispatcher.supervise" in modules
    assert [each for each in modules if each.startswith(watching)] == []
