"""Actions of operators on jobs of rows: the row follows its job, in one transaction."""

from typing import Any

import pytest
from sqlalchemy import String, Table

import mayfly
from mayfly.admin.actions import CANCEL, DISCARD, RETRY, BulkResult, abandon_batch, act, open_sources
from mayfly.admin.filters import JobFilter
from mayfly.client import App
from mayfly.db.database import Database
from mayfly.errors import SourceUnusable
from mayfly.queue.batches import NewBatch, open_batch
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
