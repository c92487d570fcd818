"""The text of a cron.d file: cron reads what was written, and every known mistake is named."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.cli.cron_file import (
    CronEntry,
    CronFile,
    dispatcher_entries,
    escape_percent,
    find_problems,
    parse_entries,
    render_entry,
    unescape_percent,
    wrong_fields,
)
from mayfly.errors import UsageError

PYTHON = "/srv/mayfly/.venv/bin/python"
GOOD_LINE = f"* * * * * mayfly MAYFLY_HOME=/srv/mayfly {PYTHON} -P -m dispatcher\n"

# random text would seldom contain the special characters of a shell or of cron
SPECIAL = st.sampled_from("%'\" $`;#*")
paths = st.text(SPECIAL | st.characters(exclude_categories=["C"], exclude_characters="\\")).map("/a b".__add__)


def make_text(
    user: str = "mayfly", home: str = "/srv/mayfly", python: str = PYTHON, mailto: str | None = None
) -> str:
    return render_entry(user=user, home=home, python=python, mailto=mailto)


def make_entry(command: str) -> CronEntry:
    (entry,) = parse_entries(f"* * * * * mayfly {command}\n")
    return entry


def problems(text: str = GOOD_LINE, *, name: str = "mayfly", mode: int = 0o644, owner_uid: int = 0) -> list[str]:
    return find_problems(
        CronFile(name, text, mode, owner_uid),
        user_exists=lambda user: user == "mayfly",
        is_executable=lambda program: program == PYTHON,
    )


# Writing


def test_a_rendered_file_has_no_problem() -> None:
    """The checks accept our own output."""
    assert problems(make_text(mailto="ops@example.com")) == []


def test_the_entry_runs_the_dispatcher_every_minute_as_the_user() -> None:
    """Five stars, the user, the home, the absolute interpreter; nothing is imported from cron's directory."""
    (entry,) = parse_entries(make_text())

    assert entry.fields == ("*",) * 5
    assert entry.user == "mayfly"
    assert entry.words == ["MAYFLY_HOME=/srv/mayfly", PYTHON, "-P", "-m", "mayfly", "dispatch"]


@pytest.mark.parametrize(
    "path",
    ["/srv/100% mayfly", "/srv/%%", "/srv/it's", '/srv/"quoted"', "/srv/$HOME `id` #;&|*", "/srv/möbel", "/"],
)
def test_a_path_reaches_the_command_unchanged(path: str) -> None:
    """Spaces, quotes, percent signs and shell expansions are escaped."""
    (entry,) = dispatcher_entries(make_text(home=path, python=path))

    assert entry.home == path
    assert entry.interpreter == path
    assert not entry.is_cut


@given(home=paths, python=paths)
def test_any_path_is_unchanged_or_refused(home: str, python: str) -> None:
    """With any characters."""
    try:
        (entry,) = dispatcher_entries(make_text(home=home, python=python))
    except UsageError:
        return

    assert (entry.home, entry.interpreter) == (home, python)


@pytest.mark.parametrize(
    ("what", "value"),
    [
        ("home", "/srv/two\nlines"),
        ("home", "/srv/bell\a"),
        ("home", "/srv/back\\slash"),
        ("home", "relative"),
        ("home", ""),
        ("home", "/" + 1000 * "x"),
        ("home", "/" + 500 * "%"),
        ("python", "/srv/x\r"),
        ("python", "python3"),
        ("user", ""),
        ("user", "two words"),
        ("user", "mayfly\n* * * * * root id"),
        ("mailto", "ops@example.com\n* * * * * root id"),
        ("mailto", '"'),
        ("mailto", "-froot"),
    ],
)
def test_a_value_that_cron_cannot_represent_is_refused(what: str, value: str) -> None:
    """No value can add a line, change its meaning, or make cron ignore the file."""
    with pytest.raises(UsageError):
        make_text(**{what: value})


@pytest.mark.parametrize(("mailto", "lines"), [(None, []), ("", ['MAILTO=""']), ("a@b.c,d", ['MAILTO="a@b.c,d"'])])
def test_mailto_is_written_when_asked_for(mailto: str | None, lines: list[str]) -> None:
    """Without an address cron's default applies, an empty one disables mail, others are written."""
    text = make_text(mailto=mailto)

    assert [line for line in text.splitlines() if line.startswith("MAILTO")] == lines


# Reading


@pytest.mark.parametrize(
    ("written", "read", "is_cut"),
    [
        (r"date +\%F", "date +%F", False),
        ("date +%F", "date +", True),
        (r"\\% x", r"\\", True),
        (r"a\b", r"a\b", False),
        ("end\\", "end\\", False),
    ],
)
def test_percent_signs_are_parsed_as_by_cron(written: str, read: str, is_cut: bool) -> None:
    """A bare percent sign ends the command, an escaped one is literal; a doubled backslash escapes nothing."""
    assert unescape_percent(written) == (read, is_cut)


@given(st.text(SPECIAL | st.characters(exclude_characters="\\\n")))
def test_escaping_is_undone_by_reading(command: str) -> None:
    """A command without backslashes survives the round trip."""
    assert unescape_percent(escape_percent(command)) == (command, False)


