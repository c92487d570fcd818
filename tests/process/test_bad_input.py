"""Bad input: a sentence that says what to do, the right exit code, never a traceback and never a password."""

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
    f"mysql://app:{SECRET}@127.0.0.1:1/jobs": (1, "Check that the server runs and that DATABASE_URL is right."),
    f"postgresql://app:{SECRET}@127.0.0.1:1/jobs": (1, "Check that the server runs and that DATABASE_URL is right."),
    f"mysql://app@127.0.0.1:1/jobs?password={SECRET}": (1, "Check that the server runs"),
    "sqlite:////proc/nowhere/mayfly.db": (1, "can't be opened: No such file or directory. Check the path in"),
    "sqlite:////etc/passwd": (1, "can't be opened: file is not a database. Check the path in DATABASE_URL"),
}


@pytest.mark.parametrize(("url", "answer"), URLS.items(), ids=[str(number) for number in range(len(URLS))])
def test_a_database_that_cannot_be_had(embedded: Installation, url: str, answer: tuple[int, str]) -> None:
    """Wrong, unknown, unreachable or no database: what is wrong and what to do, and the password nowhere."""
    code, sentence = answer

    cycle = embedded.dispatch(DATABASE_URL=url)

    assert refusal(cycle) == code
    assert sentence in cycle.stderr
    assert SECRET not in cycle.stderr + embedded.log


@pytest.mark.parametrize("engine_name", ["mariadb", "postgres"], indirect=True)
def test_a_wrong_password_is_not_shown(database_url: str, tmp_path: Path) -> None:
    """The server's refusal is passed on with the user's name, in mail and log, and without the password."""
    url = make_url(database_url).set(password=SECRET).render_as_string(hide_password=False)
    installation = Installation(tmp_path, url)

    cycle = installation.dispatch()

    assert refusal(cycle) == 1
    assert "refused: " in cycle.stderr
    assert "Check user, password, database name and privileges" in cycle.stderr
    assert "Cycle failed: The database " in installation.log
    assert SECRET not in cycle.stderr + installation.log


@pytest.mark.parametrize("engine_name", ["mariadb", "postgres"], indirect=True)
def test_a_server_without_tables_is_not_migrated_unasked(database_url: str, tmp_path: Path) -> None:
    """A sentence says what to run; nothing is created."""
    installation = Installation(tmp_path, database_url)

    cycle = installation.dispatch()

    assert refusal(cycle) == 1
    assert cycle.stderr == "The database has no Mayfly tables yet. Run `mayfly migrate` once.\n"


def test_tables_newer_than_this_mayfly_are_left_alone(installation: Installation) -> None:
    """Another host has been upgraded first: this one says so every minute, and touches no job."""
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
def test_a_setting_out_of_bounds(embedded: Installation, given: str) -> None:
    """Each is named with its value, where it came from, and what is allowed; nothing has been started."""
    name, _, value = given.partition("=")

    cycle = embedded.dispatch(**{name: value})

    assert refusal(cycle) == 64
    assert SETTINGS[given] in cycle.stderr
    assert list(embedded.home.iterdir()) == []


def test_a_misspelled_variable_is_a_warning(embedded: Installation) -> None:
    """The environment is full of others' names: the cycle goes on, and the log asks."""
    cycle = embedded.dispatch(MAX_WORKER="3")

    assert (cycle.returncode, cycle.stderr) == (0, "")
    assert "WARNING: MAX_WORKER (environment): is not a setting and has no effect; did you mean" in embedded.log


def test_a_misspelled_name_in_the_settings_file_is_refused(embedded: Installation) -> None:
    """mayfly.toml is ours alone: what is not a setting there is a mistake."""
    (embedded.home / "mayfly.toml").write_text("max_worker = 3\n")

    cycle = embedded.dispatch()

    assert refusal(cycle) == 64
    assert cycle.stderr.endswith("mayfly.toml): is not a setting; did you mean max_workers?\n")


@pytest.mark.parametrize("spawn", ["fork", "exec"])
def test_a_log_that_cannot_be_opened_stops_no_job(embedded: Installation, spawn: str) -> None:
    """It is told once, however many runners there are; the jobs matter more than their log."""
    embedded.enqueue("noop", count=12)

    cycle = embedded.dispatch(LOG_DIR="/proc/nowhere", SPAWN=spawn)

    assert (cycle.returncode, cycle.stdout) == (0, "")
    assert embedded.statuses() == {"done": 12}
    assert cycle.stderr.startswith("The log /proc/nowhere/dispatcher.log cannot be written: ")
    assert cycle.stderr.endswith("or set LOG_DIR. This run continues without a log.\n")
    assert cycle.stderr.count("\n") == 1


def test_a_log_on_a_full_disk_stops_no_job(embedded: Installation) -> None:
    """The same when the disk fills up under an open log."""
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
    """The cycle says that there is no space and ends with 1; with space again, the next one does the work."""
    installation = Installation(tmp_path, f"sqlite:///{small_disk}/mayfly.db")
    installation.enqueue("noop", count=5)
    installation.database.close()
    ballast = small_disk / "ballast"
    with suppress(OSError):  # no space left, at last
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


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a directory to somebody else")
def test_a_state_directory_that_others_could_have_laid_out_is_refused(embedded: Installation) -> None:
    """Who can write there could hold our lock or forge what our runners say: not even through a link."""
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


def test_a_state_directory_that_others_can_write_is_refused(embedded: Installation) -> None:
    """A directory for all is no place for a lock."""
    shared = embedded.home / "shared"
    shared.mkdir()
    shared.chmod(0o777)

    cycle = embedded.dispatch(STATE_DIR=str(shared))

    assert refusal(cycle) == 1
    assert f"The state directory {shared} can be written by others." in cycle.stderr


@pytest.mark.parametrize("place", ["/proc/nowhere", "/etc/passwd"])
def test_a_state_directory_that_cannot_be_made(embedded: Installation, place: str) -> None:
    """It is named, with what the system said and what to set."""
    cycle = embedded.dispatch(STATE_DIR=place)

    assert refusal(cycle) == 1
    assert cycle.stderr.startswith(f"The state directory {place} cannot be used: ")
    assert cycle.stderr.endswith("set STATE_DIR to your own directory.\n")


def refusal(process: subprocess.CompletedProcess[str]) -> int:
    """The exit code of a process that said on stderr, and only there, in words, why it did nothing."""
    assert process.stdout == ""
    assert "Traceback" not in process.stderr
    assert process.stderr.strip()
    return process.returncode
