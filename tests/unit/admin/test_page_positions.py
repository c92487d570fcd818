"""Positions in an index: the condition for the rows after one, and its text in a URL."""

from datetime import UTC, datetime

import pytest

from mayfly.admin.filters import past, position_of, position_text, read_position
from mayfly.db.dialects import dialect_named
from mayfly.errors import BadField

AT = datetime(2026, 5, 4, 12, 0, 0, 123456, tzinfo=UTC)


def test_a_position_is_a_range_of_the_index() -> None:
    """The id only orders rows with the same time."""
    assert past(("run_at", "id"), "<", "after") == ("run_at <= :after_0 AND (run_at < :after_0 OR id < :after_1)")
    assert past(("id",), ">", "floor", or_equal=True) == "id >= :floor_0"


@pytest.mark.parametrize(
    ("dialect", "found", "text"),
    [
        ("postgresql", (7, AT, 42), "2026-05-04T12:00:00.123456~42"),
        ("mysql", (7, AT.replace(tzinfo=None), 42), "2026-05-04T12:00:00.123456~42"),
        ("sqlite", (7, "2026-05-04 12:00:00", 42), "2026-05-04T12:00:00~42"),
        ("sqlite", (7, "2026-05-04 12:00:00.000000", 42), "2026-05-04T12:00:00.000000~42"),
        ("sqlite", (7, 42), "42"),
    ],
)
def test_a_position_survives_a_round_trip_through_a_url(dialect: str, found: tuple[object, ...], text: str) -> None:
    """SQLite's times keep the digits with which they were written."""
    position = position_of(found)

    assert position_text(position) == text
    assert read_position(dialect_named(dialect), text, len(position)) == position


@pytest.mark.parametrize("text", ["", "~", "x", "1~2", "now~2", "2026-05-04T12:00:00~", "2026-05-04T12:00:00~1~2"])
def test_other_texts_are_not_positions(text: str) -> None:
    with pytest.raises(BadField, match="the `next` of the previous page"):
        read_position(dialect_named("sqlite"), text, 2)
