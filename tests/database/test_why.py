"""What is read about a job to explain why it does not run."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mayfly.admin.job import diagnose
from mayfly.admin.jobs import CappedCount
from mayfly.admin.why import JobDiagnosis, LaneState, explain
from mayfly.db.database import Database
from mayfly.errors import UnknownJob
from mayfly.fleet.cycles import KnownLane, open_cycle, record_passed_over
from mayfly.process.identity import this_host
from mayfly.queue.outcome import Failure, Settlement, Snooze
from mayfly.queue.pauses import Pause, pause
from mayfly.queue.policy import Backoff, RetryContext, after_control, after_crash, after_failure
from mayfly.queue.settle import settle
from mayfly.registry import Registry
from mayfly.settings import Settings, load_settings
from tests.database.factories import claim_jobs, insert_runner, make_settler, run_sql
from tests.factories import get_row, insert_row, insert_rows

HOUR = timedelta(hours=1)


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("MAYFLY_HOME", str(tmp_path))
    monkeypatch.setenv("MAX_WORKERS", "7")
    return load_settings()


def diagnose_job(database: Database, settings: Settings, job_id: int) -> JobDiagnosis:
    now = database.clock.now()
    return database.read(lambda c: diagnose(c, job_id, settings, Registry(failures={"a": "b"}), now))


def test_the_row_is_read(database: Database, settings: Settings) -> None:
    """Times in UTC and flags as booleans; an idle installation has no pauses or runners."""
    later = database.clock.now() + HOUR
    job_id = insert_row(database, run_at=later, suspect=1, waiting_for="a limit", expires_at=later)

    diagnosis = diagnose_job(database, settings, job_id)

    stored = {name: getattr(get_row(database, job_id), name) for name in diagnosis.row._fields}
    assert diagnosis.row._asdict() == {**stored, "payload": json.loads(stored["payload"])}
    assert diagnosis.row.suspect is True
    assert (diagnosis.lane, diagnosis.pauses, diagnosis.host, diagnosis.last_cycle_at) == (
        LaneState(7),
        (),
        None,
        None,
    )
    assert (diagnosis.has_handler, diagnosis.broken_modules) == (False, {"a": "b"})


def test_the_reason_of_a_snooze_is_shown(database: Database, settings: Settings) -> None:
    """Until the job is due again."""
    job_id = insert_row(database)
    [job] = claim_jobs(database)
    snooze = Snooze(after=HOUR, reason="The API is closed on Sundays.")
    retry = RetryContext(database.clock.now(), Backoff())
    outcome = after_control(job, snooze, Failure.from_reason(str(snooze)), retry)
    settle(database, make_settler(), [Settlement(job, outcome, 1)], {})

    [reason] = explain(diagnose_job(database, settings, job_id))

    assert reason.text.startswith("It waits: The API is closed on Sundays. It is due in 60 min, at ")


@pytest.mark.parametrize("ends_with_runner", [True, False])
def test_the_cause_of_the_last_runner_is_read(database: Database, settings: Settings, ends_with_runner: bool) -> None:
    """A failed attempt ended before its runner did: another job may have crashed that."""
    job_id = insert_row(database)
    [job] = claim_jobs(database)
    retry = RetryContext(database.clock.now(), Backoff())
    failed = after_failure(job, Failure.from_reason("no"), retry)
    outcome = after_crash(job, "killed by signal 9", retry) if ends_with_runner else failed
    settle(database, make_settler(), [Settlement(job, outcome, 1)], {})
    insert_runner(database)
    run_sql(database, "UPDATE mayfly_runners SET launcher = 'slurm', cause = 'out of memory'")

    found = diagnose_job(database, settings, job_id).runner_cause

    assert found == (("worker-1", "slurm", "out of memory") if ends_with_runner else None)


def test_an_unknown_job_is_an_error(database: Database, settings: Settings) -> None:
    """It never existed or was pruned."""
    with pytest.raises(UnknownJob, match="There is no job 999: it was never enqueued here"):
        diagnose_job(database, settings, 999)


def test_the_state_of_the_installation_is_read(database: Database, settings: Settings) -> None:
    """Pauses, runners of the lane, the last cycle, and how often the lane was passed over."""
    job_id, now = insert_row(database, lane="mail"), database.clock.now()
    for kind, name in (("lane", "mail"), ("type", "noop"), ("lane", "other"), ("type", "sleep")):
        new = Pause(kind, name, now)
        database.run(lambda connection, new=new: pause(connection, new))  # type: ignore[misc]
    insert_runner(database, "worker-1", "mail")
    insert_runner(database, "worker-2", "other")
    database.run(lambda connection: open_cycle(connection, 7, "web1", now - HOUR))
    database.run(lambda connection: record_passed_over(connection, {"mail": KnownLane(2)}, ["mail"]))

    diagnosis = diagnose_job(database, settings, job_id)

    assert [(each.kind, each.name) for each in diagnosis.pauses] == [("lane", "mail"), ("type", "noop")]
    assert diagnosis.lane == LaneState(7, running=1, passed_over=3)
    assert diagnosis.last_cycle_at == now - HOUR


def test_the_host_of_a_running_job_is_read(database: Database, settings: Settings) -> None:
    """From the row of its runner."""
    job_id = insert_row(database)
    insert_runner(database)
    claim_jobs(database)

    diagnosis = diagnose_job(database, settings, job_id)

    assert (diagnosis.row.status, diagnosis.host) == ("processing", "here")


@pytest.mark.parametrize(
    ("others", "before"),
    [
        ({"count": 3, "priority": 0}, 3),
        ({"count": 3, "priority": 2}, 0),
        ({"count": 3, "lane": "other"}, 0),
        ({"count": 3, "status": "done"}, 0),
        ({"count": 3}, 3),
    ],
)
def test_due_jobs_before_it_are_counted(
    database: Database, settings: Settings, others: dict[str, Any], before: int
) -> None:
    """In claim order: priority, run_at, id."""
    run_at = database.clock.now() - HOUR
    insert_rows(database, **{"run_at": run_at, **others})
    job_id = insert_row(database, run_at=run_at)
    insert_rows(database, 2, run_at=run_at)
    insert_rows(database, 2, run_at=run_at + HOUR / 2)
    insert_rows(database, 2, priority=0, run_at=database.clock.now() + HOUR)

    assert diagnose_job(database, settings, job_id).lane.jobs_before == CappedCount(before)


def test_the_count_of_jobs_before_it_is_capped(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over all priorities."""
    monkeypatch.setattr("mayfly.admin.job.MAX_JOBS_BEFORE", 4)
    insert_rows(database, 3, priority=0)
    insert_rows(database, 3)
    job_id = insert_row(database)

    lane = diagnose_job(database, settings, job_id).lane

    assert lane.jobs_before == CappedCount(4, is_more=True)


def test_a_job_without_a_slot_names_the_hosts_that_hold_them(database: Database, settings: Settings) -> None:
    """A killed host keeps its slots until its lease ends, and `why` shows when."""
    now = database.clock.now()
    insert_runner(database, "worker-1", place=this_host("gone"), lease_seconds=3600)
    insert_runner(database, "worker-2", place=this_host("over"), lease_seconds=-3600)
    for worker_id in ("worker-1", "worker-2"):
        run_sql(
            database,
            "INSERT INTO mayfly_slots (limit_key, worker_id, held, lease_until)"
            f" VALUES ('room', '{worker_id}', 1, '2026-01-01 00:00:00.000000')",
        )
    job_id = insert_row(database, run_at=now + HOUR, waiting_for="limit room: 2 of 2 in use")

    diagnosis = diagnose_job(database, settings, job_id)

    [(host, until)] = diagnosis.slot_holders.items()
    assert (host, abs(until - now - HOUR) < timedelta(minutes=1)) == ("gone", True)
    [slots] = [reason for reason in explain(diagnosis) if reason.name == "slots"]
    assert slots.text.startswith("It waits for slots of host gone until ")
