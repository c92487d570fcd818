"""Write and check a file of /etc/cron.d that starts the dispatcher.

The effect of each mistake was tested with Debian's cron: nearly all of them make it ignore the whole file, including
valid lines, with at most one line in syslog.
"""

import os
import pwd
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mayfly.errors import UsageError
from mayfly.schedules.cron import FIELDS, MACROS, is_field

DIRECTORY = Path("/etc/cron.d")
FILE_MODE = 0o644
NAME_PATTERN = re.compile(r"[a-zA-Z0-9_-]+")
MAX_COMMAND_LENGTH = 998  # cron's buffer is 1,000 bytes; a longer command makes it ignore the file
SEARCH_PATH = "/usr/local/bin:/usr/bin:/bin"

# Not `-m dispatcher`: an application may have a package of that name on its import path.
MODULE = ["-m", "mayfly", "dispatch"]

# Other values of MAILTO are "unsafe" for cron, which then sends no mail.
MAILTO_PATTERN = re.compile(r"([a-zA-Z0-9][a-zA-Z0-9@!:.,_+=/-]*)?")


@dataclass(frozen=True)
class CronFile:
    """A file of /etc/cron.d, with all attributes that cron checks."""

    name: str
    text: str
    mode: int = FILE_MODE
    owner_uid: int = 0
    links: int = 1


@dataclass(frozen=True)
class CronEntry:
    """A line with a command, as cron parses it."""

    line: int
    fields: tuple[str, ...]
    user: str
    command: str  # as passed to the shell: `\%` is unescaped, and a bare % has cut off the rest
    is_cut: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def words(self) -> list[str]:
        """The words of the command; none if a quote is not closed."""
        try:
            return shlex.split(self.command)
        except ValueError:
            return []

    @property
    def interpreter(self) -> str | None:
        """The program of `python -m mayfly dispatch` or `mayfly dispatch`; None for another command."""
        words = self.words
        for index in range(len(words)):
            if words[index : index + 2] == ["-m", "dispatcher"] or words[index : index + 3] == MODULE:
                return next((word for word in reversed(words[:index]) if not word.startswith("-")), None)
            if words[index].rpartition("/")[2] == "mayfly" and words[index + 1 : index + 2] == ["dispatch"]:
                return words[index]
        return None

    @property
    def home(self) -> str | None:
        """The MAYFLY_HOME of the command, if this file sets one."""
        named = [word.partition("=")[2] for word in self.words if word.startswith("MAYFLY_HOME=")]
        return named[0] if named else self.environment.get("MAYFLY_HOME")


# Writing


def render_entry(*, user: str, home: str, python: str, mailto: str | None = None) -> str:
    """The text of the file. Raises UsageError for a value that cron would change."""
    check_values(user, home, python)
    if mailto is not None and not MAILTO_PATTERN.fullmatch(mailto):
        raise UsageError(f"cron would not send mail to {mailto!r}: use one address, or several separated by commas.")

    command = f"MAYFLY_HOME={shlex.quote(home)} {shlex.quote(python)} -P {' '.join(MODULE)}"
    if len(os.fsencode(escape_percent(command))) > MAX_COMMAND_LENGTH:
        raise UsageError("The paths are too long for cron, which accepts commands of up to 998 bytes: use a link.")
    lines = [
        "# Mayfly: one dispatcher per minute. Written by `mayfly cron install`; run it again instead of editing.",
        "# Settings and secrets belong in .env of MAYFLY_HOME: every user of this host can read this file.",
        "SHELL=/bin/sh",
        f"PATH={SEARCH_PATH}",
        *([] if mailto is None else [f'MAILTO="{mailto}"']),
        f"* * * * * {user} {escape_percent(command)}",
    ]
    return "\n".join(lines) + "\n"


def check_values(user: str, home: str, python: str) -> None:
    """Refuse what a cron file, a unit of systemd or logrotate's configuration cannot contain."""
    for meaning, value in (("home directory", home), ("interpreter", python)):
        if not value.startswith("/"):
            raise UsageError(f"The {meaning} {value!r} must be an absolute path: cron starts in another directory.")
        if not value.isprintable() or "\\" in value:
            raise UsageError(
                f"The {meaning} {value!r} has a character that is not allowed in a cron file (line break, "
                "control character, backslash): rename it, or use a symbolic link."
            )
    if not user or not user.isprintable() or re.search(r"\s", user):
        raise UsageError(f"{user!r} is not a valid user name for cron: it must not be empty or contain spaces.")


