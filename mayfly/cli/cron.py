"""`mayfly cron`: install, print or remove what starts the dispatcher every minute.

The files for systemd, logrotate and Prometheus are those of cron.d/, which the wheel has as mayfly/cli/cron.d, with
the values of this host in place of those of the example.
"""

import grp
import os
import pwd
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import psutil

from mayfly.cli import cron_file
from mayfly.cli.options import Choice, Command
from mayfly.errors import MayflyError, UsageError
from mayfly.settings import load
from mayfly.settings.sources import HOME, find_home

TEMPLATES = Path(__file__).parent / "cron.d"
# Of `print`, besides the entry of cron.
FILES = {
    "service": "systemd/mayfly.service",
    "timer": "systemd/mayfly.timer",
    "logrotate": "mayfly.logrotate",
    "rules": "mayfly.rules.yml",
}
DEFAULT_NAME = "mayfly"


@dataclass(frozen=True)
class CronOptions:
    """The options of all three commands: what `install` would write can be printed and removed with the same ones."""

    home: str
    user: str | None
    mailto: str | None
    name: str
    directory: Path

    @property
    def path(self) -> Path:
        if not cron_file.NAME_PATTERN.fullmatch(self.name):
            raise UsageError(f"cron would ignore a file named {self.name!r}: use letters, digits, - and _ only.")
        return self.directory / self.name

    @property
    def owner(self) -> str:
        """The user of the dispatcher: by default the owner of the home."""
        if not Path(self.home).is_dir():
            raise UsageError(f"There is no directory {self.home!r}: create it, or use another one with --home.")
        name = self.user or _owner_of(self.home)
        if not cron_file.user_exists(name):
            raise UsageError(f"There is no user {name!r} on this host: create it, or use another one with --user.")
        return name

    def repeated(self, verb: str) -> str:
        """The command line, for sudo, which does not pass on MAYFLY_HOME."""
        given = {"--home": self.home, "--user": self.user, "--mailto": self.mailto}
        given |= {"--name": None if self.name == DEFAULT_NAME else self.name}
        given |= {"--directory": None if self.directory == cron_file.DIRECTORY else str(self.directory)}
        options = [word for option, value in given.items() if value is not None for word in (option, value)]
        return shlex.join([sys.executable, "-P", "-m", "mayfly", "cron", verb, *options])


def _owner_of(home: str) -> str:
    try:
        return pwd.getpwuid(Path(home).stat().st_uid).pw_name
    except KeyError:
        raise UsageError(f"The owner of {home} has no name on this host: name a user with --user.") from None


