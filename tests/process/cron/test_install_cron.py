"""scripts/install-cron, run as people run it, into a directory of the test's own."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from mayfly.cli.cron_file import dispatcher_entries, find_cron_files, render_entry, unescape_percent
from tests.process.cron.programs import CHECKOUT, INSTALLER, IS_ROOT, needs_root, run_installer

NOBODY = 65534

# Root without root's power over others' files, where the tests run as root: another user might not be able to
# reach this checkout or its Python at all.
MERE_USER = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if IS_ROOT else []


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """What stands for /etc/cron.d."""
    return make_directory(tmp_path / "cron.d")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return make_directory(tmp_path / "home")


def make_directory(path: Path) -> Path:
    path.mkdir()
    return path


def as_written(path: Path) -> tuple[int, ...]:
    """All that a write would change; not when it was last read, which the installer may do."""
    found = path.stat()
    return (
        found.st_mode,
        found.st_ino,
        found.st_uid,
        found.st_gid,
        found.st_size,
        found.st_mtime_ns,
        found.st_ctime_ns,
    )


def make_checkout(path: Path) -> Path:
    """Another checkout, as far as the installer needs one: its scripts, and this one's `.venv`."""
    make_directory(path)
    make_directory(path / "scripts")
    for script in ("install-cron", "install_cron.py"):
        (path / "scripts" / script).write_bytes((CHECKOUT / "scripts" / script).read_bytes())
    (path / "scripts/install-cron").chmod(0o755)
    (path / ".venv").symlink_to(CHECKOUT / ".venv")
    return path


