"""Concurrent jobs of a runner: which may run together."""

from pathlib import Path
from typing import cast
from unittest.mock import Mock

import pytest

from mayfly.job import Job
from mayfly.process.status_page import StatusPage
from mayfly.registry import Handler, Registry
from runner.concurrent_batch import RunningJobs
from runner.execution import ThreadExecutor
from tests.factories import make_job


def fetch(job: Job) -> None: ...


@pytest.fixture
def page(tmp_path: Path) -> StatusPage:
    return StatusPage(tmp_path / "worker-1-1.page")


@pytest.fixture
def runs(page: StatusPage) -> RunningJobs:
    registry = Registry({"fetch": Handler("fetch", fetch, is_async=True)})
    return RunningJobs(registry, page, 3, lambda _is_async, _mailbox: cast(ThreadExecutor, Mock()))


def test_as_many_jobs_start_as_there_are_slots(runs: RunningJobs, page: StatusPage) -> None:
    """Each is on the status page; the next one waits, and no more are claimed."""
    jobs = [make_job(type="fetch") for _ in range(4)]

    assert [runs.start(job) for job in jobs] == [True, True, True, False]
    assert [each.job_id for each in page.read().running] == [job.id for job in jobs[:3]]
    assert runs.claimable(["fetch"]) == 0


def test_a_slot_is_free_when_its_job_has_ended(runs: RunningJobs, page: StatusPage) -> None:
    """It is free on the status page too."""
    assert all(runs.start(make_job(type="fetch")) for _ in range(3))
    runs.remove(next(iter(runs)), succeeded=True)

    assert (runs.claimable(["fetch"]), len(page.read().running), page.read().done) == (1, 2, 1)


def test_no_job_starts_beside_a_suspect(runs: RunningJobs) -> None:
    """A crash could not be attributed to one of them; nor is another job claimed."""
    suspect = make_job(type="fetch", suspect=True)

    assert runs.start(suspect)
    assert not runs.start(make_job(type="fetch"))
    assert runs.claimable(["fetch"]) == 0


def test_a_suspect_waits_until_no_other_job_runs(runs: RunningJobs) -> None:
    """Even if there are free slots."""
    assert runs.start(make_job(type="fetch"))
    suspect = make_job(type="fetch", suspect=True)

    assert not runs.start(suspect)
    runs.remove(next(iter(runs)), succeeded=True)
    assert runs.start(suspect)
