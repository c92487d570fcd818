"""The SQL of a source: when a stored time is due, and how conditions are made of its settings."""

from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.db.dialects import dialect_named
from mayfly.queue.source_table import SourceTable, TimeFormat
from mayfly.settings.source_model import SourceModel
from mayfly.settings.values import SourceSettings
from tests.factories import NOON
from tests.unit.schedules.wall_clock import changes_of, minutes_between

DATABASES = ["sqlite", "mysql", "postgresql"]
# Changes of one hour, of half an hour, at midnight, of a whole day, and none.
ZONES = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Havana", "Pacific/Apia", "Asia/Kolkata"]
MINUTES = st.integers(-240, 240)


def make_table(database: str = "sqlite", **changes: Any) -> SourceTable:
    """None removes a setting."""
    settings = {
        "table": "posts", "type": "publish", "run_at": "run_at", "pending": "pending", "processing": "processing",
        "done": "published", "failed": "failed",
    } | changes  # fmt: skip
    given = SourceModel.model_validate({name: value for name, value in settings.items() if value is not None})
    return SourceTable(SourceSettings(**{**dict(given), "name": "posts", "lane": "posts"}), dialect_named(database))


# --- times ------------------------------------------------------------------------------------------------


@st.composite
def instants_near_changes(draw: st.DrawFn) -> tuple[ZoneInfo, datetime]:
    """Within four hours of a change of the offset, if the zone has any in that year."""
    zone, year = ZoneInfo(draw(st.sampled_from(ZONES))), draw(st.integers(2005, 2030))
    changes = changes_of(zone, year) or [datetime(year, 6, 1, tzinfo=UTC)]
    seconds = timedelta(seconds=draw(st.integers(0, 59)))
    return zone, draw(st.sampled_from(changes)) + timedelta(minutes=draw(MINUTES)) + seconds


def has_occurred(local: datetime, zone: ZoneInfo, now: datetime) -> bool:
    """An independent implementation: whether any wall clock has shown this time, or a later one, in the last days."""
    shown = (at.astimezone(zone).replace(tzinfo=None) for at in minutes_between(now - timedelta(days=2), now))
    return any(each >= local for each in shown) or now.astimezone(zone).replace(tzinfo=None) >= local


@pytest.mark.parametrize("kind", ["datetime", "text"])
@given(instants_near_changes(), MINUTES)
def test_a_local_time_is_due_once_it_has_occurred(
    kind: str, instant: tuple[ZoneInfo, datetime], minutes: int
) -> None:
    """Never before: at its first occurrence if it is repeated in autumn, at the jump if it is skipped in spring."""
    zone, now = instant
    shown = now.astimezone(zone).replace(tzinfo=None, second=0, microsecond=0, fold=0)
    local = shown + timedelta(minutes=minutes)

    is_due = local.isoformat(" ") <= str(TimeFormat(kind, zone.key).latest_due(now))

    assert is_due == has_occurred(local, zone, now)


@pytest.mark.parametrize(
    ("zone", "now", "latest"),
    [
        ("Europe/Berlin", "2026-10-25T00:10", "02:10:00.000000"),  # the first time
        ("Europe/Berlin", "2026-10-25T01:10", "02:59:59.999999"),  # again: the whole hour has passed once
        ("Europe/Berlin", "2026-10-25T02:00", "03:00:00.000000"),
        ("Australia/Lord_Howe", "2026-04-04T15:10", "01:59:59.999999"),  # half an hour is repeated
        ("Europe/Berlin", "2026-03-29T00:59", "01:59:00.000000"),
        ("Europe/Berlin", "2026-03-29T01:00", "03:00:00.000000"),  # at the jump, all skipped times are due
    ],
)
def test_the_latest_due_time_never_goes_back(zone: str, now: str, latest: str) -> None:
    """While an hour is repeated, all of it has passed."""
    instant = datetime.fromisoformat(now).replace(tzinfo=UTC)

    assert str(TimeFormat("datetime", zone).latest_due(instant)).partition(" ")[2] == latest


@given(instants_near_changes())
def test_a_time_that_is_written_is_read_as_the_same_instant(instant: tuple[ZoneInfo, datetime]) -> None:
    """Up to the second; in a repeated hour as its first occurrence."""
    zone, now = instant
    times = TimeFormat("datetime", zone.key)

    read = times.utc(times.stored(now))

    local = now.astimezone(zone)
    assert read == (local.replace(fold=0)).astimezone(UTC)


@pytest.mark.parametrize(
    ("kind", "stored"),
    [("epoch", 1777896000), ("epoch_ms", 1777896000000), ("datetime", "2026-05-04 12:00:00"),
     ("text", "2026-05-04 12:00:00")],
)  # fmt: skip
def test_each_format_has_its_own_times(kind: str, stored: str | int) -> None:
    """Written in whole seconds, and read as UTC."""
    times = TimeFormat(kind)

    assert times.stored(NOON + timedelta(microseconds=999)) == stored
    assert times.utc(stored) == NOON