def install(directory: Path, home: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return run_installer(directory, "--home", home, *arguments)


# The file


def test_print_shows_the_file_and_writes_nothing(directory: Path, home: Path) -> None:
    """Standard output is the file, ready to be redirected, and no file is made."""
    shown = install(directory, home, "--print", "--mailto", "ops@example.com")

    assert shown.returncode == 0
    (entry,) = dispatcher_entries(shown.stdout)
    assert entry.home == str(home)
    assert entry.interpreter == str(CHECKOUT / ".venv/bin/python")
    assert entry.environment["MAILTO"] == "ops@example.com"
    assert shown.stdout.endswith("dispatcher\n")
    assert list(directory.iterdir()) == []


def test_install_writes_what_print_shows(directory: Path, home: Path) -> None:
    """The file is the printed text, mode 0644, root's where root wrote it, and nothing lies beside it."""
    printed = install(directory, home, "--print").stdout

    installed = install(directory, home)

    (path,) = directory.iterdir()
    assert installed.returncode == 0, installed.stderr
    assert path.name == "mayfly"
    assert path.read_text() == printed
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert path.stat().st_uid == os.geteuid()


def test_install_says_how_to_see_it_work(directory: Path, home: Path) -> None:
    """The log to watch and the command that finds out what is wrong are named, with real paths."""
    said = install(directory, home).stdout

    assert f"Installed {directory}/mayfly" in said
    assert f"tail -F {home}/logs/dispatcher.log" in said
    assert f"{CHECKOUT}/.venv/bin/mayfly doctor" in said


def test_a_second_run_changes_nothing(directory: Path, home: Path) -> None:
    """Installing again leaves the very same file: cron has nothing to reload."""
    install(directory, home)
    before = as_written(directory / "mayfly")

    again = install(directory, home)

    assert again.returncode == 0
    assert "nothing changed" in again.stdout
    assert as_written(directory / "mayfly") == before


@pytest.mark.parametrize("mode", [0o664, 0o600])
def test_another_run_repairs_the_file(directory: Path, home: Path, mode: int) -> None:
    """A changed command or a mode by which cron ignores the file is put right."""
    install(directory, home)
    path = directory / "mayfly"
    good = path.read_text()
    path.write_text(good.replace("-P ", "") if mode == 0o600 else good)
    path.chmod(mode)

    repaired = install(directory, home)

    assert repaired.returncode == 0
    assert path.read_text() == good
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_a_symbolic_link_is_replaced_not_followed(directory: Path, home: Path) -> None:
    """What the link points to keeps its text."""
    target = home / "elsewhere"
    target.write_text(install(directory, home, "--print").stdout)
    (directory / "mayfly").symlink_to(target)
    before = as_written(target)

    assert install(directory, home).returncode == 0
    assert not (directory / "mayfly").is_symlink()
    assert as_written(target) == before


def test_remove_removes_and_may_be_repeated(directory: Path, home: Path) -> None:
    """After --remove the file is gone; to remove what is not there is no error."""
    install(directory, home)

    first = install(directory, home, "--remove")
    second = install(directory, home, "--remove")

    assert (first.returncode, second.returncode) == (0, 0)
    assert "Removed" in first.stdout
    assert "nothing to remove" in second.stdout
    assert list(directory.iterdir()) == []


# Others' files


@pytest.mark.parametrize("action", [(), ("--remove",)])
def test_another_programs_file_is_left_alone(directory: Path, home: Path, action: tuple[str, ...]) -> None:
    """A name that another program uses is refused, for installing and for removing."""
    (directory / "php").write_text("* * * * * root /usr/lib/php/sessionclean\n")

    refused = install(directory, home, "--name", "php", *action)

    assert refused.returncode == 1
    assert "is not Mayfly's" in refused.stderr
    assert (directory / "php").read_text() == "* * * * * root /usr/lib/php/sessionclean\n"


@pytest.mark.parametrize("action", [(), ("--remove",)])
def test_another_installations_file_is_left_alone(
    directory: Path, home: Path, tmp_path: Path, action: tuple[str, ...]
) -> None:
    """A second installation on the host must take a second name: it would silence the first."""
    install(directory, home)
    other = make_directory(tmp_path / "other")

    refused = install(directory, other, *action)

    assert refused.returncode == 1
    assert f"belongs to the installation in {home}" in refused.stderr
    assert f"MAYFLY_HOME={home} " in (directory / "mayfly").read_text()
    assert install(directory, other, "--name", "mayfly-2").returncode == 0


def test_a_second_file_for_one_home_is_warned_of(directory: Path, home: Path) -> None:
    """Two files that start the same installation are most likely a rename half done."""
    install(directory, home)

    assert f"{directory}/mayfly starts the same" in install(directory, home, "--name", "mayfly-2").stderr


# Paths


def test_strange_paths_survive_the_shell(tmp_path: Path) -> None:
    """Run by a real /bin/sh, as cron would, the command starts that interpreter with that MAYFLY_HOME."""
    strange = make_directory(tmp_path / """100% "of" it's $HOME `id` ; # * ä""")
    python = strange / "python"
    python.write_text('#!/bin/sh\nprintf "%s\\n" "$MAYFLY_HOME" "$@"\n')
    python.chmod(0o755)
    text = render_entry(user="root", home=str(strange), python=str(python))

    command, is_cut = unescape_percent(text.splitlines()[-1].removeprefix("* * * * * root "))
    output = subprocess.check_output(["/bin/sh", "-c", command], text=True)

    assert not is_cut
    assert output.splitlines() == [str(strange), "-P", "-m", "dispatcher"]


def test_a_checkout_with_a_strange_path_is_installed(directory: Path, home: Path, tmp_path: Path) -> None:
    """Spaces, quotes and percent signs in the checkout's own path are no obstacle."""
    checkout = make_checkout(tmp_path / "it's 100% ours")

    installed = run_installer(directory, "--home", home, script=checkout / "scripts/install-cron")

    assert installed.returncode == 0, installed.stderr
    (entry,) = dispatcher_entries((directory / "mayfly").read_text())
    assert entry.interpreter == str(checkout / ".venv/bin/python")


def test_a_link_to_the_release_is_kept(directory: Path, home: Path, tmp_path: Path) -> None:
    """Called by way of `current`, the entry names `current`: the next release needs no new entry."""
    make_checkout(tmp_path / "release-1")
    (tmp_path / "current").symlink_to("release-1")

    shown = run_installer(directory, "--print", "--home", home, script=tmp_path / "current/scripts/install-cron")

    assert f"{tmp_path}/current/.venv/bin/python" in shown.stdout


def test_a_home_is_the_same_by_its_link_and_by_its_own_path(directory: Path, home: Path, tmp_path: Path) -> None:
    """The entry of a linked home is found, and may be renewed, by the directory that the link leads to."""
    link = tmp_path / "current"
    link.symlink_to(home)
    install(directory, link)

    assert find_cron_files(directory, str(home)) == [directory / "mayfly"]
    assert install(directory, home).returncode == 0


def test_the_home_may_come_from_the_environment(directory: Path, home: Path) -> None:
    """MAYFLY_HOME means to the installer what it means to every other program."""
    shown = run_installer(directory, "--print", environment={"MAYFLY_HOME": str(home)})

    assert f"={home} " in shown.stdout


# What is refused


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--name", "mayfly.cron"], "mayfly.cron"),
        (["--name", "../mayfly"], "../mayfly"),
        (["--name", ""], "letters"),
        (["--user", "nobody-of-this-name"], "nobody-of-this-name"),
        (["--home", "/nowhere/at/all"], "/nowhere/at/all"),
        (["--mailto", "a\nb"], "mail"),
        (["--print", "--remove"], "not allowed"),
        (["--colour"], "--colour"),
        (["--name"], "--name"),
    ],
)
def test_wrong_options_are_a_sentence_and_64(directory: Path, arguments: list[str], word: str) -> None:
    """Each wrong option is named in one line, with exit code 64, and nothing is written."""
    refused = run_installer(directory, *arguments)

    assert refused.returncode == 64
    assert word in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert list(directory.iterdir()) == []


