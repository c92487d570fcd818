"""The filter in the address of a list of jobs."""

from datetime import UTC, datetime, timedelta

import pytest

from console.web.actions import command_for
from console.web.filters import PageFilter, filter_of, read_later
from mayfly.admin.filters import JobFilter
from mayfly.errors import BadField

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)


def test_an_address_says_which_jobs() -> None:
    """Empty parts say nothing, parts of others are left alone."""
    given = {"lane": " mail ", "type": "", "id": "3, 4", "since": "2h", "before": "2026-05-04T11:30", "after": "x"}

    found = filter_of(given)

    assert found.which(NOW) == JobFilter(
        ids=(3, 4), lane="mail", created_after=NOW - timedelta(hours=2), created_before=NOW - timedelta(minutes=30)
    )
    assert found.query == {"lane": "mail", "id": "3, 4", "since": "2h", "before": "2026-05-04T11:30"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": "x"}, {"id": "0"}, {"id": "99999999999999999999"}, {"id": "1 OR 1=1"}, {"id": "٣"}, {"since": "2y"},
        {"since": "now"}, {"since": "999999w"}, {"status": "gone"}, {"type": "a\x00"}, {"ended": "'"},
    ],
)  # fmt: skip
def test_what_is_wrong_is_a_sentence(wrong: dict[str, str]) -> None:
    """And never reaches the database."""
    with pytest.raises(BadField):
        filter_of(wrong).which(NOW)


def test_times_can_be_made_to_stay() -> None:
    """Somebody who thinks for an hour means the same jobs as before."""
    settled = PageFilter(lane="mail", ended="1h").settled(NOW)

    assert settled.which(NOW + timedelta(hours=5)) == PageFilter(lane="mail", ended="1h").which(NOW)


def test_later_is_from_now() -> None:
    """A time without a zone is in UTC."""
    assert read_later("until", "2h", NOW) == NOW + timedelta(hours=2)
    assert read_later("until", "2026-05-04T13:00", NOW) == NOW + timedelta(hours=1)
    assert read_later("until", "2026-05-04T13:00+02:00", NOW) == NOW - timedelta(hours=1)
    assert read_later("until", "", NOW) is None


@pytest.mark.parametrize(
    ("meant", "is_narrow"),
    [(PageFilter(), False), (PageFilter(status="dead"), False), (PageFilter(lane="x"), True),
     (PageFilter(lane="x", text="y"), False), (PageFilter(status="dead", error="f"), True)],
)  # fmt: skip
def test_all_that_match_is_meant_only_where_something_is_named(meant: PageFilter, is_narrow: bool) -> None:
    """That a verb can follow."""
    assert meant.is_narrow is is_narrow


def test_the_command_line_says_the_same() -> None:
    """Quoted for a shell; None where it has no words for it."""
    assert command_for("retry", PageFilter(id="3,4")) == "mayfly retry 3 4"
    assert command_for("cancel", PageFilter(lane="a b", type="$(x)")) == "mayfly cancel --lane 'a b' --type '$(x)'"
    assert command_for("cancel", PageFilter(lane="x", since="1h")) is None
