"""`mayfly cron print logrotate`, which is cron.d/mayfly.logrotate with our values, with the real logrotate."""

import stat
import subprocess
from pathlib import Path

import pytest

from tests.process.cron.programs import SYSTEM_PATH, debian_program, print_file


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    path = tmp_path / "mayfly home/logs"
    path.mkdir(parents=True)
    return path


def configuration(logs: Path) -> Path:
    """For the owner of the home; LOG_DIR is the default, or as in its mayfly.toml."""
    path = logs.parent / "mayfly.logrotate"
    if not path.exists():
        path.write_text(print_file("logrotate", logs.parent))
        path.chmod(0o644)
    return path


def rotate(logs: Path, *options: str) -> str:
    """Run logrotate; returns its output, which with `--debug` is what it would do."""
    program = debian_program("logrotate", "logrotate")
    ran = subprocess.run(
        [program, "--state", logs.parent / "state", *options, configuration(logs)],
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


def test_logrotate_accepts_the_snippet(logs: Path) -> None:
    """Without a warning: daily, 14 files kept, empty ones not rotated."""
    write_log(logs)

    output = rotate(logs, "--debug")

    assert "error:" not in output
    assert output.count("warning:") == output.count("warning: logrotate in debug mode")
    assert "after 1 days (14 rotations)" in output
    assert "empty log files are not rotated" in output


def test_a_rotated_log_is_replaced_by_an_empty_file(logs: Path) -> None:
    """The old file is moved, not copied; the new one has the same mode."""
    old = write_log(logs, mode=0o640)
    inode = old.stat().st_ino

    rotate(logs, "--force")

    assert names(logs) == ["dispatcher.log", "dispatcher.log.1"]
    assert (logs / "dispatcher.log").read_text() == ""
    assert stat.S_IMODE((logs / "dispatcher.log").stat().st_mode) == 0o640
    assert (logs / "dispatcher.log.1").stat().st_ino == inode


def test_a_process_that_still_writes_loses_nothing(logs: Path) -> None:
    """A runner that opened the log before the rotation writes to a file that is kept, uncompressed."""
    with write_log(logs).open("a") as runner:
        rotate(logs, "--force")
        runner.write("its last line\n")

    assert (logs / "dispatcher.log.1").read_text() == "a line\nits last line\n"


def test_logs_are_compressed_after_a_day_and_removed_after_fourteen(logs: Path) -> None:
    """All but the newest rotated log are compressed."""
    for day in range(16):
        write_log(logs, f"day {day}\n")
        rotate(logs, "--force")

    kept = ["dispatcher.log", "dispatcher.log.1", *(f"dispatcher.log.{number}.gz" for number in range(2, 15))]
    assert names(logs) == sorted(kept)


def test_an_empty_or_missing_log_is_no_error(logs: Path) -> None:
    """As on a host that has not run a cycle yet."""
    rotate(logs, "--force")
    write_log(logs, "")
    rotate(logs, "--force")

    assert names(logs) == ["dispatcher.log"]


def test_the_logs_are_where_log_dir_says(logs: Path) -> None:
    """As a cycle under cron reads it: from the files of the home."""
    (logs.parent / "mayfly.toml").write_text('log_dir = "/var/log/orders"\n')

    assert '"/var/log/orders/*.log" {' in print_file("logrotate", logs.parent)
