"""docs/how-to/schedule.md is correct: its lines are schedules, its tables are computed."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from mayfly.schedules.cron import due_times
from mayfly.schedules.files import declared_text
from mayfly.schedules.fire import KnownSchedule, decide
from mayfly.schedules.parse import OPTIONS, ScheduleEntry, ScheduleProblem, parse_line, parse_text
from tests.docs.consoles import page_named
from tests.factories import NOON

CHECKOUT = Path(__file__).parents[2]
PAGE = page_named("how-to/schedule.md")
BERLIN = ZoneInfo("Europe/Berlin")


def block(beginning: str) -> str:
    found = re.search(rf"^```(?:\w*)\n({re.escape(beginning)}.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def rows_after(words: str) -> list[list[str]]:
    """The cells of the first table after these words."""
    table = re.search(r"^\|.*?\n\n", PAGE.split(words, 1)[1], flags=re.MULTILINE | re.DOTALL)
    assert table is not None
    return [[cell.strip(" `") for cell in line.strip("|").split(" | ")] for line in table[0].splitlines()[2:] if line]


def test_the_worked_example_is_a_schedule_file() -> None:
    """Three schedules, as described below it."""
    found = list(parse_text(block("# cron.d/schedule"), "cron.d/schedule"))

    assert [each.name for each in found if isinstance(each, ScheduleEntry)] == [
        "metric_rollup",
        "send_digest",
        "nightly",
    ]
    assert len(found) == 3


def test_the_example_of_the_readme_is_a_schedule_file() -> None:
    """Its only line."""
    text = (CHECKOUT / "README.md").read_text("utf-8")
    lines = re.search(r"lines of `cron.d/schedule`:\n+```\n(.*?)```", text, flags=re.DOTALL)
    assert lines is not None

    assert [type(each) for each in parse_text(lines[1], "f")] == [ScheduleEntry]


def test_the_options_equal_the_code() -> None:
    """Each with its default; the error of a wrong value says which ones are allowed."""
    rows = rows_after("## A line")
    entry = ScheduleEntry("", "", "")
    defaults = {"name": "the type, or the name of the program", "timeout": "none", "max_attempts": "MAX_ATTEMPTS"}

    assert {name: default for name, default, *_ in rows} == {
        name: defaults.get(name, str(getattr(entry, name))) for name in OPTIONS
    }


def test_the_error_equals_the_code() -> None:
    """File, line, column and reason."""
    [found] = parse_text("\n" * 6 + "*/5 25 * * * x", "cron.d/schedule")

    assert isinstance(found, ScheduleProblem)
    assert f"```\n{found}\n```" in PAGE


def test_a_clock_change_is_as_described() -> None:
    """The rule and the time of the page."""
    [(rule, expected)] = re.findall(r"`(.+?)` is due at\n?\s?(\d\d:\d\d CEST) in the night", PAGE)
    first = next(iter(due_times(rule, BERLIN, datetime(2026, 3, 28, 12, tzinfo=UTC))))

    assert f"{first.astimezone(BERLIN):%d %H:%M %Z}" == f"29 {expected}"


@pytest.mark.parametrize("row", rows_after("## After downtime"), ids=lambda row: row[0])
def test_catching_up_is_as_in_the_table(row: list[str]) -> None:
    """The number of jobs, and the time of the last one."""
    catch_up, described = row
    entry = parse_line(f"*/10 * * * * x catch_up={catch_up}")

    decision = decide(entry, KnownSchedule(entry.rule, NOON), NOON + timedelta(minutes=118))

    assert decision is not None
    words = {"one job": 1, "none": 0, "eleven jobs": 11}
    assert len(decision.due) == next(number for word, number in words.items() if described.startswith(word))
    assert not decision.due or f"{decision.due[-1]:%H:%M}" in described


def test_the_python_declares_a_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unchanged; it then becomes a line of a schedule file."""
    monkeypatch.setattr("mayfly.schedules.files._declared", {})
    monkeypatch.setattr("mayfly.registry._declared", {})

    exec(block("from mayfly import Job, handler, schedule"), {"__name__": "figures"})

    assert declared_text().splitlines()[1:] == ['5 * * * * metric_rollup {"depth":2} lane=figures']


def test_the_shipped_file_schedules_nothing() -> None:
    """Its commented examples are valid."""
    text = (CHECKOUT / "cron.d" / "schedule").read_text("utf-8")
    examples = "\n".join(line[2:] for line in text.splitlines() if re.match(r"# [@0-9*]", line))

    assert list(parse_text(text, "f")) == []
    assert [type(each) for each in parse_text(examples, "f")] == [ScheduleEntry] * 3