def test_a_home_with_a_line_break_is_refused(directory: Path, tmp_path: Path) -> None:
    """A path cannot smuggle a second line into root's cron."""
    evil = make_directory(tmp_path / "x\n* * * * * root id")

    refused = install(directory, evil)

    assert refused.returncode == 64
    assert "line break" in refused.stderr
    assert list(directory.iterdir()) == []


def test_a_directory_that_is_not_there_is_a_sentence(tmp_path: Path, home: Path) -> None:
    """A host without /etc/cron.d is told what to do."""
    refused = install(tmp_path / "none", home)

    assert refused.returncode == 1
    assert "docs/cron.md" in refused.stderr


def test_who_may_not_write_is_told_to_use_sudo(directory: Path, home: Path) -> None:
    """Without the right to write, one sentence gives the command to run, options included."""
    if IS_ROOT:
        os.chown(directory, NOBODY, NOBODY)
    directory.chmod(0o555)

    refused = run_installer(directory, "--home", home, prefix=MERE_USER)

    assert refused.returncode == 1
    assert f"`sudo {INSTALLER} --directory {directory} --home {home}`" in refused.stderr
    assert list(directory.iterdir()) == []


@needs_root
def test_a_user_who_cannot_run_python_is_refused(directory: Path, home: Path, tmp_path: Path) -> None:
    """A checkout that the user cannot enter would fail every minute: it is said now."""
    checkout = make_checkout(tmp_path / "private")
    checkout.chmod(0o700)

    refused = run_installer(directory, "--home", home, "--user", "nobody", script=checkout / "scripts/install-cron")

    assert refused.returncode == 1
    assert "nobody may not run" in refused.stderr
    assert list(directory.iterdir()) == []


@needs_root
def test_to_run_as_root_is_allowed_with_a_warning(directory: Path, home: Path) -> None:
    """Root may run its handlers as root, and is told once that it is unwise."""
    installed = install(directory, home, "--user", "root")

    assert installed.returncode == 0
    assert installed.stderr.count("every handler will run as root") == 1


def test_a_checkout_without_its_environment_is_told_what_to_run(directory: Path, home: Path, tmp_path: Path) -> None:
    """No `.venv` yet: one sentence names the script that makes it."""
    checkout = make_checkout(tmp_path / "fresh")
    (checkout / ".venv").unlink()

    refused = run_installer(directory, "--print", "--home", home, script=checkout / "scripts/install-cron")

    assert refused.returncode == 1
    assert "scripts/quickstart" in refused.stderr


def test_an_environment_without_mayfly_is_told_what_to_run(directory: Path, home: Path, tmp_path: Path) -> None:
    """A `.venv` into which the project was never installed gives a sentence and no traceback."""
    checkout = make_checkout(tmp_path / "empty")
    (checkout / ".venv").unlink()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", checkout / ".venv"], check=True)

    refused = run_installer(directory, "--print", "--home", home, script=checkout / "scripts/install-cron")

    assert refused.returncode == 1
    assert "scripts/quickstart" in refused.stderr
    assert "Traceback" not in refused.stderr


# What is shown to people


def test_help_names_every_option(directory: Path) -> None:
    """--help is enough to use it."""
    shown = run_installer(directory, "--help")

    assert shown.returncode == 0
    for option in ("--print", "--remove", "--user", "--home", "--mailto", "--name", "--directory", "sudo"):
        assert option in shown.stdout


def test_the_example_is_what_the_installer_writes() -> None:
    """cron.d/mayfly and the installer never drift apart."""
    example = (CHECKOUT / "cron.d/mayfly").read_text()
    written = render_entry(
        user="mayfly", home="/srv/mayfly", python="/srv/mayfly/.venv/bin/python", mailto="ops@example.com"
    )

    assert active_lines(example) == active_lines(written)


def test_the_docs_show_the_line_that_is_written() -> None:
    """docs/cron.md explains the entry of cron.d/mayfly, not one of long ago."""
    entry = active_lines((CHECKOUT / "cron.d/mayfly").read_text())[-1]

    assert entry in (CHECKOUT / "docs/cron.md").read_text()


def active_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and not line.startswith("#")]
