"""Write and check a file of /etc/cron.d that starts the dispatcher. Pure except for the last section.

The effect of each mistake was tested with Debian's cron: nearly all of them make it ignore the whole file, the valid
lines too, with at most a line in syslog.
"""

import os
import pwd
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from mayfly.errors import UsageError
from mayfly.schedules.cron import FIELDS, MACROS, is_field

DIRECTORY = Path("/etc/cron.d")
FILE_MODE = 0o644
NAME_PATTERN = re.compile(r"[a-zA-Z0-9_-]+")
MAX_COMMAND_LENGTH = 998  # cron's buffer is 1,000 bytes; a longer command makes it ignore the file
SEARCH_PATH = "/usr/local/bin:/usr/bin:/bin"

# What cron accepts in MAILTO without calling it unsafe and sending nothing.
MAILTO_PATTERN = re.compile(r"([a-zA-Z0-9][a-zA-Z0-9@!:.,_+=/-]*)?")


@dataclass(frozen=True)
class CronFile:
    """A file of /etc/cron.d, with everything that decides whether cron reads it."""

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
    command: str  # as the shell gets it: `\%` is a percent sign, and a bare one has cut off the rest
    is_cut: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def words(self) -> list[str]:
        """The command's words, none where its quotes do not close."""
        try:
            return shlex.split(self.command)
        except ValueError:
            return []

    @property
    def interpreter(self) -> str | None:
        """The interpreter of `-m dispatcher`, or None for another command."""
        words = self.words
        for index, pair in enumerate(pairwise(words)):
            if pair == ("-m", "dispatcher"):
                return next((word for word in reversed(words[:index]) if not word.startswith("-")), None)
        return None

    @property
    def home(self) -> str | None:
        """The MAYFLY_HOME that the command gets, if this file names one."""
        named = [word.partition("=")[2] for word in self.words if word.startswith("MAYFLY_HOME=")]
        return named[0] if named else self.environment.get("MAYFLY_HOME")


# Writing


def render_entry(*, user: str, home: str, python: str, mailto: str | None = None) -> str:
    """The text of the file; raises UsageError for a value that cron cannot pass on unchanged."""
    for meaning, value in (("home directory", home), ("interpreter", python)):
        refuse_unfit_path(meaning, value)
    if not user or not user.isprintable() or re.search(r"\s", user):
        raise UsageError(f"cron cannot start anything as {user!r}: a user name has no spaces.")
    if mailto is not None and not MAILTO_PATTERN.fullmatch(mailto):
        raise UsageError(f"cron would not mail to {mailto!r}: give one address, or several with commas.")

    command = f"MAYFLY_HOME={shlex.quote(home)} {shlex.quote(python)} -P -m dispatcher"
    if len(os.fsencode(escape_percent(command))) > MAX_COMMAND_LENGTH:
        raise UsageError("The paths are too long: cron takes commands of up to 998 bytes.")
    lines = [
        "# Mayfly: one dispatcher a minute. Written by scripts/install-cron: run it again, do not edit this.",
        "# Settings and secrets belong in .env of MAYFLY_HOME: everyone on this host can read this file.",
        "SHELL=/bin/sh",
        f"PATH={SEARCH_PATH}",
        *([] if mailto is None else [f'MAILTO="{mailto}"']),
        f"* * * * * {user} {escape_percent(command)}",
    ]
    return "\n".join(lines) + "\n"


def refuse_unfit_path(meaning: str, value: str) -> None:
    if not value.startswith("/"):
        raise UsageError(f"The {meaning} {value!r} must be an absolute path: cron starts elsewhere.")
    if not value.isprintable() or "\\" in value:
        raise UsageError(
            f"The {meaning} {value!r} has a character that a cron file cannot hold (line break, control "
            "character, backslash): rename it, or give it a symbolic link."
        )


def escape_percent(command: str) -> str:
    """To cron a bare percent sign ends the command; the rest would become its standard input."""
    return command.replace("%", r"\%")


# Reading

# As cron reads it: a name, quoted or not, then an equals sign; only what is no such line can be an entry.
ENVIRONMENT_LINE = re.compile(r"""\s*("[^"]*"|'[^']*'|[^\s='"]+)\s*=\s*(.*?)\s*""")
ENTRY_LINE = re.compile(r"\s*(@\w+|\S+\s+\S+\s+\S+\s+\S+\s+\S+)\s+(\S+)\s+(\S.*)")


def parse_entries(text: str) -> list[CronEntry]:
    """Every line with a command; `find_problems` reports invalid lines."""
    return [line for line in parse_lines(text) if isinstance(line, CronEntry)]


