"""Bad input: an error message that explains what to do, the right exit code, no traceback and no password."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy import make_url

from tests.process.installation import Installation

SECRET = "correct-horse-battery"

URLS = {
    "nonsense": (64, "DATABASE_URL (environment): must be a URL that begins with sqlite:///"),
    f"mysql://app:{SECRET}@127.0.0.1": (64, "must look like mysql://user:password@host:port/database"),
    f"mysql://app:{SECRET}@127.0.0.1:1/jobs?ssl-mode=ON": (64, "the driver cannot use an option behind the ?"),
    f"postgresql://app:{SECRET}@127.0.0.1:1/jobs?tls=on": (64, "the driver cannot use an option behind the ?"),
    f"mysql://app:{SECRET}@127.0.0.1:1/jobs": (1, "Check that the server runs and that DATABASE_URL is correct."),
    f"postgresql://app:{SECRET}@127.0.0.1:1/jobs": (
        1,
        "Check that the server runs and that DATABASE_URL is correct.",
    ),
    f"mysql://app@127.0.0.1:1/jobs?password={SECRET}": (1, "Check that the server runs"),
    "sqlite:////proc/nowhere/mayfly.db": (1, "can't be opened: No such file or directory. Check the path in"),
    "sqlite:////etc/passwd": (1, "can't be opened: file is not a database. Check the path in DATABASE_URL"),
}


@pytest.mark.parametrize(("url", "answer"), URLS.items(), ids=[str(number) for number in range(len(URLS))])
def test_an_unusable_database_is_an_error_message(embedded: Installation, url: str, answer: tuple[int, str]) -> None:
    """Wrong, unknown, unreachable or missing: the message explains what to do and has no password."""
    code, sentence = answer

    cycle = embedded.dispatch(DATABASE_URL=url)

    assert refusal(cycle) == code
    assert sentence in cycle.stderr
    assert SECRET not in cycle.stderr + embedded.log


@pytest.mark.parametrize("engine_name", ["mariadb", "postgres"], indirect=True)
def test_a_wrong_password_is_not_shown(database_url: str, tmp_path: Path) -> None:
    """The error of the server, with the user name, is in the mail and in the log."""
    url = make_url(database_url).set(password=SECRET).render_as_string(hide_password=False)
    installation = Installation(tmp_path, url)

    cycle = installation.dispatch()

    assert refusal(cycle) == 1
    assert "refused access: " in cycle.stderr
    assert "Check user, password, database name and privileges" in cycle.stderr
    assert "Cycle failed: The database " in installation.log
    assert SECRET not in cycle.stderr + installation.log


@pytest.mark.parametrize("engine_name", ["mariadb", "postgres"], indirect=True)
def test_a_server_without_tables_is_not_migrated(database_url: str, tmp_path: Path) -> None:
    """The message names the command to run; nothing is created."""
    installation = Installation(tmp_path, database_url)

    cycle = installation.dispatch()

    assert refusal(cycle) == 1
    assert cycle.stderr == "The database has no Mayfly tables yet. Run `mayfly migrate` once.\n"


def test_newer_tables_are_left_alone(installation: Installation) -> None:
    """Another host was upgraded first: this one reports it every minute and changes no job."""
    installation.enqueue("noop")
    installation.execute("UPDATE mayfly_version SET version_num = '9999'")

    cycle = installation.dispatch()

    assert refusal(cycle) == 1
    assert "newer than the" in cycle.stderr
    assert cycle.stderr.endswith("Upgrade Mayfly on this host.\n")
    assert installation.statuses() == {"pending": 1}


SETTINGS = {
    "BATCH_SIZE=0": "BATCH_SIZE=0 (environment): must be an integer from 1 to 1000",
    "BATCH_SIZE=-1": "BATCH_SIZE=-1 (environment): must be an integer from 1 to 1000",
    "BATCH_SIZE=abc": "BATCH_SIZE=abc (environment): must be an integer from 1 to 1000",
    "WORKER_TIMEOUT=55": "must be WORKER_TIMEOUT < DISPATCH_TIMEOUT < 60",
    "MAYFLY_HOME=/no/such/place": "must be the absolute path of an existing directory",
}


@pytest.mark.parametrize("given", SETTINGS)
def test_an_invalid_setting_is_refused(new_home: Installation, given: str) -> None:
    """The message names value, source and allowed range; nothing is started."""
    name, _, value = given.partition("=")

    cycle = new_home.dispatch(**{name: value})

    assert refusal(cycle) == 64
    assert SETTINGS[given] in cycle.stderr
    assert list(new_home.home.iterdir()) == []


def test_a_misspelled_variable_is_a_warning(embedded: Installation) -> None:
    """The environment also has variables of other programs, so the cycle runs."""
    cycle = embedded.dispatch(MAX_WORKER="3")

    assert (cycle.returncode, cycle.stderr) == (0, "")
    assert "WARNING: MAX_WORKER (environment): is not a setting and has no effect; did you mean" in embedded.log


def test_a_misspelled_name_in_the_settings_file_is_refused(embedded: Installation) -> None:
    """mayfly.toml has only our settings, so an unknown name is an error."""
    (embedded.home / "mayfly.toml").write_text("max_worker = 3\n")

    cycle = embedded.dispatch()

    assert refusal(cycle) == 64
    assert cycle.stderr.endswith("mayfly.toml): is not a setting; did you mean max_workers?\n")


def test_a_misspelled_lane_is_not_reported_later(embedded: Installation) -> None:
    """The terminal has shown the message; `mayfly status` shows problems of the host."""
    embedded.dispatch()

    cycle = embedded.dispatch("--lane", "defautl")

    status = embedded.run("mayfly", "status")
    assert refusal(cycle) == 64
    assert (status.returncode, status.stderr) == (0, "")
    assert "defautl" not in status.stdout


@pytest.mark.parametrize("spawn", ["fork", "exec"])
def test_an_unopenable_log_stops_no_job(embedded: Installation, spawn: str) -> None:
    """It is reported once, for any number of runners."""
    embedded.enqueue("noop", count=12)

    cycle = embedded.dispatch(LOG_DIR="/proc/nowhere", SPAWN=spawn)

    assert (cycle.returncode, cycle.stdout) == (0, "")
    assert embedded.statuses() == {"done": 12}
    assert cycle.stderr.startswith("The log /proc/nowhere/dispatcher.log cannot be written: ")
    assert cycle.stderr.endswith("or set LOG_DIR. This run continues without a log.\n")
    assert cycle.stderr.count("\n") == 1


def test_a_log_on_a_full_disk_stops_no_job(embedded: Installation) -> None:
    """Also if the disk fills up while the log is open."""
    embedded.enqueue("noop", count=12)
    logs = embedded.home / "logs"
    logs.mkdir()
    (logs / "dispatcher.log").symlink_to("/dev/full")

    cycle = embedded.dispatch()

    assert (cycle.returncode, cycle.stdout) == (0, "")
    assert embedded.statuses() == {"done": 12}
    assert "cannot be written: No space left on device. Make it writable for " in cycle.stderr
    assert cycle.stderr.count("\n") == 1


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    place = tmp_path / "disk"
    place.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", "size=1m", "mayfly-test", str(place)]
    mounted = subprocess.run(mounting, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"no file system can be mounted here ({mounted.stderr.strip()}); tests/database has the rest")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_full_disk_under_the_database_loses_nothing(small_disk: Path, tmp_path: Path) -> None:
    """The cycle reports it and exits with 1; with space again, the next one runs the jobs."""
    installation = Installation(tmp_path, f"sqlite:///{small_disk}/mayfly.db")
    installation.enqueue("noop", count=5)
    installation.database.close()
    ballast = small_disk / "ballast"
    with suppress(OSError):  # until no space is left
        ballast.write_bytes(b"x" * (2 << 20))

    full = installation.dispatch()
    ballast.unlink()
    roomy = installation.dispatch()

    assert refusal(full) == 1
    assert "cannot write: " in full.stderr
    assert "Free disk space or make it writable; no job is lost, and the next cycle continues." in full.stderr
    assert (roomy.returncode, roomy.stderr) == (0, "")
    assert installation.statuses() == {"done": 5}
    installation.end()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a directory to another user")
def test_a_state_directory_of_another_user_is_refused(embedded: Installation) -> None:
    """Its owner could hold our lock or forge status pages; a link to it is refused too."""
    foreign, link = embedded.home / "foreign", embedded.home / "link"
    foreign.mkdir(mode=0o700)
    os.chown(foreign, 1234, 1234)
    link.symlink_to(foreign)

    cycle = embedded.dispatch(STATE_DIR=str(link))

    assert refusal(cycle) == 1
    assert cycle.stderr == (
        f"The state directory {foreign} belongs to another user (uid 1234)."
        " Remove it, or set STATE_DIR to your own directory.\n"
    )
    assert list(foreign.iterdir()) == []


def test_a_state_directory_writable_by_others_is_refused(embedded: Installation) -> None:
    """Another user could take the lock."""
    shared = embedded.home / "shared"
    shared.mkdir()
    shared.chmod(0o777)

    cycle = embedded.dispatch(STATE_DIR=str(shared))

    assert refusal(cycle) == 1
    assert f"The state directory {shared} is writable for other users." in cycle.stderr


@pytest.mark.parametrize("place", ["/proc/nowhere", "/etc/passwd"])
def test_a_state_directory_that_cannot_be_created_is_an_error(embedded: Installation, place: str) -> None:
    """The message has its path, the error of the system, and the setting to change."""
    cycle = embedded.dispatch(STATE_DIR=place)

    assert refusal(cycle) == 1
    assert cycle.stderr.startswith(f"The state directory {place} cannot be used: ")
    assert cycle.stderr.endswith("set STATE_DIR to your own directory.\n")


def refusal(process: subprocess.CompletedProcess[str]) -> int:
    """The exit code of a process that wrote an error message to stderr and nothing else."""
    assert process.stdout == ""
    assert "Traceback" not in process.stderr
    assert process.stderr.strip()
    return process.returncode
