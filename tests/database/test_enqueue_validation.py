"""Invalid jobs from Python: a sentence, and nothing is enqueued."""

from typing import Any

import pytest

import mayfly
from mayfly.db.database import Database
from mayfly.errors import BadField
from mayfly.schema.metadata import jobs
from tests.database.factories import rows_of

pytestmark = pytest.mark.usefixtures("app")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("noop", "job='n': must be a mapping with a type"),
        ([7], "job=7: must be a mapping with a type"),
        ([{"payload": {}}], "job={'payload': {}}: must be a mapping with a type"),
        (
            [{"type": "noop", "lnae": "mail"}],
            "no other keys than batch, delay, expires_at",
        ),
        ([{"type": "noop", "connection": None}], "must be a mapping"),
    ],
)
def test_an_invalid_list_of_jobs_is_an_error(database: Database, given: Any, sentence: str) -> None:
    """The sentence shows the given value."""
    with pytest.raises(BadField) as caught:
        mayfly.enqueue_many(given)

    assert sentence in str(caught.value)
    assert rows_of(database, jobs) == []


def test_a_batch_cannot_be_given_by_its_name(database: Database) -> None:
    """A name would be a group, whether or not there is such a batch."""
    with pytest.raises(BadField, match="batch='campaign': must be the value of"):
        mayfly.enqueue("noop", batch="campaign")  # type: ignore[arg-type]

    assert rows_of(database, jobs) == []
