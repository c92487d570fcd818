"""What is read about a job to say why it does not run."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mayfly.admin.job import diagnose
from mayfly.admin.why import JobDiagnosis, LaneState, explain
from mayfly.db.database import Database
from mayfly.errors import UnknownJob
from mayfly.fleet.cycles import KnownLane, open_cycle, record_passed_over
from mayfly.fleet.plan_lock import planning
from mayfly.process.identity import this_host
from mayfly.queue.pauses import Pause, pause
from mayfly.registry import Registry
from mayfly.settings import Settings, load_settings
from tests.database.factories import claim_jobs, insert_runner, run_sql
from tests.factories import get_row, insert_row, insert_rows

HOUR = timedelta(hours=1)


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("MAYFLY_HOME", str(tmp_path))
    monkeypatch.setenv("MAX_WORKERS", "7")
    return load_settings()


def look(database: Database, settings: Settings, job_id: int) -> JobDiagnosis:
    now = database.clock.now()
    return database.read(lambda c: diagnose(c, job_id, settings, Registry(failures={"a": "b"}), now))


def test_a_row_is_read_as_it_is(database: Database, settings: Settings) -> None:
    """With times in UTC and flags as flags; a job of an idle installation has nothing around it."""
    later = database.clock.now() + HOUR
    job_id = insert_row(database, run_at=later, suspect=1, waiting_for="a limit", expires_at=later)

    known = look(database, settings, job_id)

    stored = {name: getattr(get_row(database, job_id), name) for name in known.row._fields}
    assert known.row._asdict() == {**stored, "payload": json.loads(stored["payload"])}
    assert known.row.suspect is True
    assert (known.lane, known.pauses, known.host, known.last_cycle_at) == (LaneState(7), (), None, None)
    assert (known.planner, known.has_handler, known.broken_modules) == (None, False, {"a": "b"})


def test_a_job_that_never_was_is_a_sentence(database: Database, settings: Settings) -> None:
    """Or that is long gone."""
    with pytest.raises(UnknownJob, match="There is no job 999: it was never enqueued here"):
        look(database, settings, 999)


def test_all_around_it_is_read(database: Database, settings: Settings) -> None:
    """Pauses, runners of its lane, the last cycle, who plans, how often the lane was passed over."""
    job_id, now = insert_row(database, lane="mail"), database.clock.now()
    for kind, name in (("lane", "mail"), ("type", "noop"), ("lane", "other"), ("type", "sleep")):
        new = Pause(kind, name, now)
        database.run(lambda connection, new=new: pause(connection, new))  # type: ignore[misc]
    insert_runner(database, "worker-1", "mail")
    insert_runner(database, "worker-2", "other")
    database.run(lambda connection: open_cycle(connection, 7, "web1", now - HOUR))
    database.run(lambda connection: record_passed_over(connection, {"mail": KnownLane(2)}, ["mail"]))

    with planning(database, "web2"):
        known = look(database, settings, job_id)

    assert [(each.kind, each.name) for each in known.pauses] == [("lane", "mail"), ("type", "noop")]
    assert known.lane == LaneState(7, running=1, passed_over=3)
    assert (known.last_cycle_at, known.planner) == (now - HOUR, "web2")


def test_the_host_of_a_job_that_runs_is_known(database: Database, settings: Settings) -> None:
    """From the row of its runner."""
    job_id = insert_row(database)
    insert_runner(database)
    claim_jobs(database)

    known = look(database, settings, job_id)

    assert (known.row.status, known.host) == ("processing", "here")


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
def test_the_due_jobs_before_it_are_counted(
    database: Database, settings: Settings, others: dict[str, Any], before: int
) -> None:
    """As claims go: by priority, then by time, then by arrival."""
    run_at = database.clock.now() - HOUR
    insert_rows(database, **{"run_at": run_at, **others})
    job_id = insert_row(database, run_at=run_at)
    insert_rows(database, 2, run_at=run_at)
    insert_rows(database, 2, run_at=run_at + HOUR / 2)
    insert_rows(database, 2, priority=0, run_at=database.clock.now() + HOUR)

    assert look(database, settings, job_id).lane.jobs_before == before


def test_the_count_ends_where_it_is_enough(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over all priorities."""
    monkeypatch.setattr("mayfly.admin.job.MAX_JOBS_BEFORE", 4)
    insert_rows(database, 3, priority=0)
    insert_rows(database, 3)
    job_id = insert_row(database)

    lane = look(database, settings, job_id).lane

    assert (lane.jobs_before, lane.is_capped) == (4, True)


def test_a_job_without_a_slot_names_the_hosts_that_hold_them(database: Database, settings: Settings) -> None:
    """A host that was killed keeps its slots until its lease ends, and `why` says when that is."""
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

    [holder] = look(database, settings, job_id).slot_holders

    assert (holder.host, abs(holder.until - now - HOUR) < timedelta(minutes=1)) == ("gone", True)
    [said] = [reason for reason in explain(look(database, settings, job_id)) if reason.name == "slots"]
    assert said.text.startswith("It waits for slots of host gone until ")
