"""Actions of operators on jobs of rows: the row follows its job, in one transaction."""

from typing import Any

import pytest
from sqlalchemy import String, Table

import mayfly
from mayfly.admin.actions import CANCEL, DISCARD, RETRY, BulkResult, abandon_batch, act, open_sources
from mayfly.admin.filters import JobFilter
from mayfly.admin.job import read_job
from mayfly.admin.jobs import RowView, list_jobs
from mayfly.client import App
from mayfly.db.database import Database
from mayfly.errors import NoJobsSelected, SourceUnusable
from mayfly.queue.batches import NewBatch, open_batch
from mayfly.registry import Registry
from tests.database.application_tables import (
    create_posts,
    insert_companion,
    make_source,
    make_sources,
    read_post,
    settings_with,
)
from tests.factories import get_row

IN_PROGRESS = {"id": 1, "status": "processing", "worker_id": "worker-1"}


@pytest.fixture
def posts(database: Database) -> Table:
    return create_posts(database, [IN_PROGRESS])


def test_a_cancelled_job_ends_its_row(database: Database, posts: Table) -> None:
    """The row of a waiting retry gets the value of `cancelled` and the time of its end."""
    job_id = insert_companion(database)

    done = act(database, CANCEL, JobFilter(ids=(job_id,)), sources=make_sources(database))

    row = read_post(database, posts)
    assert done == BulkResult(changed=1)
    assert get_row(database, job_id).status == "cancelled"
    assert row.status == "cancelled"
    assert row.published_at is not None


def test_a_running_job_ends_its_row_itself(database: Database, posts: Table) -> None:
    """It is only asked to stop: its row is written when it is settled."""
    job_id = insert_companion(database, status="processing", worker_id="worker-1")

    done = act(database, CANCEL, JobFilter(ids=(job_id,)), sources=make_sources(database))

    assert done == BulkResult(requested=1)
    assert read_post(database, posts).status == "processing"


def test_a_row_that_the_application_has_changed_is_left_alone(database: Database) -> None:
    """Changes by the application win over a cancellation."""
    posts = create_posts(database, [{"id": 1, "status": "on hold"}])

    act(database, CANCEL, JobFilter(ids=(insert_companion(database),)), sources=make_sources(database))

    assert read_post(database, posts).status == "on hold"


@pytest.mark.parametrize(("ended", "value"), [("dead", "failed"), ("cancelled", "cancelled")])
def test_a_retried_job_reopens_its_row(database: Database, ended: str, value: str) -> None:
    """The row has the value of `processing` again, so that the claim does not count it as changed."""
    posts = create_posts(database, [{"id": 1, "status": value}])
    job_id = insert_companion(database, status=ended, finished_at=database.clock.now())

    done = act(database, RETRY, JobFilter(ids=(job_id,)), sources=make_sources(database))

    assert done == BulkResult(changed=1)
    assert get_row(database, job_id).status == "pending"
    assert read_post(database, posts).status == "processing"


def test_a_discarded_job_leaves_its_row(database: Database) -> None:
    """The row is failed already; the application knows it by that value."""
    posts = create_posts(database, [{"id": 1, "status": "failed"}])
    job_id = insert_companion(database, status="dead")

    act(database, DISCARD, JobFilter(ids=(job_id,)), sources=make_sources(database))

    assert read_post(database, posts).status == "failed"


def test_job_and_row_change_together_or_not_at_all(database: Database) -> None:
    """If the row cannot be written, the job stays pending and the error names the source."""
    job_id = insert_companion(database)  # the table does not exist

    with pytest.raises(SourceUnusable, match="no table post_schedule"):
        act(database, CANCEL, JobFilter(ids=(job_id,)), sources=make_sources(database))

    assert get_row(database, job_id).status == "pending"


def test_an_abandoned_batch_ends_the_rows_of_its_jobs(database: Database, posts: Table) -> None:
    """It cancels its pending jobs like any cancellation."""
    database.run(lambda connection: open_batch(connection, NewBatch("campaign", None, database.clock.now())))
    insert_companion(database, group_key="campaign")

    abandon_batch(database, "campaign", "a mistake", sources=make_sources(database))

    assert read_post(database, posts).status == "cancelled"