def escape_percent(command: str) -> str:
    """For cron a bare percent sign ends the command; the rest becomes its standard input."""
    return command.replace("%", r"\%")


# Reading

# As cron parses it: a name, quoted or not, then an equals sign. Only other lines can be entries.
ENVIRONMENT_LINE = re.compile(r"""\s*("[^"]*"|'[^']*'|[^\s='"]+)\s*=\s*(.*?)\s*""")
ENTRY_LINE = re.compile(r"\s*(@\w+|\S+\s+\S+\s+\S+\s+\S+\s+\S+)\s+(\S+)\s+(\S.*)")


def parse_entries(text: str) -> list[CronEntry]:
    """Every line with a command; `find_problems` reports invalid lines."""
    return [line for line in parse_lines(text) if isinstance(line, CronEntry)]


def dispatcher_entries(text: str) -> list[CronEntry]:
    return [entry for entry in parse_entries(text) if entry.interpreter]


def parse_lines(text: str) -> Iterator[CronEntry | tuple[int, str]]:
    """Entries, and number and text of each line that is neither an entry nor a variable."""
    environment: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if setting := ENVIRONMENT_LINE.fullmatch(line):
            environment[unquote(setting[1])] = unquote(setting[2])
        elif entry := ENTRY_LINE.fullmatch(line):
            command, is_cut = unescape_percent(entry[3])
            yield CronEntry(number, tuple(entry[1].split()), entry[2], command, is_cut, dict(environment))
        else:
            yield number, line


def unquote(value: str) -> str:
    is_quoted = len(value) > 1 and value[0] in "\"'" and value[-1] == value[0]
    return value[1:-1] if is_quoted else value


def unescape_percent(command: str) -> tuple[str, bool]:
    r"""The command up to the first bare percent sign, and whether there was one; `\\%` is a bare one too."""
    parts = re.findall(r"\\.|%|[^\\%]+|\\$", command)
    is_cut = "%" in parts
    kept = parts[: parts.index("%")] if is_cut else parts
    return "".join("%" if part == r"\%" else part for part in kept), is_cut


# Checking


