"""Values as users read and write them: durations, times, counts, similar names; text on a terminal."""

import io
from datetime import UTC, datetime, timedelta, tzinfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.format import (
    did_you_mean,
    format_duration,
    has_colour,
    moment,
    one_line,
    painted,
    parse_duration,
    parse_time,
    plain,
    plural,
    table,
)
from tests.factories import NOON

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
SHOWN = {"ms": 0.001, "s": 1, "min": 60, "h": 3600, "days": 86_400}

# --- durations --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("5m", 300), ("2h", 7200), ("1d", 86_400), ("1w", 604_800), ("1.5h", 5400),
     ("1 h", 3600), ("0.25s", 0.25), ("0", 0)],
)  # fmt: skip
def test_a_duration_is_a_number_and_a_unit(text: str, seconds: float) -> None:
    """A number without a unit is in seconds."""
    assert parse_duration(text) == timedelta(seconds=seconds)


@given(st.integers(0, 999_999), st.sampled_from(sorted(SECONDS)))
def test_every_integer_of_a_unit_is_exact(number: int, unit: str) -> None:
    assert parse_duration(f"{number}{unit}") == number * timedelta(seconds=SECONDS[unit])


@pytest.mark.parametrize(
    "text", ["", "h", "-5m", "5 minutes", "5M", "1h30m", "٣h", "1e3", "1.h", " 5m", "nan", "9" * 10]
)
def test_any_other_text_is_not_a_duration(text: str) -> None:
    with pytest.raises(ValueError, match=r"^$"):
        parse_duration(text)


@given(st.text(max_size=12))
def test_any_text_is_a_duration_or_a_value_error(text: str) -> None:
    """A parsed duration is never negative."""
    try:
        found = parse_duration(text)
    except ValueError:
        return

    assert found >= timedelta(0)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(-5, "0 s"), (0, "0 s"), (119, "119 s"), (120, "2 min"), (7199, "119 min"), (7200, "2 h"), (172_799, "47 h"),
     (172_800, "2 days"), (8_640_000, "100 days")],
)  # fmt: skip
def test_a_duration_is_shown_in_the_largest_unit_with_at_least_two(seconds: int, shown: str) -> None:
    """A negative duration is shown as 0 s."""
    assert format_duration(timedelta(seconds=seconds)) == shown
    assert format_duration(seconds) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0 s"), (0.012, "12 ms"), (0.9994, "999 ms"), (0.9996, "1 s"), (3.44, "3.4 s"), (90, "90 s"),
     (119.94, "119.9 s"), (119.96, "2 min"), (600, "10 min")],
)  # fmt: skip
def test_a_measured_duration_has_milliseconds_and_tenths(seconds: float, shown: str) -> None:
    assert format_duration(seconds, precise=True) == shown


@given(st.floats(0, 4e8), st.booleans())
def test_a_shown_duration_is_close_to_the_true_one(seconds: float, precise: bool) -> None:
    """It is off by at most one unit and has at most nine characters."""
    shown = format_duration(seconds, precise=precise)
    number, unit = shown.split()

    assert abs(float(number) * SHOWN[unit] - seconds) <= SHOWN[unit]
    assert len(shown) <= 9


@given(st.floats(0, 4e8), st.floats(0, 4e8))
def test_a_longer_duration_is_not_shown_as_a_shorter_one(one: float, other: float) -> None:
    def shown(seconds: float) -> float:
        number, unit = format_duration(seconds).split()
        return float(number) * SHOWN[unit]

    assert shown(min(one, other)) <= shown(max(one, other))


@pytest.mark.parametrize(
    ("text", "zone", "utc"),
    [("2026-05-04T14:00+02:00", None, NOON), ("2026-05-04T12:00", UTC, NOON), ("2026-05-04T12:00Z", UTC, NOON)],
)
def test_a_time_is_parsed_with_its_zone(text: str, zone: tzinfo | None, utc: datetime) -> None:
    assert parse_time(text, zone) == utc


@pytest.mark.parametrize(
    ("text", "zone", "rule"),
    [("tomorrow", UTC, "with a zone"), ("", None, "with a zone"), ("2026-05-04T12:00", None, "with a zone"),
     ("0001-01-01T00:00:00+14:00", None, "within the years 1 to 9999 in UTC"),
     ("9999-12-31T23:59:59-12:00", UTC, "within the years 1 to 9999 in UTC")],
)  # fmt: skip
def test_a_time_without_a_zone_or_outside_of_utc_is_refused(text: str, zone: tzinfo | None, rule: str) -> None:
    """The text of the error is shown to users."""
    with pytest.raises(ValueError, match=rule):
        parse_time(text, zone)


def test_a_time_is_shown_in_utc() -> None:
    """To the second."""
    assert moment(NOON) == "2026-05-04 12:00:00 UTC"


# --- counts and names -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "shown"), [(0, "0 jobs"), (1, "1 job"), (2, "2 jobs"), (1000, "1,000 jobs"), (-1, "-1 jobs")]
)
def test_one_is_singular(number: int, shown: str) -> None:
    assert plural(number, "job") == shown


def test_a_similar_name_is_suggested() -> None:
    """The hint is a sentence that can follow another one."""
    assert did_you_mean("mial", ["sms", "mail"]) == " Did you mean 'mail'?"


def test_no_name_is_suggested_if_none_is_similar() -> None:
    assert did_you_mean("mail", ["x", "quarterly"]) == ""


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("as it is – äöü 漢", "as it is – äöü 漢"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("\x1b[2J", "\\x1b[2J"),
        ("\x9b31m", "\\x9b31m"),
        ("a\rb\x07\x00", "a\\rb\\x07\\x00"),
        ("‮evil", "\\u202eevil"),
    ],
)
def test_control_characters_are_escaped(given: str, shown: str) -> None:
    """Escape sequences, C1 controls, carriage returns and bidirectional overrides."""
    assert plain(given) == shown


def test_a_cell_is_one_line_of_limited_width() -> None:
    assert (one_line("a\n  b\tc"), one_line("abcdef", 4)) == ("a b c", "abc…")


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    """Trailing spaces are removed."""
    assert table([("id", "status", ""), ("1", "pending", "x"), ("100", "done", "")]) == (
        "id   status\n1    pending  x\n100  done"
    )


def test_a_pipe_gets_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does a terminal with NO_COLOR."""
    monkeypatch.delenv("NO_COLOR", raising=False)

    assert not has_colour(io.StringIO())
    assert (painted("a", "31", wanted=False), painted("a", "31", wanted=True)) == ("a", "\x1b[31ma\x1b[0m")
