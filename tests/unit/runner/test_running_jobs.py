"""What runs beside the main thread: who may start beside whom."""

import asyncio
from math import inf
from pathlib import Path
from typing import NoReturn

import pytest

from mayfly.job import Job
from mayfly.process.status_page import StatusPage
from mayfly.registry import Handler, Registry
from runner.concurrent.executor import RunningJobs
from runner.guard import Guard, RunnerDeadline
from runner.job_runtime import RuntimeContext
from tests.factories import make_job


async def forever(_job: Job) -> None:
    await asyncio.Event().wait()


def no_database(*_: object) -> NoReturn:
    raise AssertionError("nobody asked for a transaction")


@pytest.fixture
def page(tmp_path: Path) -> StatusPage:
    return StatusPage(tmp_path / "worker-1-1.page")


@pytest.fixture
def runs(page: StatusPage) -> RunningJobs:
    registry = Registry({"fetch": Handler("fetch", forever, is_async=True)})
    context = RuntimeContext("worker-1-1", RunnerDeadline(Guard(inf, page), page))
    return RunningJobs(registry, page, 3, context, no_database, no_database)


def test_as_many_start_as_there_are_slots(runs: RunningJobs, page: StatusPage) -> None:
    """Each stands on the page; the next one has to wait, and no more are claimed."""
    jobs = [make_job(type="fetch") for _ in range(4)]

    assert [runs.start(job) for job in jobs] == [True, True, True, False]
    assert [each.job_id for each in page.read().running] == [job.id for job in jobs[:3]]
    assert runs.claimable(["fetch"]) == 0


def test_a_slot_is_free_again_when_its_run_has_ended(runs: RunningJobs, page: StatusPage) -> None:
    """On the page too."""
    assert all(runs.start(make_job(type="fetch")) for _ in range(3))
    runs.remove(next(iter(runs)), succeeded=True)

    assert (runs.claimable(["fetch"]), len(page.read().running), page.read().done) == (1, 2, 1)


def test_nobody_starts_beside_a_suspect(runs: RunningJobs) -> None:
    """Who dies with it could not be told from it; nor is anybody claimed to do so."""
    suspect = make_job(type="fetch", suspect=True)

    assert runs.start(suspect)
    assert not runs.start(make_job(type="fetch"))
    assert runs.claimable(["fetch"]) == 0


def test_a_suspect_waits_until_it_is_alone(runs: RunningJobs) -> None:
    """Though there are slots."""
    assert runs.start(make_job(type="fetch"))
    suspect = make_job(type="fetch", suspect=True)

    assert not runs.start(suspect)
    runs.remove(next(iter(runs)), succeeded=True)
    assert runs.start(suspect)
