"""A misspelled name is an error in mayfly.toml and a warning in the environment, which other programs share."""

from pathlib import Path

import pytest

from mayfly.settings.model import SettingsModel
from tests.unit.settings.factories import load_in, problem_in


@pytest.mark.parametrize(
    ("toml", "expected"),
    [
        ("batchsize = 3", "batchsize ({}): is not a setting; did you mean batch_size?"),
        ("BATCH_SIZE = 3", "BATCH_SIZE ({}): is not a setting; did you mean batch_size?"),
        ("lane.x.rank = 3", "lane ({}): is not a setting; did you mean lanes?"),
        ("qqq = 3", "qqq ({}): is not a setting"),
        (
            "[lanes.x]\nmaxworkers = 3",
            "lanes.x.maxworkers ({}): is not a setting of a lane; did you mean max_workers?",
        ),
        ("[lanes.x]\nqqq = 3", "lanes.x.qqq ({}): is not a setting of a lane"),
        (
            'databse_url = "mysql://u:hunter2@h/d"',
            "databse_url ({}): is not a setting; did you mean database_url?",
        ),
    ],
)
def test_an_unknown_name_in_toml_is_an_error_with_the_nearest_one(tmp_path: Path, toml: str, expected: str) -> None:
    """The sentence names the file and does not show the value."""
    assert problem_in(tmp_path, toml=toml) == expected.format(tmp_path / "mayfly.toml")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("BATCHSIZE", "BATCH_SIZE"),
        ("BACTH_SIZE", "BATCH_SIZE"),
        ("batch_size", "BATCH_SIZE"),
        ("MAX_WORKER", "MAX_WORKERS"),
        ("WORKER_TIMEOUTS", "WORKER_TIMEOUT"),
        ("WORKER_TIMOUT", "WORKER_TIMEOUT"),
        ("DATABASE_URI", "DATABASE_URL"),
        ("DATABASE_URL_FIL", "DATABASE_URL_FILE"),
        ("MAYFLY_HOM", "MAYFLY_HOME"),
        ("MAYFLY_BATCH_SIZE", "BATCH_SIZE"),
        ("HANDLER", "HANDLERS"),
        ("LANES__X__MAXWORKERS", "LANES__X__MAX_WORKERS"),
        ("LANES__X__max_workers", "LANES__X__MAX_WORKERS"),
        ("LANE__X__MAX_WORKERS", "LANES__X__MAX_WORKERS"),
        ("POOL__EMAIL", "POOLS__EMAIL"),
    ],
)
@pytest.mark.parametrize("place", ["environment", ".env"])
def test_a_misspelled_variable_is_a_warning_with_the_nearest_name(
    tmp_path: Path, written: str, meant: str, place: str
) -> None:
    """The variable has no effect."""
    loaded = load_in(tmp_path, {written: "3"}) if place == "environment" else load_in(tmp_path, dotenv=f"{written}=3")

    source = "environment" if place == "environment" else str(tmp_path / ".env")
    assert loaded.warnings == (f"{written} ({source}): is not a setting and has no effect; did you mean {meant}?",)
    assert loaded.settings == SettingsModel(home=tmp_path).as_plain()


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("LANES", "write it as in LANES__SEND_EMAIL__MAX_WORKERS=8"),
        ("POOLS", "write it as in POOLS__EMAIL=3"),
        ("LANES__X", "write it as in LANES__SEND_EMAIL__MAX_WORKERS=8"),
        ("LANES__X__QQQ", "write it as in LANES__SEND_EMAIL__MAX_WORKERS=8"),
        ("LANES__X_MAX_WORKERS", "write it as in LANES__SEND_EMAIL__MAX_WORKERS=8"),
        ("CONSOLE_ACCOUNTS__ANN", "write it as in CONSOLE_ACCOUNTS__ANN__ROLE=viewer"),
    ],
)
def test_a_misspelled_lane_or_pool_variable_is_a_warning_with_the_right_form(
    tmp_path: Path, written: str, hint: str
) -> None:
    """A name that starts with LANES__ is meant for Mayfly."""
    (warning,) = load_in(tmp_path, {written: "3"}).warnings

    assert hint in warning


@pytest.mark.parametrize(
    "innocent",
    [
        "HANDLER_PATH",
        "HANDLERS_PATH",
        "HOSTNAME",
        "LOGNAME",
        "HOME",
        "PATH",
        "MAIL",
        "SHELL",
        "PWD",
        "LOG_LEVEL",
        "LOG_FILE",
        "LANG",
        "MAX_LOAD_1",
        "X_MAX_LOAD",
        "BATCH_SIZE_2",
        "TEST_DATABASE_URL",
        "DATABASE_URL_RO",
        "UPLOAD_LIMIT",
        "WEB_MAX_WORKERS",
        "LANES_CONFIG",
        "TOOLS__X",
        "DB__HOST",
        "VIRTUAL_ENV",
    ],
)
def test_variables_of_other_programs_are_ignored(tmp_path: Path, innocent: str) -> None:
    """A warning every minute about a foreign variable would train users to ignore warnings."""
    assert load_in(tmp_path, {innocent: "3"}).warnings == ()


def test_no_setting_counts_as_misspelled(tmp_path: Path) -> None:
    """Every name, with its default value if it can be written."""
    loaded = load_in(tmp_path)
    environ = {each.name: each.value for each in loaded.origins if each.value != "none"}

    assert load_in(tmp_path, environ).warnings == ()
