"""Lines of schedule files: their meaning, and the position and reason of each error."""

import json
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mayfly.schedules import COMMAND, files
from mayfly.schedules.cron import BadSchedule
from mayfly.schedules.parse import CATCH_UP, OVERLAP, ScheduleEntry, ScheduleProblem, parse_line, parse_text
from tests.hypothesis_profiles import in_full

# --- valid lines ------------------------------------------------------------------------------------------


def test_a_rule_and_a_type_make_a_schedule() -> None:
    """Everything else has its default."""
    assert parse_line("5 * * * * metric_rollup") == ScheduleEntry("metric_rollup", "5 * * * *", "metric_rollup")


def test_a_line_can_have_a_payload_and_options() -> None:
    """Any number of spaces separates them."""
    line = (
        '30  3 1-7 jan,jul mon\tdigest  {"to": "a b", "n": [1, {"x": "}"}]}  lane=mail tz=Europe/Berlin '
        "catch_up=all jitter=5m overlap=skip max_attempts=2 name=first-monday"
    )

    assert parse_line(line) == ScheduleEntry(
        name="first-monday",
        expression="30 3 1-7 jan,jul mon",
        type="digest",
        payload='{"to":"a b","n":[1,{"x":"}"}]}',
        lane="mail",
        tz="Europe/Berlin",
        catch_up="all",
        overlap="skip",
        jitter=300,
        max_attempts=2,
    )


def test_a_command_takes_the_rest_of_the_line() -> None:
    """Options come before `run:`; everything after it belongs to the command."""
    entry = parse_line("@daily timeout=30s lane=night run: scripts/backup.sh --full lane=x 'a b' # {}")

    assert (entry.name, entry.type, entry.timeout, entry.lane) == ("backup.sh", COMMAND, 30, "night")
    assert entry.command == "scripts/backup.sh --full lane=x 'a b' # {}"


@pytest.mark.parametrize(
    ("macro", "expression"),
    [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
    ],
)
def test_macros_are_those_of_crontab(macro: str, expression: str) -> None:
    """`@daily` and the others mean the same as in crontab(5)."""
    assert parse_line(f"{macro} x").expression == expression


@pytest.mark.parametrize(("written", "seconds"), [("90", 90), ("90s", 90), ("5m", 300), ("2h", 7200), ("1d", 86_400)])
def test_durations_have_units(written: str, seconds: int) -> None:
    """A number without a unit is in seconds."""
    assert parse_line(f"@daily x jitter={written}").jitter == seconds


# --- invalid lines ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "column", "reason"),
    [
        ("61 * * * * x", 1, "'61' is not a valid minute"),
        ("* 25 * * * x", 3, "'25' is not a valid hour"),
        ("*  *  32  * * x", 7, "'32' is not a valid day of the month"),
        ("* * * foo * x", 7, "'foo' is not a valid month"),
        ("* * * * 8 x", 9, "'8' is not a valid day of the week"),
        ("5-1 * * * * x", 1, "'5-1' is not a valid minute"),
        ("*/0 * * * * x", 1, "'*/0' is not a valid minute"),
        (f"{'9' * 5000} * * * * x", 1, "is not a valid minute"),
        ("0 0 30 2 * x", 5, "never be due"),
        ("0 0 31 2,4 * x", 5, "never be due"),
        ("0 0 * * x", 9, "'x' is not a valid day of the week"),
        ("0 0 * *", 8, "the day of the week is missing"),
        ("0 0 * * *", 10, "a type is missing"),
        ("@reboot x", 1, "'@reboot' is not one of @hourly"),
        ("CRON_TZ=UTC", 1, "variables have no effect here"),
        ("@daily x lanes=a", 10, "lanes= is not an option. Did you mean 'lane'?"),
        ("@daily x zzz=a", 10, "zzz= is not an option. There are name, lane"),
        ("@daily x lane=a lane=b", 17, "lane= is given twice"),
        ("@daily lane=a x lane=b", 17, "lane= is given twice"),
        ("@daily x lane=", 15, "lane=: must be 1 to 64"),
        ("@daily x tz=Europe/Berln", 13, "a time zone that this host knows"),
        ("@daily x tz=../../../etc/passwd", 13, "a time zone that this host knows"),
        ("@daily x tz=Europe", 13, "a time zone that this host knows"),
        ("@daily x catch_up=some", 19, "must be latest, none or all"),
        ("@daily x overlap=no", 18, "must be allow or skip"),
        ("@daily x jitter=-1", 17, "a duration such as 30s"),
        ("@daily x jitter=2d", 17, "at most a day"),
        ("@daily x max_attempts=0", 23, "an integer, 1–1000"),
        ("@daily x timeout=5s", 10, "is for commands"),
        ('@daily x {"a": }', 16, "the payload is not valid JSON: Expecting value"),
        ('@daily x {"a": NaN}', 10, "the payload is not valid JSON"),
        ("@daily x [1]", 10, "must be a JSON object"),
        ("@daily x {}lane=a", 12, "a space must follow the payload"),
        ("@daily x y", 10, "neither JSON"),
        ("@daily x {} y", 13, "neither JSON"),
        ("@daily scripts/x", 8, "is not a valid type: it must"),
        ("@daily command {}", 8, "commands are scheduled with run:"),
        ("@daily run:", 12, "a program must follow run:"),
        ("@daily run: 'a", 13, "cannot be split into words: No closing quotation"),
        ("@daily run: ''", 13, "a program must follow run:"),
        ("@daily run: scripts/ärger", 8, "give it one with name="),
    ],
)
def test_an_invalid_line_is_refused_with_its_column(line: str, column: int, reason: str) -> None:
    """The reason names the expected syntax."""
    with pytest.raises(BadSchedule) as refused:
        parse_line(line)

    assert (refused.value.column, reason in refused.value.reason) == (column, True), refused.value.reason