def test_cancel_from_python_ends_the_row(app: App) -> None:
    """mayfly.cancel() reads the sources of its settings."""
    posts = create_posts(app.database, [IN_PROGRESS])
    app.settings = settings_with(make_source())
    job_id = insert_companion(app.database)

    mayfly.cancel(job_id)

    assert read_post(app.database, posts).status == "cancelled"


def test_without_sources_nothing_is_opened(database: Database) -> None:
    """Most installations have none."""
    assert open_sources(settings_with(), database) is None


def test_text_keys_are_found(database: Database) -> None:
    """A primary key may be text, such as a UUID."""
    key: Any = "0b5e-é:1"
    posts = create_posts(database, [{**IN_PROGRESS, "id": key}], id=String(36))

    act(database, CANCEL, JobFilter(ids=(insert_companion(database, key),)), sources=make_sources(database))

    assert read_post(database, posts, key).status == "cancelled"


# --- jobs by source and row -------------------------------------------------------------------------------


def found(database: Database, **fields: Any) -> list[int]:
    page = database.read(lambda connection: list_jobs(connection, JobFilter(**fields)))
    return sorted(each.id for each in page.jobs)


def test_jobs_are_found_by_source_and_row(database: Database) -> None:
    """An underscore in the name is no wildcard; one row may have had several jobs."""
    first, second = insert_companion(database, 1, "my_posts"), insert_companion(database, 12, "my_posts")
    ended = insert_companion(database, 1, "my_posts", status="done")
    insert_companion(database, 1, "myxposts")

    assert found(database, source="my_posts") == [first, second, ended]
    assert found(database, source="my_posts", row="1") == [first, ended]
    assert found(database, source="my_posts", row="1", status="pending") == [first]
    assert found(database, source="my_post") == []


def test_a_bulk_action_selects_by_source_and_row(database: Database) -> None:
    """Without a match in other sources."""
    meant, other = insert_companion(database, 1), insert_companion(database, 2)

    act(database, CANCEL, JobFilter(source="post_schedule", row="1"))

    assert (get_row(database, meant).status, get_row(database, other).status) == ("cancelled", "pending")


def test_a_row_needs_its_source(database: Database) -> None:
    """Keys of different tables are equal: a row alone selects no job, and is refused for actions."""
    insert_companion(database, 1)

    assert found(database, row="1") == []
    with pytest.raises(NoJobsSelected):
        act(database, CANCEL, JobFilter(row="1"))


def test_a_listed_job_has_its_row(database: Database) -> None:
    """None for a job that was enqueued."""
    insert_companion(database, "a:b")
    page = database.read(lambda connection: list_jobs(connection, JobFilter()))

    assert page.jobs[0].row == RowView("post_schedule", "a:b")


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        ("processing", "It comes from row 1 of the source post_schedule."),
        ("on hold", "which now has the status 'on hold': the job will be cancelled when it is claimed."),
        (None, "which no longer exists: the job will be cancelled when it is claimed."),
    ],
)
def test_why_knows_the_row_of_a_waiting_job(database: Database, status: str | None, sentence: str) -> None:
    """A row that the application has changed will not be processed."""
    create_posts(database, [{"id": 1, "status": status}] if status else [])
    job_id, now = insert_companion(database), database.clock.now()
    settings, registry = settings_with(make_source()), Registry()

    view = database.read(lambda connection: read_job(connection, job_id, settings, registry, now))

    assert view.facts()["row"] == {"source": "post_schedule", "key": "1"}
    assert view.reasons[-1].name == "row"
    assert view.reasons[-1].text.endswith(sentence)


def test_why_knows_that_another_worker_has_taken_the_row(database: Database) -> None:
    """Its job expects the worker that Mayfly has written there last."""
    create_posts(database, [{"id": 1, "status": "processing", "worker_id": "script"}])
    job_id, now = insert_companion(database, row_worker_id="worker-1"), database.clock.now()
    settings, registry = settings_with(make_source()), Registry()

    view = database.read(lambda connection: read_job(connection, job_id, settings, registry, now))

    assert "which now has the worker 'script': the job will be cancelled" in view.reasons[-1].text
