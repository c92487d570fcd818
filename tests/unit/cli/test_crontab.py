"""Importing a crontab: each line becomes a schedule that does the same, or is reported."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.cli.crontab import CrontabSource, Translation, host_zone, program_name, translate
from mayfly.schedules.parse import OPTIONS, ScheduleEntry, ScheduleProblem, parse_text

SOURCE = CrontabSource(user="app", directory="/home/app", zone="UTC")
SYSTEM = CrontabSource(user="app", directory="/home/app", zone="UTC", has_users=True)


def entries(found: Translation) -> list[ScheduleEntry]:
    """As the dispatcher reads them."""
    parsed = list(parse_text(found.text, "schedule"))
    assert not [each for each in parsed if isinstance(each, ScheduleProblem)]
    return [each for each in parsed if isinstance(each, ScheduleEntry)]


def command_of(line: str, before: str = "") -> str:
    found = translate(f"{before}{line}\n", SOURCE)
    assert found.refused == []
    (entry,) = entries(found)
    assert entry.command is not None
    return entry.command


def test_a_plain_command_stays_as_it_is() -> None:
    """Rule, command and arguments; its program is the name, and it is not retried."""
    found = translate('30 2 * * 1-5  /srv/app/bin/nightly --all "two words"\n', SOURCE)

    assert found.lines == [
        '30 2 * * 1-5 name=nightly max_attempts=1 run: /srv/app/bin/nightly --all "two words"'
    ]  # fmt: skip
    assert (found.refused, found.notes) == ([], [])


@pytest.mark.parametrize("rule", ["@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually"])
def test_nicknames_are_kept(rule: str) -> None:
    assert translate(f"{rule} /bin/true\n", SOURCE).lines == [f"{rule} name=true max_attempts=1 run: /bin/true"]


@pytest.mark.parametrize(
    "command",
    [
        "cd /srv/app && bin/nightly",
        "/bin/a | /bin/b",
        "/bin/a > /dev/null 2>&1",
        "/bin/a $HOME",
        'test -x /bin/a || echo "no $0"',
        "TMP=/x /bin/a",
        "/bin/a *.csv",
        "exec /bin/a",
        "/bin/a it\\'s",
        "(/bin/a; /bin/b)",
        "~/bin/a",
    ],
)
def test_a_command_that_needs_a_shell_gets_one(command: str) -> None:
    """With exactly the text that cron would pass to it."""
    assert shlex.split(command_of(f"* * * * * {command}")) == ["/bin/sh", "-c", command]


@given(st.text("abc $&|;<>()*?'\"\\/=-.~#", min_size=1).map(str.strip).filter(bool))
def test_any_command_is_unchanged_or_refused(command: str) -> None:
    """Without a shell it has the words that a shell would give it; with one it is that shell's argument."""
    found = translate(f"* * * * * {command}\n", SOURCE)

    if not found.refused:
        (entry,) = entries(found)
        words = shlex.split(entry.command or "")
        assert words == shlex.split(command) or words[2] in (command, f"cd /home/app && {command}")


def test_variables_above_a_line_are_passed_to_its_command() -> None:
    """Later values override earlier ones; SHELL is the shell."""
    text = """PATH = "/opt/bin:/bin"\nSHELL=/bin/bash\n* * * * * a\nPATH=/bin\nLANG='de DE'\n* * * * * b | c\n"""

    first, second = entries(translate(text, SOURCE))

    assert shlex.split(first.command or "") == ["/usr/bin/env", "PATH=/opt/bin:/bin", "a"]
    assert shlex.split(second.command or "") == [
        "/usr/bin/env", "PATH=/bin", "LANG=de DE", "/bin/bash", "-c", "b | c",
    ]  # fmt: skip


def test_a_relative_program_starts_in_the_directory_of_cron() -> None:
    """The user's home directory, or HOME of the crontab."""
    assert shlex.split(command_of("* * * * * bin/a"))[2] == "cd /home/app && bin/a"
    assert shlex.split(command_of("* * * * * a", "HOME='/srv/x y'\n"))[-1] == "cd '/srv/x y' && a"


def test_percent_signs_are_unescaped() -> None:
    """In a schedule file a percent sign needs no backslash."""
    assert command_of(r"* * * * * date +\%F") == "date +%F"


