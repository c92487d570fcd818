"""When a rule is due, in every zone, especially on days with a clock change."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from mayfly.schedules.cron import due_times, last_due, next_due
from tests.hypothesis_profiles import in_full
from tests.unit.schedules.wall_clock import DAY, Rule, changes_of, due_by_wall_clock

ZONES = sorted(available_timezones() - {"localtime"})
BERLIN = ZoneInfo("Europe/Berlin")
HOUR = timedelta(hours=1)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def local_times(due: list[datetime], zone: ZoneInfo = BERLIN) -> list[str]:
    """As a clock in the zone shows them."""
    return [each.astimezone(zone).strftime("%d %H:%M %Z") for each in due]


def due_within(expression: str, zone: ZoneInfo, after: datetime, until: datetime) -> list[datetime]:
    found = []
    for due in due_times(expression, zone, after):
        if due > until:
            break
        found.append(due)
    return found


# --- examples ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("30 2 * * *", ["29 03:00 CEST", "30 02:30 CEST"]),
        ("0,15,30 2 * * *", ["29 03:00 CEST", "30 02:00 CEST"]),
        ("30 2,3 * * *", ["29 03:00 CEST", "29 03:30 CEST"]),
        ("0 2,3 * * *", ["29 03:00 CEST", "30 02:00 CEST"]),
        ("*/30 2 * * *", ["30 02:00 CEST", "30 02:30 CEST"]),
        ("30 * * * *", ["29 00:30 CET", "29 01:30 CET", "29 03:30 CEST"]),
    ],
)
def test_a_local_time_that_does_not_exist_is_due_once(expression: str, expected: list[str]) -> None:
    """The rule is due at the next minute that exists; a rule with a star follows real time."""
    assert local_times(next_due(expression, BERLIN, at("2026-03-28T23:00"), len(expected))) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("30 2 * * *", ["25 02:30 CEST", "26 02:30 CET"]),
        ("0,30 2 * * *", ["25 02:00 CEST", "25 02:30 CEST", "26 02:00 CET"]),
        ("*/30 2 * * *", ["25 02:00 CEST", "25 02:30 CEST", "25 02:00 CET", "25 02:30 CET", "26 02:00 CET"]),
        ("0 * * * *", ["25 01:00 CEST", "25 02:00 CEST", "25 02:00 CET", "25 03:00 CET"]),
    ],
)
def test_a_local_time_that_occurs_twice_is_due_once(expression: str, expected: list[str]) -> None:
    """The rule is due the first time only; a rule with a star follows real time."""
    assert local_times(next_due(expression, BERLIN, at("2026-10-24T22:30"), len(expected))) == expected


def test_the_second_occurrence_of_a_local_time_is_not_due() -> None:
    """A cycle at the second 02:10 does not run 02:15 again, which was due an hour ago."""
    assert local_times(next_due("15 2 * * *", BERLIN, at("2026-10-25T01:10"))) == ["26 02:15 CET"]


def test_a_rule_is_due_after_a_day_that_a_zone_skipped() -> None:
    """Samoa had no 30 December 2011: its noon is the first minute of the 31st."""
    apia = ZoneInfo("Pacific/Apia")

    due = next_due("0 12 * * *", apia, at("2011-12-29T12:00"), 3)

    assert local_times(due, apia) == ["29 12:00 -10", "31 00:00 +14", "31 12:00 +14"]


def test_a_clock_change_of_half_an_hour() -> None:
    """Lord Howe sets its clocks back from 02:00 to 01:30."""
    howe = ZoneInfo("Australia/Lord_Howe")

    assert local_times(next_due("45 1 * * *", howe, at("2026-04-04T14:35"), 2), howe) == [
        "05 01:45 +11",
        "06 01:45 +1030",
    ]


def test_a_rule_can_be_due_on_a_leap_day() -> None:
    """The due times are years apart."""
    assert next_due("0 0 29 2 *", ZoneInfo("UTC"), at("2026-05-04T12:00"), 2) == [at("2028-02-29"), at("2032-02-29")]


def test_a_rule_has_no_due_times_after_the_calendar_ends() -> None:
    """The list is empty and no error is raised."""
    assert next_due("0 0 1 1 *", ZoneInfo("UTC"), at("9999-06-01"), 1) == []


def test_a_rule_is_due_strictly_after_its_last_time() -> None:
    """A time that is due now is not due a second time."""
    assert next_due("0 12 * * *", BERLIN, at("2026-05-04T10:00")) == [at("2026-05-05T10:00")]
    assert next_due("0 12 * * *", BERLIN, at("2026-05-04T09:59:59.999999")) == [at("2026-05-04T10:00")]


# --- the latest due time ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "after", "until", "expected"),
    [
        ("* * * * *", "1990-01-01", "2026-05-04T12:00:05", "2026-05-04T12:00"),
        ("0 0 29 2 *", "1990-01-01", "2026-05-04T12:00:05", "2024-02-28T23:00"),
        ("0 12 * * *", "2026-05-04T09:00", "2026-05-04T10:00", "2026-05-04T10:00"),
        ("0 12 * * *", "2026-05-04T10:00", "2026-05-05T09:59", None),
        ("0 12 * * *", "2026-05-06T10:00", "2026-05-05T10:30", None),
    ],
)
def test_the_latest_due_time_is_found(expression: str, after: str, until: str, expected: str | None) -> None:
    """However long ago the previous one was; there is none between two due times or after the clock went back."""
    found = last_due(expression, BERLIN, at(after), at(until))

    assert found == (at(expected) if expected else None)


@given(
    st.sampled_from(["* * * * *", "7 * * * *", "30 2 * * *", "0 9 * * 1", "0 0 1 * *"]),
    st.timedeltas(timedelta(0), timedelta(days=365)),
    st.timedeltas(timedelta(0), timedelta(days=3)),
)
def test_the_latest_due_time_is_the_last_of_all_due_times(
    expression: str, into_the_year: timedelta, span: timedelta
) -> None:
    """It equals the last one found by counting."""
    after = at("2026-01-01") + into_the_year

    assert last_due(expression, BERLIN, after, after + span) == next(
        reversed(due_within(expression, BERLIN, after, after + span)), None
    )


# --- every zone -------------------------------------------------------------------------------------------


def numbers(low: int, high: int) -> st.SearchStrategy[frozenset[int]]:
    return st.frozensets(st.integers(low, high), min_size=1, max_size=4)


def written(values: frozenset[int]) -> str:
    return ",".join(map(str, sorted(values)))


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    step = draw(st.sampled_from([None, None, 1, 7, 20]))
    minutes = frozenset(range(0, 60, step)) if step else draw(numbers(0, 59))
    every_hour = draw(st.booleans())
    hours = frozenset(range(24)) if every_hour else draw(numbers(0, 4) | numbers(0, 23))
    days = draw(st.none() | numbers(1, 31) | st.just(frozenset(range(1, 32, 2))))
    fields = (f"*/{step}" if step else written(minutes), "*" if every_hour else written(hours))
    text = f"{fields[0]} {fields[1]} {written(days) if days else '*'} * *"
    return Rule(minutes, hours, days, starred=every_hour or step is not None, text=text)


def offset_of(name: str, at: datetime) -> timedelta:
    return at.astimezone(ZoneInfo(name)).utcoffset() or timedelta(0)


@st.composite
def moments(draw: st.DrawFn) -> tuple[str, datetime]:
    """A zone, and an instant near a clock change if it has one in that year.

    Zones with changes within an hour are excluded: cronsim steps by full hours.
    """
    name, year = draw(st.sampled_from(ZONES)), draw(st.integers(1980, 2037))
    changes = changes_of(ZoneInfo(name), year)
    assume(all(offset_of(name, each + shift) % HOUR == timedelta(0) for each in changes for shift in (-DAY, DAY)))
    near = draw(st.sampled_from(changes)) if changes else datetime(year, 6, 1, tzinfo=UTC)
    return name, near + draw(st.timedeltas(-DAY, DAY / 2))


@in_full(400)
@given(moments(), rules())
@example(
    ("America/Sao_Paulo", at("2017-10-14T20:00")), Rule(frozenset({0}), frozenset({0}), None, False, "0 0 * * *")
)
@example(
    ("Africa/Casablanca", at("2026-02-14T20:00")), Rule(frozenset({30}), frozenset({2}), None, False, "30 2 * * *")
)
@example(
    ("Pacific/Kwajalein", at("1993-08-20T20:00")), Rule(frozenset({5}), frozenset({9}), None, False, "5 9 * * *")
)
@example(
    ("Portugal", at("1981-03-28T00:00")),
    Rule(frozenset(range(60)), frozenset({0}), frozenset({29}), True, "*/1 0 29 * *"),
)
@example(
    ("Portugal", at("1981-03-28T00:00")),
    Rule(frozenset({0, 20, 40}), frozenset(range(24)), frozenset({29}), True, "*/20 * 29 * *"),
)
def test_in_every_zone_a_rule_is_due_when_the_wall_clock_matches(moment: tuple[str, datetime], rule: Rule) -> None:
    """Two days around a change: skipped or repeated times run once, rules with stars follow real time."""
    name, after = moment
    until = after + 2 * DAY

    assert due_within(rule.text, ZoneInfo(name), after, until) == due_by_wall_clock(
        rule, ZoneInfo(name), after, until
    )


def test_a_daily_rule_is_due_once_a_day_in_every_zone() -> None:
    """At night, in this year, in all zones and across their clock changes."""
    for name in ZONES:
        zone = ZoneInfo(name)
        for near in changes_of(zone, 2026):
            due = due_within("30 2 * * *", zone, near - 2 * DAY, near + 2 * DAY)
            days = [each.astimezone(zone).date() for each in due]

            assert len(days) >= 3, name
            assert days == [days[0] + number * DAY for number in range(len(days))], name
