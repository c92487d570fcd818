"""scripts/install-cron and `mayfly cron` as processes, with a temporary directory instead of /etc/cron.d."""

import os
import stat
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from mayfly.cli.cron_file import dispatcher_entries, find_cron_files, render_entry, unescape_percent
from tests.process.cron.programs import CHECKOUT, IS_ROOT, needs_root, run_installer

NOBODY = 65534

# If the tests run as root: root without the right to write files of other users. Another user might not be able to
# read this checkout or its Python.
UNPRIVILEGED = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if IS_ROOT else []


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Stands for /etc/cron.d."""
    return make_directory(tmp_path / "cron.d")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return make_directory(tmp_path / "home")


def make_directory(path: Path) -> Path:
    path.mkdir()
    return path


def as_written(path: Path) -> tuple[int, ...]:
    """All that a write would change; not the access time, which the installer may change."""
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
    """Another checkout, with what the installer needs: its script, and a link to our `.venv`."""
    make_directory(path)
    make_directory(path / "scripts")
    (path / "scripts/install-cron").write_bytes((CHECKOUT / "scripts/install-cron").read_bytes())
    (path / "scripts/install-cron").chmod(0o755)
    (path / ".venv").symlink_to(CHECKOUT / ".venv")
    return path


def install(directory: Path, home: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return run_installer(directory, "--home", home, *arguments)


# The file


def test_print_shows_the_file_and_writes_nothing(directory: Path, home: Path) -> None:
    """Standard output is the file, and no file is written."""
    shown = install(directory, home, "--print", "--mailto", "ops@example.com")

    assert shown.returncode == 0
    (entry,) = dispatcher_entries(shown.stdout)
    assert entry.home == str(home)
    assert entry.interpreter == str(CHECKOUT / ".venv/bin/python")
    assert entry.environment["MAILTO"] == "ops@example.com"
    assert shown.stdout.endswith(" -P -m mayfly dispatch\n")
    assert list(directory.iterdir()) == []


def test_install_writes_what_print_shows(directory: Path, home: Path) -> None:
    """Mode 0644, owned by the user who ran it, and no other file is left."""
    printed = install(directory, home, "--print").stdout

    installed = install(directory, home)

    (path,) = directory.iterdir()
    assert installed.returncode == 0, installed.stderr
    assert path.name == "mayfly"
    assert path.read_text() == printed
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert path.stat().st_uid == os.geteuid()


def test_install_explains_how_to_check_it(directory: Path, home: Path) -> None:
    """It names the log to watch and the command for problems, with real paths."""
    printed = install(directory, home).stdout

    assert f"Installed {directory}/mayfly" in printed
    assert f"tail -F {home}/logs/dispatcher.log" in printed
    assert f"MAYFLY_HOME={home} {CHECKOUT}/.venv/bin/python -P -m mayfly doctor" in printed


def test_a_second_run_changes_nothing(directory: Path, home: Path) -> None:
    """The file is not written again: cron has nothing to reload."""
    install(directory, home)
    before = as_written(directory / "mayfly")

    again = install(directory, home)

    assert again.returncode == 0
    assert "nothing changed" in again.stdout
    assert as_written(directory / "mayfly") == before


@pytest.mark.parametrize("mode", [0o664, 0o600])
def test_another_run_repairs_the_file(directory: Path, home: Path, mode: int) -> None:
    """A changed command, or a mode with which cron ignores the file, is corrected."""
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
    """The target of the link keeps its text."""
    target = home / "elsewhere"
    target.write_text(install(directory, home, "--print").stdout)
    (directory / "mayfly").symlink_to(target)
    before = as_written(target)

    assert install(directory, home).returncode == 0
    assert not (directory / "mayfly").is_symlink()
    assert as_written(target) == before


def test_remove_can_be_repeated(directory: Path, home: Path) -> None:
    """A missing file is no error."""
    install(directory, home)

    first = install(directory, home, "--remove")
    second = install(directory, home, "--remove")

    assert (first.returncode, second.returncode) == (0, 0)
    assert "Removed" in first.stdout
    assert "nothing to remove" in second.stdout
    assert list(directory.iterdir()) == []


# Files of others


@pytest.mark.parametrize("action", [(), ("--remove",)])
def test_a_file_of_another_program_is_left_alone(directory: Path, home: Path, action: tuple[str, ...]) -> None:
    """Installing and removing are refused."""
    (directory / "php").write_text("* * * * * root /usr/lib/php/sessionclean\n")

    refused = install(directory, home, "--name", "php", *action)

    assert refused.returncode == 1
    assert "does not belong to Mayfly" in refused.stderr
    assert (directory / "php").read_text() == "* * * * * root /usr/lib/php/sessionclean\n"


@pytest.mark.parametrize("action", [(), ("--remove",)])
def test_a_file_of_another_installation_is_left_alone(
    directory: Path, home: Path, tmp_path: Path, action: tuple[str, ...]
) -> None:
    """A second installation on the host needs another name; otherwise it would replace the first."""
    install(directory, home)
    other = make_directory(tmp_path / "other")

    refused = install(directory, other, *action)

    assert refused.returncode == 1
    assert f"belongs to the installation in {home}" in refused.stderr
    assert f"MAYFLY_HOME={home} " in (directory / "mayfly").read_text()
    assert install(directory, other, "--name", "mayfly-2").returncode == 0


def test_a_second_file_for_one_home_is_a_warning(directory: Path, home: Path) -> None:
    """Two files for one installation are most likely an incomplete rename."""
    install(directory, home)

    second = install(directory, home, "--name", "mayfly-2")

    assert f"{directory}/mayfly starts the same installation" in second.stderr


# Paths


def test_special_characters_in_paths_survive_the_shell(tmp_path: Path) -> None:
    """/bin/sh, as used by cron, starts that interpreter with that MAYFLY_HOME."""
    special = make_directory(tmp_path / """100% "of" it's $HOME `id` ; # * ä""")
    python = special / "python"
    python.write_text('#!/bin/sh\nprintf "%s\\n" "$MAYFLY_HOME" "$@"\n')
    python.chmod(0o755)
    text = render_entry(user="root", home=str(special), python=str(python))

    command, is_cut = unescape_percent(text.splitlines()[-1].removeprefix("* * * * * root "))
    output = subprocess.check_output(["/bin/sh", "-c", command], text=True)

    assert not is_cut
    assert output.splitlines() == [str(special), "-P", "-m", "mayfly", "dispatch"]