@pytest.mark.parametrize(
    "stored",
    ["2026-05-04T12:00:00", "2026-05-04 12:00:00.000000", "2026-05-04T12:00:00Z", "2026-05-04T14:00:00+02:00",
     NOON.replace(tzinfo=None), NOON],
)  # fmt: skip
def test_any_iso_8601_text_is_read(stored: str | datetime) -> None:
    """With T or space, with or without fraction and zone; drivers return datetimes."""
    assert TimeFormat("text").utc(stored) == NOON


@pytest.mark.parametrize(
    ("kind", "stored"), [("text", "tomorrow"), ("epoch", "soon"), ("epoch", 1e30), ("datetime", None)]
)
def test_a_value_that_is_no_time_is_none(kind: str, stored: object) -> None:
    """The claim then takes the time at which it found the row."""
    assert TimeFormat(kind).utc(stored) is None


def test_a_date_is_its_first_moment() -> None:
    """In the zone of the table."""
    assert TimeFormat("datetime", "Europe/Berlin").utc(date(2026, 5, 4)) == datetime(2026, 5, 3, 22, tzinfo=UTC)


@given(st.integers(0, 10_000_000))
def test_a_number_is_due_from_its_own_second_on(microseconds: int) -> None:
    """A number that is not greater than the latest due one."""
    now = NOON + timedelta(microseconds=microseconds)

    seconds, milliseconds = TimeFormat("epoch").latest_due(now), TimeFormat("epoch_ms").latest_due(now)

    assert isinstance(seconds, int)
    assert isinstance(milliseconds, int)
    assert seconds <= now.timestamp() < seconds + 1
    assert milliseconds // 1000 == seconds


# --- statements -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("database", DATABASES)
def test_each_pending_value_is_a_range(database: str) -> None:
    """NULL is compared by IS NULL and is no parameter."""
    [statements] = make_table(database, pending=["pending", "NULL", 3]).candidates(NOON, 1, 10)

    conditions = [each.sql.partition(" WHERE ")[2].partition(" AND ")[0] for each in statements]
    assert [each.partition(".")[2].strip('`"').replace('"', "`") for each in conditions] == [
        "status` = :pending_0", "status` IS NULL", "status` = :pending_2",
    ]  # fmt: skip
    values = statements[0].values
    assert (values["pending_0"], values["pending_2"], "pending_1" in values) == ("pending", 3, False)


def test_stale_locks_are_a_range_of_their_own() -> None:
    """Only with adopt_after, counted from the time of the lock."""
    table = make_table(locked_at="locked_at", adopt_after="15m")

    [[pending, stale]] = table.candidates(NOON, 1, 10)

    assert "= :pending_0" in pending.sql
    assert "= :processing" in stale.sql
    assert stale.values["stale"] == "2026-05-04 11:45:00.000000"


def test_values_of_a_priority_are_parameters() -> None:
    """Unnamed values and NULL are normal; a priority without values has no rows."""
    table = make_table(priority="urgency", priorities={"now": 0, "soon": 0})

    high, normal, low = (table.candidates(NOON, priority, 10)[0][0] for priority in table.priorities)

    assert '"urgency" IN (:priority_0, :priority_1)' in high.sql
    assert 'IS NULL OR source_row."urgency" NOT IN (:priority_0, :priority_1))' in normal.sql
    assert "1 = 0" in low.sql
    assert (high.values["priority_0"], high.values["priority_1"]) == ("now", "soon")


def test_without_a_priority_column_there_is_one_query() -> None:
    """For normal rows."""
    assert list(make_table().priorities) == [1]


@pytest.mark.parametrize("database", DATABASES)
def test_a_condition_reaches_the_database_unchanged(database: str) -> None:
    """Percent signs and colons in it are no parameters; those of the statement still are."""
    where = "title LIKE '50%' AND title <> ':now' AND at::date = '10:30'"
    table = make_table(database, where=where)

    rendered = table.dialect.rendered(table.count(NOON, 10).sql)

    escaped = where if database == "sqlite" else where.replace("%", "%%")
    assert f"({escaped})" in rendered
    assert (":pending_0" if database == "sqlite" else "%(pending_0)s") in rendered


@pytest.mark.parametrize("database", DATABASES)
def test_times_are_compared_with_one_bound(database: str) -> None:
    """Texts with two, of which the first can use an index: T is greater than a space."""
    numbers = make_table(database, run_at_format="epoch").count(NOON, 10)
    texts = make_table(database, run_at_format="text").count(NOON, 10)

    assert (numbers.sql.count(":due"), numbers.values["due"]) == (1, 1777896000)
    assert (texts.sql.count("<= :due_t"), texts.sql.count("<= :due ")) == (1, 1)
    assert texts.values["due_t"] == "2026-05-04T12:00:00.000000"


def test_text_keys_are_parameters() -> None:
    """Whatever they contain; integers need none."""
    table = make_table()

    texts = table.find(["b'; --", "a"], {"status": "processing"})
    numbers = table.find([3, 1, 2, 4, 9], {"status": "processing"})

    assert texts.values == {"key_0": "a", "key_1": "b'; --", "old_0": "processing"}
    assert '"id" IN (:key_0, :key_1)' in texts.sql
    assert "1,2,3,4,9" in numbers.sql.replace(" ", "")
