"""cron.d/mayfly.logrotate, given to the real logrotate."""

import grp
import os
import pwd
import stat
import subprocess
from pathlib import Path

import pytest

from tests.process.cron.programs import CHECKOUT, SYSTEM_PATH, debian_program


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    path = tmp_path / "mayfly home/logs"
    path.mkdir(parents=True)
    return path


def make_configuration(logs: Path) -> Path:
    """The snippet with values in place of its placeholders, as its own comment tells people to."""
    owner = pwd.getpwuid(os.geteuid()).pw_name
    group = grp.getgrgid(os.getegid()).gr_name
    text = (CHECKOUT / "cron.d/mayfly.logrotate").read_text()
    path = logs.parent / "mayfly.logrotate"
    path.write_text(text.replace("/srv/mayfly/logs", str(logs)).replace("su mayfly mayfly", f"su {owner} {group}"))
    path.chmod(0o644)
    return path


def rotate(logs: Path, *options: str) -> str:
    """Run logrotate; all it says, which with `--debug` is what it would do."""
    program = debian_program("logrotate", "logrotate")
    ran = subprocess.run(
        [program, "--state", logs.parent / "state", *options, make_configuration(logs)],
        env={"PATH": SYSTEM_PATH},
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout + ran.stderr


def write_log(logs: Path, text: str = "a line\n", mode: int = 0o640) -> Path:
    path = logs / "dispatcher.log"
    path.write_text(text)
    path.chmod(mode)
    return path


def names(logs: Path) -> list[str]:
    return sorted(path.name for path in logs.iterdir())


def test_logrotate_understands_the_snippet(logs: Path) -> None:
    """It is read without a complaint, and means daily, 14 files kept, empty ones left alone."""
    write_log(logs)

    said = rotate(logs, "--debug")

    assert "error:" not in said
    assert said.count("warning:") == said.count("warning: logrotate in debug mode")
    assert "after 1 days (14 rotations)" in said
    assert "empty log files are not rotated" in said


def test_a_rotated_log_is_replaced_by_an_empty_one_of_its_mode(logs: Path) -> None:
    """The old file is moved, not copied, and what comes next may write to the new one as before."""
    old = write_log(logs, mode=0o640)
    inode = old.stat().st_ino

    rotate(logs, "--force")

    assert names(logs) == ["dispatcher.log", "dispatcher.log.1"]
    assert (logs / "dispatcher.log").read_text() == ""
    assert stat.S_IMODE((logs / "dispatcher.log").stat().st_mode) == 0o640
    assert (logs / "dispatcher.log.1").stat().st_ino == inode


def test_a_process_that_still_writes_loses_nothing(logs: Path) -> None:
    """A runner that opened the log before the rotation writes into a file that is kept, uncompressed."""
    with write_log(logs).open("a") as runner:
        rotate(logs, "--force")
        runner.write("its last line\n")

    assert (logs / "dispatcher.log.1").read_text() == "a line\nits last line\n"


def test_logs_are_compressed_a_day_later_and_end_after_fourteen(logs: Path) -> None:
    """All but the newest old log are compressed, and never more than 14 are kept."""
    for day in range(16):
        write_log(logs, f"day {day}\n")
        rotate(logs, "--force")

    kept = ["dispatcher.log", "dispatcher.log.1", *(f"dispatcher.log.{number}.gz" for number in range(2, 15))]
    assert names(logs) == sorted(kept)


def test_an_empty_or_missing_log_is_no_error(logs: Path) -> None:
    """A host that has not run anything yet is left alone."""
    rotate(logs, "--force")
    write_log(logs, "")
    rotate(logs, "--force")

    assert names(logs) == ["dispatcher.log"]