def test_a_checkout_with_special_characters_is_installed(directory: Path, home: Path, tmp_path: Path) -> None:
    """Spaces, quotes and percent signs in its path work."""
    checkout = make_checkout(tmp_path / "it's 100% ours")

    installed = run_installer(directory, "--home", home, script=checkout / "scripts/install-cron")

    assert installed.returncode == 0, installed.stderr
    (entry,) = dispatcher_entries((directory / "mayfly").read_text())
    assert entry.interpreter == str(checkout / ".venv/bin/python")


def test_a_link_to_the_release_is_kept(directory: Path, home: Path, tmp_path: Path) -> None:
    """If the script is called through `current`, the entry names `current`: a new release needs no new entry."""
    make_checkout(tmp_path / "release-1")
    (tmp_path / "current").symlink_to("release-1")

    shown = run_installer(directory, "--print", "--home", home, script=tmp_path / "current/scripts/install-cron")

    assert f"{tmp_path}/current/.venv/bin/python" in shown.stdout


def test_a_home_is_found_by_link_and_by_path(directory: Path, home: Path, tmp_path: Path) -> None:
    """The entry of a linked home can be found and renewed by the target of the link."""
    link = tmp_path / "current"
    link.symlink_to(home)
    install(directory, link)

    assert find_cron_files(directory, str(home)) == [directory / "mayfly"]
    assert install(directory, home).returncode == 0


def test_the_home_can_come_from_the_environment(directory: Path, home: Path) -> None:
    """MAYFLY_HOME has the same meaning as for every other program."""
    shown = run_installer(directory, "--print", environment={"MAYFLY_HOME": str(home)})

    assert f"={home} " in shown.stdout


# Refusals


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--name", "mayfly.cron"], "mayfly.cron"),
        (["--name", "../mayfly"], "../mayfly"),
        (["--name", ""], "letters"),
        (["--user", "no-such-user"], "no-such-user"),
        (["--home", "/nowhere/at/all"], "/nowhere/at/all"),
        (["--mailto", "a\nb"], "mail"),
        (["--print", "--remove"], "not allowed"),
        (["--colour"], "--colour"),
        (["--name"], "--name"),
    ],
)
def test_wrong_options_are_an_error_message(directory: Path, arguments: list[str], word: str) -> None:
    """The last line names the option, the exit code is 64, and nothing is written."""
    refused = run_installer(directory, *arguments)

    assert refused.returncode == 64
    assert word in refused.stderr.splitlines()[-1]
    assert "Traceback" not in refused.stderr
    assert list(directory.iterdir()) == []


def test_a_home_with_a_line_break_is_refused(directory: Path, tmp_path: Path) -> None:
    """A path cannot add a second line to root's crontab."""
    evil = make_directory(tmp_path / "x\n* * * * * root id")

    refused = install(directory, evil)

    assert refused.returncode == 64
    assert "line break" in refused.stderr
    assert list(directory.iterdir()) == []


def test_a_missing_directory_is_an_error_message(tmp_path: Path, home: Path) -> None:
    """It refers a host without /etc/cron.d to the docs."""
    refused = install(tmp_path / "none", home)

    assert refused.returncode == 1
    assert "docs/how-to/install-on-cron.md" in refused.stderr