def test_the_valid_lines_of_a_file_are_kept() -> None:
    """Each keeps its line number; comments and empty lines are skipped."""
    text = "# ours\n\n@daily a\r\n  # more\n* 25 * * * b\n@hourly c"

    assert [
        str(each) if isinstance(each, ScheduleProblem) else (each.name, each.where) for each in parse_text(text, "f")
    ] == [
        ("a", "f, line 3"),
        "f, line 5, column 3: '25' is not a valid hour",
        ("c", "f, line 6"),
    ]


# --- any text ---------------------------------------------------------------------------------------------

names = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,20}", fullmatch=True)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc {}=#\"'\\é"), inner, max_size=3),
    max_leaves=6,
)
common = {
    "name": names,
    "expression": st.sampled_from(["5 * * * *", "0 0 1,15 * mon#2", "*/7 1-5 l * 5l", "0 0 29 2 *"]),
    "lane": names,
    "tz": st.sampled_from(["UTC", "Europe/Berlin", "America/Argentina/La_Rioja"]),
    "catch_up": st.sampled_from(CATCH_UP),
    "overlap": st.sampled_from(OVERLAP),
    "jitter": st.integers(0, 86_400),
    "max_attempts": st.integers(1, 1000),
}
typed = st.builds(
    ScheduleEntry,
    **common,
    type=names.filter(lambda name: name not in (COMMAND, "run:")),
    payload=st.dictionaries(st.text("ab é"), json_values, max_size=3).map(
        lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    ),
)


@given(typed)
def test_a_schedule_from_python_survives_a_round_trip_through_its_line(entry: ScheduleEntry) -> None:
    """Parsing the line written for a schedule gives the same schedule."""
    options = {name: getattr(entry, name) for name in common if name != "expression"}
    with patch.dict(files._declared, clear=True):
        files.schedule(entry.type, entry.expression, json.loads(entry.payload), **options)
        _comment, line, _end = files.declared_text().split("\n")  # not splitlines(): a payload may contain U+0085

    assert parse_line(line) == entry


WORDS = """* 5 */5 1-5 l lw 1#2 5l @daily x run: {} {"a":1} { [1] lane=a tz=UTC tz= jitter=1d = ' \x00"""
words = st.sampled_from([*WORDS.split(), "\t"])


@in_full(500)
@given(st.text() | st.lists(words | st.text(max_size=5), max_size=9).map(" ".join))
@example("* * * * * x " + "[" * 10_000)
@example("* * l/5 * 1#2/3 x")
@example("² * * * ²l x")
def test_any_line_is_a_schedule_or_refused(line: str) -> None:
    """No other error is raised, and the column lies in the line or directly after it."""
    [found, *_] = [*parse_text(line.replace("\n", " "), "file"), None]

    assert found is None or isinstance(found, ScheduleEntry) or 1 <= found.column <= len(line) + 1