def cron_options(command: Command) -> Command:
    options = (
        click.option("--home", envvar=HOME, metavar="DIR", help="Where .env, mayfly.toml and logs/ are (default: "
                     "MAYFLY_HOME, or where the virtual environment or the checkout is)."),
        click.option("--user", help="User of the dispatcher and the handlers (default: the owner of the home)."),
        click.option("--mailto", metavar="ADDRESS", help='Recipient of mail when a cycle fails; "" disables mail '
                     "(default: the user)."),
        click.option("--name", default=DEFAULT_NAME, show_default=True,
                     help="Name of the file; each installation on a host needs its own."),
        click.option("--directory", type=click.Path(path_type=Path), default=cron_file.DIRECTORY, show_default=True,
                     help="Directory of the file."),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


@contextmanager
def checked(given: Mapping[str, Any]) -> Iterator[CronOptions]:
    """The options; errors of the system inside the block become error messages."""
    home = os.path.abspath(given["home"] or _usual_home())  # noqa: PTH100 resolve() would lose a `current` link
    try:
        yield CronOptions(**{**given, "home": home})
    except OSError as error:
        raise MayflyError(f"{error.filename or 'The system'}: {error.strerror}.") from error


def _usual_home() -> str:
    """Without MAYFLY_HOME. Of a virtual environment with the links of its path, such as `current`."""
    found = find_home({})
    beside = Path(sys.prefix).parent
    return str(beside if beside.resolve() == found else found)


# --- commands -----------------------------------------------------------------------------------------------


@click.group()
def cron() -> None:
    """Install, print or remove the cron entry of the dispatcher.

    The entry uses the Python that runs this command. docs/how-to/install-on-cron.md explains each part of it.
    """


@cron.command()
@cron_options
def install(**given: Any) -> None:
    """Write the file that starts the dispatcher every minute.

    To /etc/cron.d, which needs root. It can be repeated.
    """
    with checked(given) as options:
        text, path = render_entry(options), options.path
        refuse_foreign(path, options.home)
        refuse_without_rights(options, "install")
        if is_installed(path, text):
            click.echo(f"{path} is up to date; nothing changed.")
        else:
            write(path, text)
            click.echo(f"Installed {path}: cron starts the dispatcher every minute.")
        if problems := problems_of(path):
            raise MayflyError("\n".join([f"cron will not run {path}:", *problems]))
        warn_about_obstacles(path, options.home)
        doctor = f"MAYFLY_HOME={shlex.quote(options.home)} {shlex.quote(sys.executable)} -P -m mayfly doctor"
        click.echo(f"Watch the log:                    tail -F {shlex.quote(options.home + '/logs/dispatcher.log')}")
        click.echo(f"If nothing happens for a minute:  {doctor}")


@cron.command("print")
@click.argument("file", type=Choice(["cron", *FILES]), default="cron")
@cron_options
def print_(file: str, **given: Any) -> None:
    """Print the cron entry, or another file; write nothing.

    service and timer are for systemd, logrotate for the logs, rules for Prometheus.
    """
    with checked(given) as options:
        _ = options.path  # an invalid name is refused here too
        text = render_entry(options) if file == "cron" else render_file(file, options)
        click.echo(text, nl=False)


@cron.command()
@cron_options
def remove(**given: Any) -> None:
    """Remove the file; jobs then wait in the table."""
    with checked(given) as options:
        path = options.path
        if not path.exists():
            return click.echo(f"{path} does not exist; nothing to remove.")
        refuse_foreign(path, options.home)
        refuse_without_rights(options, "remove")
        path.unlink()
        return click.echo(f"Removed {path}: cron starts no more dispatchers; jobs wait in the table.")


# --- texts --------------------------------------------------------------------------------------------------


def render_entry(options: CronOptions) -> str:
    user = options.owner
    text = cron_file.render_entry(user=user, home=options.home, python=sys.executable, mailto=options.mailto)
    probe(user, options.home)
    return text


def render_file(file: str, options: CronOptions) -> str:
    """A file of cron.d/ with the values of this host. Its first comment, which explains them, is omitted."""
    text = (TEMPLATES / FILES[file]).read_text("utf-8")
    if file == "rules":
        return text
    cron_file.check_values(options.owner, options.home, sys.executable)
    for example, value in own_values(file, options).items():
        text = text.replace(example, value)
    _comment, _, rest = text.partition("\n\n")
    return f"# Written by `mayfly cron print {file}`.\n\n{rest}"


def own_values(file: str, options: CronOptions) -> dict[str, str]:
    """What replaces the values of the example."""
    user = options.owner
    if file == "logrotate":
        log_dir = str(load({HOME: options.home}).settings.log_dir)  # without our environment, as under cron
        if '"' in log_dir:
            raise UsageError(f"logrotate cannot use a path with a quotation mark: {log_dir!r}. Change LOG_DIR.")
        group = grp.getgrgid(pwd.getpwnam(user).pw_gid).gr_name
        return {"/srv/mayfly/logs/": f"{log_dir}/", "su mayfly mayfly": f"su {user} {group}"}
    return {
        "User=mayfly": f"User={user}",
        "Environment=MAYFLY_HOME=/srv/mayfly": f"Environment={_unit_word(f'MAYFLY_HOME={options.home}')}",
        "ExecStart=/srv/mayfly/.venv/bin/python": f"ExecStart={_unit_word(sys.executable)}",
    }


def _unit_word(text: str) -> str:
    """Quoted for systemd if needed; there % begins a specifier."""
    escaped = text.replace("%", "%%")
    return escaped if shlex.quote(text) == text else '"' + escaped.replace('"', '\\"') + '"'


# --- checks -------------------------------------------------------------------------------------------------


def refuse_foreign(path: Path, home: str) -> None:
    """Files of other programs and of other installations are never replaced or removed."""
    if not path.exists():
        return
    entries = cron_file.dispatcher_entries(cron_file.read_cron_file(path).text)
    if not entries:
        raise MayflyError(f"{path} does not belong to Mayfly: use another --name.")
    for entry in entries:
        if entry.home is not None and not cron_file.is_same_path(entry.home, home):
            raise MayflyError(
                f"{path} belongs to the installation in {entry.home}: use another --name for this one, "
                f"or run `mayfly cron remove --home {shlex.quote(str(entry.home))}` first."
            )


def refuse_without_rights(options: CronOptions, verb: str) -> None:
    if not options.directory.is_dir():
        raise MayflyError(
            f"{options.directory} does not exist: install cron; for systemd see docs/how-to/install-on-cron.md."
        )
    if not os.access(options.directory, os.W_OK):
        raise MayflyError(f"Only root can write to {options.directory}: run `sudo {options.repeated(verb)}`.")


PROBE = """
import importlib.util, os, sys
try:
    found = importlib.util.find_spec("mayfly.__main__") is not None
except ImportError:
    found = False
print(int(found), int(os.access(sys.argv[1], os.W_OK | os.X_OK)))
"""


def probe(user: str, home: str) -> None:
    """Check that Python starts, finds Mayfly and can write to the home; as that user if we are root."""
    account = pwd.getpwnam(user)
    is_root = os.geteuid() == 0
    try:
        answer = subprocess.run(  # noqa: S603 our own interpreter and program
            [sys.executable, "-B", "-P", "-c", PROBE, home],
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
            f"{user} cannot run {sys.executable}: give that user access to its parent directories (and to the Python "
            "it links to), or use another user with --user."
        ) from None
    finds_mayfly, may_write = answer.stdout.split()
    if finds_mayfly == "0":
        raise MayflyError(f"Mayfly is not installed for {sys.executable}: install it into that environment.")
    if may_write == "0":
        warn(f"Warning: {user} cannot write to {home}, the directory of the logs: change its owner, or use --user.")
    if user == "root":
        warn("Warning: every handler will run as root: use a dedicated user with --user.")


def warn_about_obstacles(path: Path, home: str) -> None:
    for other in cron_file.find_cron_files(path.parent, home):
        if other != path:
            warn(f"Warning: {other} starts the same installation: remove one of the two files.")
    if os.geteuid() != 0:
        warn(f"Warning: cron ignores {path.name} until it belongs to root: chown root.")
    daemons = (process for process in psutil.process_iter(["name"]) if process.info["name"] in ("cron", "crond"))
    if path.parent == cron_file.DIRECTORY and not any(daemons):
        warn("Warning: cron is not running on this host: start it; for systemd see docs/how-to/install-on-cron.md.")


def warn(line: str) -> None:
    click.echo(line, err=True)


# --- the file -----------------------------------------------------------------------------------------------


def problems_of(path: Path) -> list[str]:
    file = cron_file.read_cron_file(path)
    if os.geteuid() != 0:
        file = replace(file, owner_uid=0)  # only staged here; warn_about_obstacles reports it
    return cron_file.find_problems(file)


def is_installed(path: Path, text: str) -> bool:
    if path.is_symlink() or not path.exists():
        return False
    return cron_file.read_cron_file(path).text == text and not problems_of(path)


def write(path: Path, text: str) -> None:
    """Atomic: cron ignores the temporary file, whose name has a dot."""
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
