"""The filter in the address of a list of jobs."""

from datetime import UTC, datetime, timedelta

import pytest

from console.web.actions import command_for
from console.web.filters import PageFilter, filter_of, parse_future
from mayfly.admin.filters import JobFilter
from mayfly.errors import BadField

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)


def test_parameters_of_an_address_become_a_filter() -> None:
    """Empty and unknown parameters are ignored."""
    given = {"lane": " mail ", "type": "", "id": "3, 4", "since": "2h", "before": "2026-05-04T11:30", "after": "x"}

    found = filter_of(given)

    assert found.job_filter(NOW) == JobFilter(
        ids=(3, 4), lane="mail", created_after=NOW - timedelta(hours=2), created_before=NOW - timedelta(minutes=30)
    )
    assert found.query == {"lane": "mail", "id": "3, 4", "since": "2h", "before": "2026-05-04T11:30"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": "x"}, {"id": "0"}, {"id": "99999999999999999999"}, {"id": "1 OR 1=1"}, {"id": "٣"}, {"since": "2y"},
        {"since": "now"}, {"since": "999999w"}, {"status": "gone"}, {"type": "a\x00"}, {"ended": "'"},
        {"since": "0001-01-01T00:00:00+14:00"}, {"before": "9999-12-31T23:59:59-12:00"},
    ],
)  # fmt: skip
def test_invalid_values_are_refused(wrong: dict[str, str]) -> None:
    """Before they reach the database."""
    with pytest.raises(BadField):
        filter_of(wrong).job_filter(NOW)


def test_relative_times_can_be_fixed() -> None:
    """A filter that is confirmed hours later matches the same jobs."""
    fixed = PageFilter(lane="mail", ended="1h").with_fixed_times(NOW)

    assert fixed.job_filter(NOW + timedelta(hours=5)) == PageFilter(lane="mail", ended="1h").job_filter(NOW)


def test_future_times_are_relative_to_now() -> None:
    """A time without a zone is in UTC."""
    assert parse_future("until", "2h", NOW) == NOW + timedelta(hours=2)
    assert parse_future("until", "2026-05-04T13:00", NOW) == NOW + timedelta(hours=1)
    assert parse_future("until", "2026-05-04T13:00+02:00", NOW) == NOW - timedelta(hours=1)
    assert parse_future("until", "", NOW) is None


@pytest.mark.parametrize(
    ("page_filter", "is_narrow"),
    [(PageFilter(), False), (PageFilter(status="dead"), False), (PageFilter(lane="x"), True),
     (PageFilter(text="y"), True), (PageFilter(field="y"), True),
     (PageFilter(value="y"), False), (PageFilter(status="dead", error="f"), True)],
)  # fmt: skip
def test_acting_on_all_matching_jobs_needs_a_narrow_filter(page_filter: PageFilter, is_narrow: bool) -> None:
    """By more than the status."""
    assert page_filter.is_narrow is is_narrow


def test_a_text_may_name_a_payload_field() -> None:
    """As in `payload.order.id=7`, beside the field of the form."""
    found = PageFilter(text="payload.order.id=7", field="to", value="ann").job_filter(NOW)

    assert (found.text, found.payload) == (None, (("to", "ann"), ("order.id", "7")))
    assert PageFilter(text="payload x=7").job_filter(NOW) == JobFilter(text="payload x=7")


def test_the_equivalent_command_is_quoted_for_a_shell() -> None:
    """None if the command line has no such option."""
    assert command_for("retry", PageFilter(id="3,4")) == "mayfly retry 3 4"
    assert command_for("cancel", PageFilter(lane="a b", type="$(x)")) == "mayfly cancel --lane 'a b' --type '$(x)'"
    assert command_for("cancel", PageFilter(lane="x", since="1h")) is None
    assert command_for("retry", PageFilter(text="a b")) == "mayfly retry --text 'a b'"
    assert command_for("retry", PageFilter(text="payload.order.id=7")) == "mayfly retry --payload order.id=7"
    assert command_for("retry", PageFilter(field="to", value="a b")) == "mayfly retry --payload 'to=a b'"


def test_a_row_needs_its_source() -> None:
    """Tables have equal keys."""
    assert PageFilter(source="posts", row="7").job_filter(NOW) == JobFilter(source="posts", row="7")
    with pytest.raises(BadField, match="together with its source"):
        PageFilter(row="7").job_filter(NOW)
