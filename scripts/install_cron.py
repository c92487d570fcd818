"""Install, show or remove the entry in /etc/cron.d that starts this checkout's dispatcher every minute.

scripts/install-cron starts it with the checkout's own Python.
"""

import argparse
import os
import pwd
import shlex
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

try:
    import psutil

    from mayfly.cli import cron_file
    from mayfly.errors import MayflyError, UsageError
    from mayfly.process import exits
except ImportError as error:
    sys.exit(f"{sys.executable} lacks {error.name}: run scripts/quickstart, which installs the project.")

CHECKOUT = Path(os.path.abspath(__file__)).parent.parent  # noqa: PTH100 resolve() would lose a `current` link
PYTHON = CHECKOUT / ".venv/bin/python"

DESCRIPTION = "Let cron start this checkout's dispatcher every minute, by a file in /etc/cron.d."
EPILOG = """\
examples:
  scripts/install-cron --print                    show the file, write nothing
  sudo scripts/install-cron                       as the owner of the checkout
  sudo scripts/install-cron --user mayfly --home /srv/orders --name mayfly-orders
  sudo scripts/install-cron --remove

exit codes: 0 done, 64 wrong options, 1 anything else. docs/cron.md says why each part is as it is.
"""


def main(arguments: list[str]) -> int:
    try:
        options = parse_options(arguments)
        run(options)
    except UsageError as error:
        warn(str(error))
        return exits.USAGE
    except MayflyError as error:
        warn(str(error))
        return exits.ERROR
    except OSError as error:
        warn(f"{error.filename or 'The system'}: {error.strerror}.")
        return exits.ERROR
    return exits.SUCCESS


def run(options: argparse.Namespace) -> None:
    path = options.directory / checked_name(options.name)
    home = os.path.abspath(options.home)  # noqa: PTH100 resolve() would lose a `current` link
    if options.remove:
        remove(path, home)
        return

    if not Path(home).is_dir():
        raise UsageError(f"There is no directory {home!r}: make it first, or name another with --home.")
    user = checked_user(options.user or owner_of(home))
    text = cron_file.render_entry(user=user, home=home, python=str(PYTHON), mailto=options.mailto)
    probe(user, home)
    if options.print:
        sys.stdout.write(text)
    else:
        install(path, home, text)


def install(path: Path, home: str, text: str) -> None:
    refuse_foreign(path, home)
    refuse_without_rights(path.parent)
    if is_installed(path, text):
        say(f"{path} is as it should be: nothing changed.")
    else:
        write(path, text)
        say(f"Installed {path}: one dispatcher a minute.")

    if problems := problems_of(path):
        raise MayflyError("\n".join([f"cron will not run {path}:", *problems]))
    warn_of_obstacles(path, home)
    doctor = f"MAYFLY_HOME={shlex.quote(home)} {shlex.quote(str(PYTHON.with_name('mayfly')))} doctor"
    say(f"See it work within a minute:  tail -F {shlex.quote(home + '/logs/dispatcher.log')}")
    say(f"If nothing comes:             {doctor}")


def remove(path: Path, home: str) -> None:
    if not path.exists():
        say(f"There is no {path}: nothing to remove.")
        return
    refuse_foreign(path, home)
    refuse_without_rights(path.parent)
    path.unlink()
    say(f"Removed {path}: cron starts no further dispatcher; jobs wait in the table.")


# What is asked for


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message[:1].upper()}{message[1:]}. Try --help.")