def dispatcher_entries(text: str) -> list[CronEntry]:
    return [entry for entry in parse_entries(text) if entry.interpreter]


def parse_lines(text: str) -> Iterator[CronEntry | tuple[int, str]]:
    """Each active line: an entry, or number and text of one that is neither entry nor setting."""
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


def find_problems(
    file: CronFile, *, user_exists: Callable[[str], bool], is_executable: Callable[[str], bool]
) -> list[str]:
    """Every reason why cron would not start the dispatcher by this file, each with what to do."""
    problems = [*problems_of_file(file), *problems_of_text(file.text)]
    for line in parse_lines(file.text):
        if isinstance(line, CronEntry):
            problems += problems_of_entry(line, user_exists, is_executable)
        else:
            problems.append(f"Line {line[0]} is no entry: it needs five time fields, a user and a command.")
    if not dispatcher_entries(file.text):
        problems.append("No line runs `python -m dispatcher`: run scripts/install-cron.")
    return problems


def problems_of_file(file: CronFile) -> Iterator[str]:
    if not NAME_PATTERN.fullmatch(file.name):
        yield f"cron ignores the name {file.name!r}: only letters, digits, - and _ may be in it, no dot."
    if file.mode & 0o022:
        yield f"cron ignores a file that others may write (mode {file.mode & 0o7777:04o}): chmod 0644."
    if file.owner_uid != 0:
        yield f"cron ignores a file that is not root's (owner is uid {file.owner_uid}): chown root."
    if file.links != 1:
        yield f"cron ignores a file with {file.links} hard links: copy it instead."


def problems_of_text(text: str) -> Iterator[str]:
    if not text.endswith("\n"):
        yield "cron ignores a file whose last line has no line break: add one."
    if "\r" in text:
        yield "The lines end as on Windows, and commands get the extra character: save with Unix line ends."
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.lstrip().startswith("#") and (secret := SECRET.search(line)):
            yield f"Line {number} sets {secret[1]}, which everyone on this host can read: move it to .env."


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
        yield rf"{where}: a bare % ends the command there: write \%."
    if len(os.fsencode(escape_percent(entry.command))) > MAX_COMMAND_LENGTH:
        yield f"{where}: the command is longer than {MAX_COMMAND_LENGTH} bytes; cron ignores the whole file."
    if not entry.words:
        yield f"{where}: a quote is opened and not closed."
    interpreter = entry.interpreter
    if interpreter and not interpreter.startswith("/"):
        yield f"{where}: write {interpreter!r} as an absolute path; cron's PATH is not yours."
    elif interpreter and not is_executable(interpreter):
        yield f"{where}: {interpreter} is missing or cannot be run: run scripts/install-cron again."


# cronsim also accepts 0/5, L, 5L and 1#2, which Debian's cron rejects.
BEYOND_CRON = re.compile(r"#|(?:^|,)(?:\w+/|[0-9]*LW?(?:,|$))", re.IGNORECASE)
NICKNAMES = {"@reboot", *MACROS}


def wrong_fields(fields: tuple[str, ...]) -> list[str]:
    if len(fields) == 1:
        return [] if fields[0] in NICKNAMES else [f"cron does not know {fields[0]!r}"]
    return [
        f"{text!r} is no {FIELDS[number]}"
        for number, text in enumerate(fields)
        if BEYOND_CRON.search(text) or not is_field(text, number)
    ]


# The disk


def read_cron_file(path: Path) -> CronFile:
    status = path.stat()
    text = path.read_bytes().decode(errors="replace")
    return CronFile(path.name, text, status.st_mode & 0o7777, status.st_uid, status.st_nlink)


def inspect_cron_file(file: CronFile) -> list[str]:
    """The problems of a file by the real users and programs of this host."""
    return find_problems(file, user_exists=user_exists, is_executable=lambda program: os.access(program, os.X_OK))


def find_cron_files(directory: Path, home: str) -> list[Path]:
    """The files whose entries run the dispatcher for this home, valid or not."""
    return [
        path
        for path in sorted(directory.glob("[!.]*"))
        if os.access(path, os.R_OK)
        and path.is_file()
        and any(is_same_home(entry.home, home) for entry in dispatcher_entries(read_cron_file(path).text))
    ]


def is_same_home(named: str | None, home: str) -> bool:
    """An entry may name a link, such as `current`, to the directory that the settings have resolved."""
    return named is not None and os.path.realpath(named) == os.path.realpath(home)


def user_exists(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True
