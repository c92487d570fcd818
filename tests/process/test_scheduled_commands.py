"""Commands of schedule files: real programs, ended in time; no other command is ever run."""

from pathlib import Path

import psutil
import pytest

from mayfly.queue.outcome import Retry
from mayfly.schedules.command import MAX_OUTPUT_BYTES, run_command
from mayfly.schedules.parse import parse_line
from tests.process.installation import Installation, wait_until
from tests.process.schedules import write_schedule


def run(home: Path, command: str, options: str = "") -> dict[str, object]:
    entry = parse_line(f"@daily name=x {options} run: {command}")
    assert entry.command is not None
    return run_command(entry, entry.command, home)


def failing(home: Path, command: str, options: str = "") -> str:
    with pytest.raises(Retry) as failure:
        run(home, command, options)
    return str(failure.value)


def is_gone(pid: int) -> bool:
    """Or a zombie that was not reaped yet."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


# --- one command ------------------------------------------------------------------------------------------


def test_exit_code_and_output_are_the_result(tmp_path: Path) -> None:
    """With stderr; words are split, and nothing is expanded: there is no shell."""
    assert run(tmp_path, "printf '%s|' 'a b' $HOME *") == {"exit_code": 0, "output": "a b|$HOME|*|"}
    assert run(tmp_path, "sh -c 'echo out; echo err >&2'")["output"] == "out\nerr"


def test_a_command_runs_in_the_home_directory(tmp_path: Path) -> None:
    """Relative programs are found there, in any working directory."""
    program = tmp_path / "scripts" / "where"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\npwd\n")
    program.chmod(0o755)

    assert run(tmp_path, "scripts/where")["output"] == str(tmp_path)


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("sh -c 'echo so; exit 3'", "exit code 3: sh -c 'echo so; exit 3'\nso"),
        ("sh -c 'kill -9 $$'", "killed by SIGKILL: sh -c 'kill -9 $$'"),
        ("no-such-program", "cannot be started: No such file or directory: no-such-program"),
        ("./", "cannot be started: Permission denied: ./"),
    ],
)
def test_a_failed_command_is_a_failure_with_its_output(tmp_path: Path, command: str, reason: str) -> None:
    """With its line breaks."""
    assert failing(tmp_path, command) == reason


def test_only_the_end_of_long_output_is_kept(tmp_path: Path) -> None:
    """For any size, and also if it is not text."""
    output = str(run(tmp_path, "sh -c 'yes 0123456789 | head -c 3000000; printf \"\\377end\"'")["output"])

    assert output.startswith("… 2,992,004 bytes omitted …\n")
    assert output.endswith("\ufffdend")
    assert len(output) < MAX_OUTPUT_BYTES + 100


def test_a_command_past_its_timeout_is_ended_with_its_children(tmp_path: Path) -> None:
    """Even if they ignore SIGTERM; the error has its output."""
    script = 'trap "" TERM; sleep 600 & echo $! > child; echo waiting; sleep 600; sleep 600'

    reason = failing(tmp_path, f"sh -c '{script}'", "timeout=2s")

    assert reason.startswith("timed out after 2 s and was terminated: sh -c ")
    assert reason.endswith("\nwaiting")
    child = int((tmp_path / "child").read_text())
    wait_until(lambda: is_gone(child), "it is gone")


def test_a_command_that_prints_endlessly_is_ended_in_time(tmp_path: Path) -> None:
    """Its output does not delay the timeout."""
    assert failing(tmp_path, "yes", "timeout=1s").startswith("timed out after 1 s")


def test_processes_left_by_a_command_are_ended(tmp_path: Path) -> None:
    """Without waiting for them, although they hold the pipe open."""
    assert run(tmp_path, "sh -c 'sleep 600 & echo $! > child; echo done'") == {"exit_code": 0, "output": "done"}

    child = int((tmp_path / "child").read_text())
    wait_until(lambda: is_gone(child), "it is gone")


# --- as jobs ----------------------------------------------------------------------------------------------


def test_a_command_is_a_job_with_a_result(installation: Installation) -> None:
    """The row has only the name of the schedule. A failed command is retried, like any job."""
    write_schedule(
        installation,
        "@yearly name=good run: sh -c 'echo fine'",
        "@yearly name=bad max_attempts=2 run: sh -c 'echo broken; exit 7'",
    )
    good, bad = (int(installation.run("mayfly", "schedules", "run-now", name).stdout) for name in ("good", "bad"))

    installation.dispatch(BACKOFF_BASE="0.000001")

    assert installation.job(good).payload == '{"schedule":"good"}'
    assert (installation.job(good).status, installation.job(good).result) == (
        "done",
        '{"exit_code":0,"output":"fine"}',
    )
    row = installation.job(bad)
    assert (row.status, row.attempts, row.last_error) == (
        "dead",
        2,
        "exit code 7: sh -c 'echo broken; exit 7'\nbroken",
    )


@pytest.mark.parametrize(
    "payload",
    [
        '{"schedule": "gone"}',
        '{"schedule": "noop"}',
        '{"schedule": "touch hacked"}',
        '{"schedule": null, "command": "touch hacked", "run": "touch hacked"}',
        '{"schedule": ["touch", "hacked"]}',
    ],
)
def test_only_commands_of_schedule_files_are_run(embedded: Installation, payload: str) -> None:
    """A job that names anything else is dead, with that reason."""
    write_schedule(embedded, "@yearly name=known run: true", "@yearly noop")
    [job] = embedded.enqueue("command", payload)

    embedded.dispatch()

    row = embedded.job(job)
    assert row.status == "dead"
    assert row.last_error.endswith("in the schedule files of this host: only commands in them are run")
    assert not (embedded.home / "hacked").exists()


def test_a_command_dies_with_its_killed_dispatcher(embedded: Installation) -> None:
    """The kernel ends the runner with it, and the command with the runner."""
    write_schedule(embedded, "@yearly name=long run: sh -c 'echo $$ > pid; exec sleep 600'")
    embedded.run("mayfly", "schedules", "run-now", "long")
    cycle = embedded.start("dispatcher")
    wait_until(lambda: (embedded.home / "pid").exists() and (embedded.home / "pid").read_text(), "it runs")
    command = int((embedded.home / "pid").read_text())

    cycle.kill()

    wait_until(lambda: is_gone(command), "it is gone")


def test_the_guard_ends_a_command(embedded: Installation) -> None:
    """Here at the fourth interruption, which uses the attempt; the runner exits in time."""
    write_schedule(embedded, "@yearly name=long max_attempts=1 run: sh -c 'echo $$ > pid; sleep 600; sleep 600'")
    job = int(embedded.run("mayfly", "schedules", "run-now", "long").stdout)
    embedded.execute("UPDATE mayfly_jobs SET interruptions = 3")

    cycle = embedded.dispatch(WORKER_TIMEOUT="5", DISPATCH_TIMEOUT="30")

    assert cycle.returncode == 2, cycle.stderr
    assert embedded.job(job).status == "dead"
    assert embedded.job(job).last_error.startswith("timed out after ")
    assert is_gone(int((embedded.home / "pid").read_text()))
