"""Two concurrent jobs of one blast: the table decides which of them mails an address."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any, cast

import pytest

from handlers.outreach import tables
from mayfly.db.database import Database
from mayfly.job import Job
from runner.guard import Guard
from runner.job_runtime import HandlerRuntime
from tests.handlers.outreach.audience import Tables

DEADLINE = 60.0
ADDRESSES = ["ann@example.com", "bob@example.com", "carl@example.com"]


@pytest.fixture
def jobs(platform_url: str) -> Iterator[tuple[Job, Job]]:
    """Each with its own connection."""
    databases = Database(platform_url), Database(platform_url)
    first, second = (Job(number, "send_outreach", "send_outreach", "{}", 1, 1, 1) for number in (1, 2))
    for job, database in zip((first, second), databases, strict=True):
        job.runtime = HandlerRuntime(database, f"worker-{job.id}", cast(Guard, None))
    yield first, second
    for database in databases:
        database.close()


@pytest.mark.every_database
def test_two_jobs_mail_no_address_twice(platform_url: str, jobs: tuple[Job, Job]) -> None:
    """The second starts before the first has committed. On every database."""
    is_inside, second_begins = Event(), Event()
    given: dict[str, set[str]] = {}

    def enqueue_first(_connection: Any, new: set[str]) -> None:
        given["first"] = new
        is_inside.set()
        assert second_begins.wait(DEADLINE)

    def write_second() -> None:
        assert is_inside.wait(DEADLINE)
        second_begins.set()
        addresses = ["dora@example.com", *reversed(ADDRESSES)]
        tables.record_recipients(jobs[1], "spring", addresses, lambda _c, new: given.update(second=new))

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(tables.record_recipients, jobs[0], "spring", ADDRESSES, enqueue_first)
        second = threads.submit(write_second)
        first.result(DEADLINE)
        second.result(DEADLINE)

    assert given == {"first": set(ADDRESSES), "second": {"dora@example.com"}}
    rows = Tables(platform_url).rows("SELECT address, job_id FROM app_blast_mails ORDER BY address")
    assert [tuple(row) for row in rows] == [*((each, 1) for each in ADDRESSES), ("dora@example.com", 2)]