def user_exists(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def find_problems(
    file: CronFile,
    user_exists: Callable[[str], bool] = user_exists,
    is_executable: Callable[[str], bool] = lambda program: os.access(program, os.X_OK),
) -> list[str]:
    """Every reason why cron would not start the dispatcher with this file, and what to do."""
    problems = [*problems_of_file(file), *problems_of_text(file.text)]
    for line in parse_lines(file.text):
        if isinstance(line, CronEntry):
            problems += problems_of_entry(line, user_exists, is_executable)
        else:
            problems.append(f"Line {line[0]} is not an entry: it needs five time fields, a user and a command.")
    if not dispatcher_entries(file.text):
        problems.append("No line runs `mayfly dispatch`: run `mayfly cron install`.")
    return problems


def problems_of_file(file: CronFile) -> Iterator[str]:
    if not NAME_PATTERN.fullmatch(file.name):
        yield f"cron ignores a file named {file.name!r}: use only letters, digits, - and _ (no dot)."
    if file.mode & 0o022:
        yield f"cron ignores a file that is writable by others (mode {file.mode & 0o7777:04o}): chmod 0644."
    if file.owner_uid != 0:
        yield f"cron ignores a file that does not belong to root (owner is uid {file.owner_uid}): chown root."
    if file.links != 1:
        yield f"cron ignores a file with {file.links} hard links: copy it instead."


def problems_of_text(text: str) -> Iterator[str]:
    if not text.endswith("\n"):
        yield "cron ignores a file whose last line has no line break: add one."
    if "\r" in text:
        yield "The file has Windows line endings, which become part of the commands: save it with Unix line endings."
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.lstrip().startswith("#") and (secret := SECRET.search(line)):
            yield f"Line {number} sets {secret[1]}, which every user of this host can read: move it to .env."


SECRET = re.compile(r"(?:^|[\s;])(DATABASE_URL|\w*(?:PASSWORD|SECRET|TOKEN))\s*=")


def problems_of_entry(
    entry: CronEntry, user_exists: Callable[[str], bool], is_executable: Callable[[str], bool]
) -> Iterator[str]:
    where = f"Line {entry.line}"
    for wrong in wrong_fields(entry.fields):
        yield f"{where}: {wrong}; cron ignores the whole file."
    if not user_exists(entry.user):
        yield f"{where}: there is no user {entry.user!r} on this host; cron ignores the whole file."
    if entry.is_cut:
        yield rf"{where}: a bare % ends the command: write \%."
    if len(os.fsencode(escape_percent(entry.command))) > MAX_COMMAND_LENGTH:
        yield f"{where}: the command is longer than {MAX_COMMAND_LENGTH} bytes: shorten it; cron ignores the file."
    if not entry.words:
        yield f"{where}: a quote is not closed."
    interpreter = entry.interpreter
    if interpreter and not interpreter.startswith("/"):
        yield f"{where}: write {interpreter!r} as an absolute path; cron's PATH is not yours."
    elif interpreter and not is_executable(interpreter):
        yield f"{where}: {interpreter} is missing or not executable: run `mayfly cron install` again."


# cronsim also accepts 0/5, L, 5L and 1#2, which Debian's cron rejects.
BEYOND_CRON = re.compile(r"#|(?:^|,)(?:\w+/|[0-9]*LW?(?:,|$))", re.IGNORECASE)
NICKNAMES = {"@reboot", *MACROS}


def wrong_fields(fields: tuple[str, ...]) -> list[str]:
    if len(fields) == 1:
        return [] if fields[0] in NICKNAMES else [f"cron does not support {fields[0]!r}"]
    return [
        f"{text!r} is not a valid {FIELDS[number]}"
        for number, text in enumerate(fields)
        if BEYOND_CRON.search(text) or not is_field(text, number)
    ]


# The disk


def read_cron_file(path: Path) -> CronFile:
    status = path.stat()
    text = path.read_bytes().decode(errors="replace")
    return CronFile(path.name, text, status.st_mode & 0o7777, status.st_uid, status.st_nlink)


def find_entries(directory: Path) -> list[tuple[Path, CronEntry]]:
    """All entries that run a dispatcher, valid or not, with their files."""
    files = (path for path in sorted(directory.glob("[!.]*")) if os.access(path, os.R_OK) and path.is_file())
    return [(path, entry) for path in files for entry in dispatcher_entries(read_cron_file(path).text)]


def find_cron_files(directory: Path, home: str) -> list[Path]:
    """Files with entries that run the dispatcher for this home."""
    return list(dict.fromkeys(path for path, entry in find_entries(directory) if is_same_path(entry.home, home)))


def is_same_path(named: str | None, path: str) -> bool:
    """An entry may use a link, such as `current`; the settings have resolved it."""
    return named is not None and os.path.realpath(named) == os.path.realpath(path)


def is_same_environment(program: str | None, other: str) -> bool:
    """Whether two programs are in one bin directory; `python` and `python3` there are links to the same one."""
    return program is not None and is_same_path(os.path.dirname(program), os.path.dirname(other))  # noqa: PTH120


# systemd


def find_services(directories: Iterable[Path]) -> list[tuple[Path, CronEntry]]:
    """The service of each mayfly.timer that runs a dispatcher."""
    paths = [each / "mayfly.service" for each in directories if (each / "mayfly.timer").exists()]
    found = [(path, service_entry(path.read_text(errors="replace"))) for path in paths if path.is_file()]
    return [(path, entry) for path, entry in found if entry is not None]


def service_entry(text: str) -> CronEntry | None:
    """The dispatcher that a unit of systemd starts, as if it were an entry of cron."""
    settings = re.findall(r"^(ExecStart|Environment|User)\s*=\s*(.*?)\s*$", text, re.MULTILINE)
    words = [value for name, value in settings if name == "Environment"]
    words += [value for name, value in settings if name == "ExecStart"]
    user = next((value for name, value in settings if name == "User"), "root")
    entry = CronEntry(0, (), user, " ".join(words).replace("%%", "%"))
    return entry if entry.interpreter else None
