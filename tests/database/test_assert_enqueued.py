"""assert_enqueued(): finds jobs by part of their payload, or lists what was enqueued instead."""

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from freezegun import freeze_time

from mayfly import enqueue
from mayfly.testing import assert_enqueued, drain, using_database
from tests.factories import NOON


@pytest.fixture(autouse=True)
def _fresh(migrated_url: str) -> Iterator[None]:
    with using_database(migrated_url), freeze_time(NOON):
        yield


def test_matching_jobs_are_found() -> None:
    """By the given fields, in the order of enqueueing."""
    first = enqueue("mail", {"to": "ann", "subject": "hello"})
    enqueue("mail", {"to": "bob", "subject": "hello"})
    third = enqueue("mail", {"to": "ann", "subject": "bye"}, delay=60, group_key="g", lane="slow", priority=0)

    found = assert_enqueued("mail", {"to": "ann"})

    assert [job.id for job in found] == [first, third]
    assert (found[1].payload, found[1].run_at) == ({"to": "ann", "subject": "bye"}, NOON + timedelta(minutes=1))
    assert (found[1].lane, found[1].priority, found[1].group_key, found[1].status) == ("slow", 0, "g", "pending")


@pytest.mark.parametrize(
    "asked",
    [
        {"count": 2},
        {"lane": "slow", "count": 1},
        {"priority": 0, "count": 1},
        {"group_key": "g", "unique_key": "u", "count": 1},
        {"run_at": NOON + timedelta(minutes=1), "count": 1},
        {"status": "done", "count": 0},
        {"payload": {"to": "bob"}, "count": 0},
    ],
)
def test_columns_and_the_number_can_be_checked(asked: dict[str, Any]) -> None:
    """Exactly this number, including none."""
    enqueue("mail", {"to": "ann"})
    enqueue("mail", {"to": "ann"}, delay=60, unique_key="u", group_key="g", lane="slow", priority=0)

    assert len(assert_enqueued("mail", **asked)) == asked["count"]


def test_drained_jobs_were_enqueued() -> None:
    """Unless only pending ones are asked for."""
    enqueue("noop")
    drain()

    [job] = assert_enqueued("noop", status="done")

    assert job.attempts == 1
    with pytest.raises(AssertionError, match="No job of type 'noop' with status=pending was enqueued"):
        assert_enqueued("noop", status="pending")


def test_a_failure_lists_the_enqueued_jobs() -> None:
    """With everything that could explain it."""
    first = enqueue("mail", {"to": "bob"}, unique_key="welcome:7", delay=90)
    second = enqueue("noop", lane="slow")

    with pytest.raises(AssertionError) as caught:
        assert_enqueued("mail", {"to": "ann"}, lane="post")

    assert str(caught.value).splitlines() == [
        'No job of type \'mail\' with payload {"to":"ann"} and lane=post was enqueued.',
        "Enqueued jobs:",
        f'  {first} mail {{"to":"bob"}} lane=default unique_key=welcome:7 pending, due 2026-05-04 12:01:30',
        f"  {second} noop {{}} lane=slow pending, due 2026-05-04 12:00:00",
    ]


@pytest.mark.parametrize(
    ("enqueued", "count", "sentence"),
    [
        (0, None, "No job of type 'noop' was enqueued.\nNo jobs were enqueued."),
        (0, 1, "No job of type 'noop' was enqueued, not 1.\n"),
        (1, 0, "One job of type 'noop' was enqueued, not 0.\n"),
        (3, 2, "3 jobs of type 'noop' were enqueued, not 2.\n"),
    ],
)
def test_a_wrong_number_is_an_error(enqueued: int, count: int | None, sentence: str) -> None:
    """With the found and the expected number."""
    for _ in range(enqueued):
        enqueue("noop")

    with pytest.raises(AssertionError, match=re.escape(sentence)):
        assert_enqueued("noop", count=count)


def test_a_long_list_is_cut() -> None:
    """Twenty lines, each with the beginning of its payload."""
    for _ in range(23):
        enqueue("noop", {"text": "x" * 1000})

    with pytest.raises(AssertionError) as caught:
        assert_enqueued("mail")

    lines = str(caught.value).splitlines()
    assert (len(lines), lines[-1], max(map(len, lines)) < 300) == (23, "  and 3 more", True)