@pytest.mark.parametrize(
    ("command", "interpreter"),
    [
        ("/v/python -m dispatcher", "/v/python"),
        ("cd /srv && A=b nice -n 5 /v/python -B -P -m dispatcher --lane mail", "/v/python"),
        ("/v/python -m dispatcherx", None),
        ("/v/python -P -m mayfly dispatch --lane mail", "/v/python"),
        ("MAYFLY_HOME=/h /v/bin/mayfly dispatch", "/v/bin/mayfly"),
        ("/v/bin/mayfly prune", None),
        ("/v/python -m mayfly prune", None),
        ("/v/python -m runner", None),
        ("-m dispatcher", None),
        ("echo '-m dispatcher", None),
    ],
)
def test_the_interpreter_of_the_dispatcher_is_found(command: str, interpreter: str | None) -> None:
    """Behind assignments and other programs; a line without `-m dispatcher` has none."""
    assert make_entry(command).interpreter == interpreter


def test_home_comes_from_the_command_or_from_a_line_above() -> None:
    """The command's own assignment overrides the file's, as in a shell."""
    text = f'MAYFLY_HOME = "/from file"\n* * * * * u {PYTHON} -m dispatcher\n{GOOD_LINE}'

    assert [entry.home for entry in dispatcher_entries(text)] == ["/from file", "/srv/mayfly"]


def test_settings_and_comments_are_not_entries() -> None:
    """Only lines with a command are entries; each has its line number."""
    text = f"# {GOOD_LINE}\n  # x\nA=b c\n'D' = \"* * * * * x y\"\n\t{GOOD_LINE}"

    assert [entry.line for entry in parse_entries(text)] == [6]


@pytest.mark.parametrize(
    "fields",
    [
        "* * * * *",
        "*/5 0-23/2 1,15 jan-dec 0-7",
        "0,30 8-18 * MAR mon",
        "59 23 31 12 7",
        "@hourly",
        "@reboot",
    ],
)
def test_valid_times_are_accepted(fields: str) -> None:
    """Stars, numbers, ranges, lists, steps and names, as in crontab(5)."""
    assert wrong_fields(tuple(fields.split())) == []


@pytest.mark.parametrize(
    ("fields", "meaning"),
    [
        ("60 * * * *", "minute"),
        ("0/5 * * * *", "minute"),
        ("*/0 * * * *", "minute"),
        ("-1 * * * *", "minute"),
        ("5-1 * * * *", "minute"),
        ("1,,2 * * * *", "minute"),
        ("jan * * * *", "minute"),
        ("* 24 * * *", "hour"),
        ("* * 0 * *", "day of the month"),
        ("* * * 13 *", "month"),
        ("* * * * 8", "day of the week"),
        ("* * * * mayfly", "day of the week"),
        ("@minutely", "does not support"),
    ],
)
def test_an_invalid_time_is_named(fields: str, meaning: str) -> None:
    """One invalid field, one sentence that names it."""
    (wrong,) = wrong_fields(tuple(fields.split()))

    assert meaning in wrong


# Judging


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: problems(name="mayfly.cron"), "dot"),
        (lambda: problems(name="mayfly~"), "dot"),
        (lambda: problems(mode=0o664), "0664"),
        (lambda: problems(mode=0o646), "0646"),
        (lambda: problems(owner_uid=1000), "1000"),
        (lambda: problems(GOOD_LINE.rstrip("\n")), "line break"),
        (lambda: problems(GOOD_LINE.replace("\n", " \r\n")), "Windows"),
        (lambda: problems(GOOD_LINE.replace("* * * * *", "60 * * * *")), "'60' is not a valid minute"),
        (lambda: problems(GOOD_LINE + "* * * * *\n"), "Line 2"),
        (lambda: problems(GOOD_LINE.replace("* mayfly", "* nobody-knows")), "no user 'nobody-knows'"),
        (lambda: problems(GOOD_LINE.replace("dispatcher", "dispatcher --lane 100%")), r"\%"),
        (lambda: problems(GOOD_LINE.replace(PYTHON, "/gone/python")), "/gone/python is missing"),
        (lambda: problems(GOOD_LINE.replace(PYTHON, "python3")), "absolute"),
        (lambda: problems(GOOD_LINE.replace("\n", " " + 999 * "x" + "\n")), "998 bytes"),
        (lambda: problems(GOOD_LINE + "* * * * * mayfly echo 'open\n"), "quote"),
        (lambda: problems("DATABASE_URL=mysql://u:p@h/d\n" + GOOD_LINE), "DATABASE_URL"),
        (lambda: problems(GOOD_LINE.replace("MAYFLY_HOME", "SMTP_PASSWORD=x MAYFLY_HOME")), "SMTP_PASSWORD"),
        (lambda: problems("# nothing here\n"), "No line runs"),
        (lambda: problems("* * * * * mayfly true\n"), "No line runs"),
    ],
)
def test_each_mistake_is_one_problem(make: Callable[[], list[str]], word: str) -> None:
    """Every mistake that keeps cron from starting the dispatcher gives one sentence that names it."""
    (problem,) = make()

    assert word in problem


def test_hard_links_are_a_problem() -> None:
    """cron ignores a file with a second name."""
    (problem,) = find_problems(
        replace(CronFile("mayfly", GOOD_LINE), links=2),
        user_exists=lambda user: True,
        is_executable=lambda program: True,
    )

    assert "2 hard links" in problem


def test_an_entry_without_a_user_is_a_problem() -> None:
    """A line of a user's crontab, copied to cron.d, has its command in the place of the user."""
    found = problems(GOOD_LINE.replace("mayfly MAYFLY_HOME=/srv/mayfly ", ""))

    assert any(f"no user '{PYTHON}'" in problem for problem in found)


@pytest.mark.parametrize("name", ["DATABASE_URL_FILE", "TOKENS", "# DATABASE_URL"])
def test_the_path_of_a_secret_file_is_no_problem(name: str) -> None:
    """Only the secret itself must not be in the cron file."""
    assert problems(f"{name}=/run/secrets/x\n{GOOD_LINE}") == []
