"""Whether a schedule may be due, decided from the cached due time and the stat of the schedule files."""

from datetime import timedelta
from pathlib import Path

import pytest

from mayfly.clock import host_now
from mayfly.schedules.next_due import (
    are_settled,
    clear_next_due,
    file_signatures,
    may_be_due,
    schedule_files,
    write_next_due,
)
from mayfly.settings import Settings, load
from tests.factories import NOON

MINUTE = timedelta(minutes=1)


def settings_in(home: Path, **environ: str) -> Settings:
    return load({"MAYFLY_HOME": str(home), **environ}).settings


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "cron.d" / "schedule"
    path.parent.mkdir()
    path.write_text("@daily x\n")
    return path


def test_without_schedule_files_nothing_is_due(tmp_path: Path) -> None:
    """The default files may be missing."""
    assert not may_be_due(settings_in(tmp_path), tmp_path, NOON)


def test_a_configured_file_must_be_read_though_it_is_missing(tmp_path: Path) -> None:
    """The full cycle reports the missing file."""
    settings = settings_in(tmp_path, SCHEDULE_FILES="mine")

    assert schedule_files(settings) == [tmp_path / "mine"]
    assert may_be_due(settings, tmp_path, NOON)


def test_the_cache_is_valid_until_the_next_due_time(tmp_path: Path, file: Path) -> None:
    """To the instant; a missing or deleted cache means that the files must be read."""
    settings = settings_in(tmp_path)
    before = may_be_due(settings, tmp_path, NOON)
    write_next_due(tmp_path, file_signatures([file]), NOON + MINUTE)
    noted = [may_be_due(settings, tmp_path, NOON + MINUTE + late) for late in (-timedelta.resolution, timedelta(0))]
    clear_next_due(tmp_path)

    assert (before, noted, may_be_due(settings, tmp_path, NOON)) == (True, [False, True], True)


def test_the_cache_can_hold_no_due_time(tmp_path: Path, file: Path) -> None:
    """A file of comments only is never due."""
    write_next_due(tmp_path, file_signatures([file]), None)

    assert not may_be_due(settings_in(tmp_path), tmp_path, NOON)


@pytest.mark.parametrize("edit", ["longer", "same size", "replaced", "removed", "another"])
def test_an_edit_invalidates_the_cache(tmp_path: Path, file: Path, edit: str) -> None:
    """Every kind of change does."""
    other = file.parent / "schedule.d" / "other"
    other.parent.mkdir()
    other.write_text("")
    write_next_due(tmp_path, file_signatures([file, other]), None)
    assert not may_be_due(settings_in(tmp_path), tmp_path, NOON)

    match edit:
        case "longer":
            file.write_text("@daily x y\n")
        case "same size":
            file.write_text("@daily y\n")
        case "replaced":
            other.write_text(file.read_text())
            other.replace(file)
        case "removed":
            file.unlink()
        case "another":
            (other.parent / "third").write_text("")

    assert may_be_due(settings_in(tmp_path), tmp_path, NOON)


def test_a_file_that_was_just_modified_is_not_cached(file: Path) -> None:
    """It could change again within the resolution of its mtime."""
    assert not are_settled([file], host_now())
    assert are_settled([file], host_now() + timedelta(seconds=3))