def test_times_are_in_the_zone_of_the_host_or_of_the_crontab() -> None:
    """A schedule's own default is UTC."""
    berlin = CrontabSource("app", "/", zone="Europe/Berlin")
    found = translate("0 3 * * * a\nCRON_TZ=Asia/Tokyo\n0 3 * * * b\nCRON_TZ=UTC\n0 3 * * * c\n", berlin)

    assert [each.tz for each in entries(found)] == ["Europe/Berlin", "Asia/Tokyo", "UTC"]


def test_comments_and_empty_lines_are_kept() -> None:
    text = "# backups\n\n0 3 * * * a\n   # indented\n"

    assert translate(text, SOURCE).lines == ["# backups", "", "0 3 * * * name=a max_attempts=1 run: a", "# indented"]


def test_names_are_unique() -> None:
    """A second schedule of the same name would be refused."""
    found = translate("0 1 * * * /bin/a\n0 2 * * * /bin/a x\n0 3 * * * /usr/bin/a\n", SOURCE)

    assert [each.name for each in entries(found)] == ["a", "a-2", "a-3"]


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("/srv/bin/nightly --all", "nightly"),
        ("cd /srv/app && php artisan schedule:run >> /dev/null 2>&1", "artisan"),
        ("/usr/bin/flock -n bin/sync", "sync"),
        ("X=1 /usr/bin/python3 /srv/clean.py", "clean.py"),
        ("[ -x /usr/bin/a ] && /usr/bin/a", "a"),
        ("php", "php"),
        ("/srv/tägliche-läufe", "t-gliche-l-ufe"),
        ("cd /srv", ""),
    ],
)
def test_a_schedule_is_named_after_its_program(command: str, name: str) -> None:
    assert program_name(command) == name


def test_a_line_without_a_program_name_is_named_after_its_number() -> None:
    (entry,) = entries(translate("# one\n* * * * * cd /srv\n", SOURCE))

    assert entry.name == "line-2"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("@reboot /bin/a", "@reboot has no equivalent: schedules follow the clock"),
        ("* * * * * mail ops%hello", "after a bare % it has text for its standard input"),
        ("* * * * * /bin/a 'open", "a quote is not closed"),
        ("0~30 * * * * /bin/a", "'0~30' is not a valid minute"),
        ("0 0 30 2 * /bin/a", "there is no such day"),
        ("@fortnightly /bin/a", "'@fortnightly' is not one of"),
        ("* * * * /bin/a", "it needs five time fields and a command"),
        ("nonsense", "it needs five time fields and a command"),
    ],
)
def test_a_line_without_an_equivalent_is_reported(line: str, reason: str) -> None:
    """With its number, and as a comment in place of the line; the other lines are translated."""
    found = translate(f"0 1 * * * a\n{line}\n0 2 * * * b\n", SOURCE)

    (refused,) = found.refused
    assert refused.startswith(f"Line 2 is not translated: {reason}")
    assert found.lines[2] == f"# {line}"
    assert [each.name for each in entries(found)] == ["a", "b"]


def test_lines_of_other_users_are_reported() -> None:
    """A command of Mayfly runs as the user of its dispatcher."""
    found = translate("0 1 * * * app /bin/a\n0 2 * * *\troot\t/bin/b\n@daily app c d\n", SYSTEM)

    assert [(each.name, each.command) for each in entries(found)] == [("a", "/bin/a"), ("c", "c d")]
    assert found.refused == ["Line 2 is not translated: it runs as root, and commands of Mayfly run as app."]


def test_a_user_field_in_a_users_crontab_is_reported() -> None:
    """Instead of a schedule that starts a program called `root`."""
    source = CrontabSource("app", "/", "UTC", is_user=lambda word: word == "root")

    (refused,) = translate("0 1 * * * root /bin/a\n", source).refused

    assert refused.endswith("'root' is a user and not a program: use --system.")


def test_mail_has_no_equivalent() -> None:
    """It is noted, unless mail was disabled."""
    found = translate('MAILTO=""\nMAILTO=ops@example.com\n* * * * * a\n', SOURCE)

    assert found.notes == [
        "Line 2: MAILTO has no effect: the output of a failed command is in its job. See docs/how-to/monitor.md."
    ]
    assert command_of("* * * * * a", "MAILTO=ops@example.com\n") == "a"


def test_windows_line_endings_are_not_part_of_a_command() -> None:
    assert translate("* * * * * a b\r\n", SOURCE).lines == ["* * * * * name=a max_attempts=1 run: a b"]


def test_the_zone_of_this_host_is_one_that_schedules_know() -> None:
    assert OPTIONS["tz"].read(host_zone())
