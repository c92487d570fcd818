"""Jobs that are written down wrongly from Python: a sentence, and nothing is enqueued."""

from typing import Any

import pytest

import mayfly
from mayfly.db.database import Database
from mayfly.errors import BadField, BadJob
from mayfly.schema.metadata import jobs
from tests.database.factories import rows_of

pytestmark = pytest.mark.usefixtures("app")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("noop", "'n' is no job: write a mapping with a type"),
        ([7], "7 is no job"),
        ([{"payload": {}}], "{'payload': {}} is no job"),
        (
            [{"type": "noop", "lnae": "mail"}],
            "no other arguments than batch, delay, expires_at",
        ),
        ([{"type": "noop", "connection": None}], "is no job"),
    ],
)
def test_a_list_of_what_are_no_jobs(database: Database, given: Any, sentence: str) -> None:
    """Told in the words of whoever wrote it."""
    with pytest.raises(BadJob) as caught:
        mayfly.enqueue_many(given)

    assert sentence in str(caught.value)
    assert rows_of(database, jobs) == []


def test_a_batch_is_not_given_by_its_name(database: Database) -> None:
    """A name would be a group, and say nothing of whether there is such a batch."""
    with pytest.raises(BadField, match="batch='campaign': must be what"):
        mayfly.enqueue("noop", batch="campaign")  # type: ignore[arg-type]

    assert rows_of(database, jobs) == []