def parse_options(arguments: list[str]) -> argparse.Namespace:
    parser = Parser(
        prog="scripts/install-cron",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--print", action="store_true", help="write the file to standard output only")
    action.add_argument("--remove", action="store_true", help="remove the file; jobs then wait in the table")
    parser.add_argument("--user", help="who runs the dispatcher and the handlers (default: the home's owner)")
    parser.add_argument(
        "--home",
        default=os.environ.get("MAYFLY_HOME") or str(CHECKOUT),
        help="where .env, mayfly.toml, logs/ and a SQLite file are (default: MAYFLY_HOME, else the checkout)",
    )
    parser.add_argument(
        "--mailto", metavar="ADDRESS", help='who gets mail when a cycle fails ("": nobody; default: --user)'
    )
    parser.add_argument(
        "--name", default="mayfly", help="of the file; a second installation on a host needs a second name"
    )
    parser.add_argument(
        "--directory", type=Path, default=cron_file.DIRECTORY, help="where the file goes (default: /etc/cron.d)"
    )
    return parser.parse_args(arguments)


def checked_name(name: str) -> str:
    if not cron_file.NAME_PATTERN.fullmatch(name):
        raise UsageError(f"cron would ignore a file named {name!r}: use letters, digits, - and _ only.")
    return name


def checked_user(name: str) -> str:
    if not cron_file.user_exists(name):
        raise UsageError(f"There is no user {name!r} on this host: make it first, or name another with --user.")
    return name


def owner_of(home: str) -> str:
    try:
        return pwd.getpwuid(Path(home).stat().st_uid).pw_name
    except KeyError:
        raise UsageError(f"The owner of {home} has no name on this host: say who with --user.") from None


# What speaks against it


def refuse_foreign(path: Path, home: str) -> None:
    """Neither another program's file nor another installation's is ever replaced or removed."""
    if not path.exists():
        return
    entries = cron_file.dispatcher_entries(cron_file.read_cron_file(path).text)
    if not entries:
        raise MayflyError(f"{path} is not Mayfly's: choose another --name.")
    for entry in entries:
        if entry.home is not None and not cron_file.is_same_home(entry.home, home):
            raise MayflyError(
                f"{path} belongs to the installation in {entry.home}: choose another --name for this one, "
                f"or say --remove --home {shlex.quote(str(entry.home))} first."
            )


def refuse_without_rights(directory: Path) -> None:
    if not directory.is_dir():
        raise MayflyError(f"There is no {directory} here: install cron, or see docs/cron.md for systemd.")
    if not os.access(directory, os.W_OK):
        command = shlex.join([str(CHECKOUT / "scripts/install-cron"), *sys.argv[1:]])
        raise MayflyError(f"Only root may write to {directory}: run `sudo {command}`.")


PROBE = """
import importlib.util, os, sys
try:
    found = importlib.util.find_spec("dispatcher.__main__") is not None
except ImportError:
    found = False
print(int(found), int(os.access(sys.argv[1], os.W_OK | os.X_OK)))
"""


def probe(user: str, home: str) -> None:
    """Try, as that user if we may, whether Python starts, finds the dispatcher and may use the home."""
    account = pwd.getpwnam(user)
    is_root = os.geteuid() == 0
    try:
        answer = subprocess.run(  # noqa: S603 our own interpreter and program
            [PYTHON, "-B", "-P", "-c", PROBE, home],
            user=account.pw_uid if is_root else None,
            group=account.pw_gid if is_root else None,
            extra_groups=os.getgrouplist(user, account.pw_gid) if is_root else None,
            cwd="/",
            env={"PATH": cron_file.SEARCH_PATH, "HOME": account.pw_dir},
            capture_output=True,
            text=True,
            check=True,
        )
    except (PermissionError, subprocess.CalledProcessError):
        raise MayflyError(
            f"{user} may not run {PYTHON}: open the directories above it (and the Python it links to) "
            "to that user, or name another with --user."
        ) from None
    finds_dispatcher, may_write = answer.stdout.split()
    if finds_dispatcher == "0":
        raise MayflyError(f"{PYTHON} does not find the dispatcher: run scripts/quickstart, which installs it.")
    if may_write == "0":
        warn(f"Warning: {user} may not write to {home}, where the logs go.")
    if user == "root":
        warn("Warning: every handler will run as root: better give the home to a user of its own.")


def warn_of_obstacles(path: Path, home: str) -> None:
    for other in cron_file.find_cron_files(path.parent, home):
        if other != path:
            warn(f"Warning: {other} starts the same installation too: remove one of the two.")
    if os.geteuid() != 0:
        warn(f"Warning: cron will ignore {path.name} until it belongs to root.")
    daemons = (process for process in psutil.process_iter(["name"]) if process.info["name"] in ("cron", "crond"))
    if path.parent == cron_file.DIRECTORY and not any(daemons):
        warn("Warning: no cron runs on this host: start it, or see docs/cron.md for systemd.")


# The file


def problems_of(path: Path) -> list[str]:
    file = cron_file.read_cron_file(path)
    if os.geteuid() != 0:
        file = replace(file, owner_uid=0)  # only staged here; warn_of_obstacles says what is left to do
    return cron_file.inspect_cron_file(file)


def is_installed(path: Path, text: str) -> bool:
    if path.is_symlink() or not path.exists():
        return False
    return cron_file.read_cron_file(path).text == text and not problems_of(path)


def write(path: Path, text: str) -> None:
    """All or nothing: cron ignores the temporary file (its name has a dot) and then sees the whole."""
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fchmod(handle, cron_file.FILE_MODE)
            os.fsync(handle)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def say(line: str) -> None:
    sys.stdout.write(line + "\n")


def warn(line: str) -> None:
    sys.stderr.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