def test_missing_rights_are_an_error_message(directory: Path, home: Path) -> None:
    """It gives the command with sudo, with all options."""
    if IS_ROOT:
        os.chown(directory, NOBODY, NOBODY)
    directory.chmod(0o555)

    refused = run_installer(directory, "--home", home, prefix=UNPRIVILEGED)

    assert refused.returncode == 1
    python = CHECKOUT / ".venv/bin/python"
    command = f"sudo {python} -P -m mayfly cron install --home {home} --directory {directory}"
    assert f"`{command}`" in refused.stderr
    assert list(directory.iterdir()) == []


@needs_root
def test_a_user_that_cannot_run_python_is_refused(directory: Path, home: Path, tmp_path: Path) -> None:
    """Otherwise the entry would fail every minute."""
    checkout = make_checkout(tmp_path / "private")
    checkout.chmod(0o700)

    refused = run_installer(directory, "--home", home, "--user", "nobody", script=checkout / "scripts/install-cron")

    assert refused.returncode == 1
    assert "nobody cannot run" in refused.stderr
    assert list(directory.iterdir()) == []


@needs_root
def test_running_as_root_is_a_warning(directory: Path, home: Path) -> None:
    """It is allowed, and the warning is printed once."""
    installed = install(directory, home, "--user", "root")

    assert installed.returncode == 0
    assert installed.stderr.count("every handler will run as root") == 1


def test_a_checkout_without_venv_is_an_error_message(directory: Path, home: Path, tmp_path: Path) -> None:
    """It names the script that creates it."""
    checkout = make_checkout(tmp_path / "fresh")
    (checkout / ".venv").unlink()

    refused = run_installer(directory, "--print", "--home", home, script=checkout / "scripts/install-cron")

    assert refused.returncode == 1
    assert "scripts/quickstart" in refused.stderr


def test_a_venv_without_mayfly_is_an_error_message(directory: Path, home: Path, tmp_path: Path) -> None:
    """Without a traceback."""
    checkout = make_checkout(tmp_path / "empty")
    (checkout / ".venv").unlink()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", checkout / ".venv"], check=True)

    refused = run_installer(directory, "--print", "--home", home, script=checkout / "scripts/install-cron")

    assert refused.returncode == 1
    assert "scripts/quickstart" in refused.stderr
    assert "Traceback" not in refused.stderr


# mayfly cron


def test_the_command_takes_the_interpreter_that_runs_it(directory: Path, home: Path) -> None:
    """And MAYFLY_HOME of the environment; `remove` with the same options removes the file."""
    environment = {"PATH": "/usr/bin:/bin", "MAYFLY_HOME": str(home)}
    mayfly = [CHECKOUT / ".venv/bin/python3", "-m", "mayfly", "cron"]
    options = ["--directory", directory, "--name", "orders"]
    run = partial(subprocess.run, env=environment, cwd="/", capture_output=True, text=True, check=True)

    run([*mayfly, "install", *options])

    (entry,) = dispatcher_entries((directory / "orders").read_text())
    assert (entry.interpreter, entry.home) == (str(CHECKOUT / ".venv/bin/python3"), str(home))

    run([*mayfly, "remove", *options])

    assert list(directory.iterdir()) == []


def test_an_old_entry_is_replaced(directory: Path, home: Path) -> None:
    """One that runs `-m dispatcher`, which an application's own package could shadow."""
    old = install(directory, home, "--print").stdout.replace("-m mayfly dispatch", "-m dispatcher")
    (directory / "mayfly").write_text(old)

    assert install(directory, home).returncode == 0
    assert "-P -m mayfly dispatch\n" in (directory / "mayfly").read_text()


# Help and docs


def test_help_names_every_option(directory: Path) -> None:
    """--help is enough to use it."""
    shown = run_installer(directory, "--help")

    assert shown.returncode == 0
    for option in ("--print", "--remove", "--user", "--home", "--mailto", "--name", "--directory", "sudo"):
        assert option in shown.stdout


def test_the_example_equals_the_installed_entry() -> None:
    """cron.d/mayfly and the installer agree."""
    example = (CHECKOUT / "cron.d/mayfly").read_text()
    written = render_entry(
        user="mayfly", home="/srv/mayfly", python="/srv/mayfly/.venv/bin/python", mailto="ops@example.com"
    )

    assert active_lines(example) == active_lines(written)


def test_the_docs_show_the_current_entry() -> None:
    """docs/how-to/install-on-cron.md explains the line of cron.d/mayfly."""
    entry = active_lines((CHECKOUT / "cron.d/mayfly").read_text())[-1]

    assert entry in (CHECKOUT / "docs/how-to/install-on-cron.md").read_text()


def active_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and not line.startswith("#")]
