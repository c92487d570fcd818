"""Translate a crontab into lines of a schedule file. Pure, except for `host_zone`.

cron passes a command to a shell, starts it in the user's home directory, and never retries it. `run:` uses no shell:
a command that needs one becomes an argument of `sh -c`.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mayfly.cli.cron_file import ENVIRONMENT_LINE, unescape_percent, unquote
from mayfly.schedules.cron import BadSchedule
from mayfly.schedules.parse import OPTIONS, parse_line

LINE = re.compile(r"\s*(@\w+|\S+(?:\s+\S+){4})\s+(\S.*?)\s*")
PLAIN_COMMAND = re.compile(r"""[\w\s@%+:,./='"-]+""")  # means the same without a shell
SHELL_WORDS = {
    ".", ":", "break", "case", "cd", "command", "eval", "exec", "exit", "export", "for", "if", "set", "source",
    "trap", "type", "ulimit", "umask", "unset", "until", "wait", "while",
}  # fmt: skip
RELATIVE_PROGRAM = re.compile(r"[\w.-]+/.*", re.DOTALL)
ASSIGNMENT = re.compile(r"\w+=.*", re.DOTALL)
# These run another program, after which a schedule is better named.
WRAPPER = re.compile(r"bash|chronic|env|flock|ionice|nice|node|perl|php|python[0-9.]*|ruby|sh|sudo|timeout")
FOR_CRON = ("CONTENT_TRANSFER_ENCODING", "CONTENT_TYPE", "CRON_TZ", "LOGNAME", "MAILFROM", "MAILTO", "SHELL", "USER")
UTC_NAMES = ("Etc/GMT", "Etc/UCT", "Etc/UTC", "Etc/Universal", "Etc/Zulu", "GMT", "UCT", "Universal", "Zulu")


@dataclass(frozen=True)
class CrontabSource:
    """What the lines of a crontab do not say."""

    user: str  # that runs the commands of Mayfly
    directory: str  # the user's home directory, in which cron starts commands
    zone: str  # of the times
    has_users: bool = False  # as in /etc/crontab and /etc/cron.d
    is_user: Callable[[str], bool] = lambda _word: False  # the name of a user, and of no program


@dataclass
class Translation:
    """The lines of the schedule file, and what a reader must know about the lines of the crontab."""

    lines: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)  # could not be translated
    notes: list[str] = field(default_factory=list)  # has no effect, or another one than in cron

    @property
    def text(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)


class NotTranslatable(ValueError):
    """The reason why a line has no equivalent."""


def translate(text: str, source: CrontabSource) -> Translation:
    """Comments and empty lines are kept; a line without an equivalent becomes a comment."""
    found, environment, names = Translation(), dict[str, str](), set[str]()
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            found.lines.append(line.strip())
        elif setting := ENVIRONMENT_LINE.fullmatch(line):
            name, value = unquote(setting[1]), unquote(setting[2])
            environment[name] = value
            found.notes += [f"Line {number}: {note}" for note in _notes(name, value)]
        else:
            try:
                found.lines.append(_schedule(line, number, source, environment, names))
            except NotTranslatable as error:
                found.refused.append(f"Line {number} is not translated: {error}.")
                found.lines += [f"# Not translated: {error}.", f"# {line.strip()}"]
    return found


def _notes(name: str, value: str) -> Iterator[str]:
    if name == "MAILTO" and value:
        yield "MAILTO has no effect: the output of a failed command is in its job. See docs/how-to/monitor.md."


def _schedule(line: str, number: int, source: CrontabSource, environment: Mapping[str, str], names: set[str]) -> str:
    rule, command = _parts(line, source)
    zone = environment.get("CRON_TZ") or source.zone
    program = program_name(command) or f"line-{number}"
    options = [f"name={_unused(program, names)}", *([] if zone == "UTC" else [f"tz={zone}"]), "max_attempts=1"]
    written = f"{rule} {' '.join(options)} run: {_without_shell(command, environment, source.directory)}"
    try:
        names.add(parse_line(written).name)
    except BadSchedule as error:
        raise NotTranslatable(error.reason) from error
    return written


def _parts(line: str, source: CrontabSource) -> tuple[str, str]:
    """Rule and command. Refuses what a schedule cannot express."""
    match = LINE.fullmatch(line)
    if match is None:
        raise NotTranslatable("it needs five time fields and a command")
    rule, rest = " ".join(match[1].split()), match[2]
    if rule == "@reboot":
        raise NotTranslatable("@reboot has no equivalent: schedules follow the clock")
    if source.has_users:
        user, rest = [*rest.split(maxsplit=1), ""][:2]
        if user != source.user:
            raise NotTranslatable(f"it runs as {user}, and commands of Mayfly run as {source.user}")
    elif source.is_user(rest.split()[0]):
        raise NotTranslatable(f"{rest.split()[0]!r} is a user and not a program: use --system")
    command, is_cut = unescape_percent(rest.strip())
    if is_cut:
        raise NotTranslatable("after a bare % it has text for its standard input: move the command into a script")
    if not command:
        raise NotTranslatable("it has no command")
    return rule, command


def _without_shell(command: str, environment: Mapping[str, str], directory: str) -> str:
    """The command as `run:` takes it, with the variables of the crontab."""
    words = _words(command)
    variables = {name: value for name, value in environment.items() if name not in FOR_CRON}
    if RELATIVE_PROGRAM.fullmatch(words[0]) or "HOME" in variables:
        command = f"cd {shlex.quote(variables.get('HOME', directory))} && {command}"
    is_plain = PLAIN_COMMAND.fullmatch(command) and words[0] not in SHELL_WORDS and not ASSIGNMENT.fullmatch(words[0])
    if not is_plain:
        command = shlex.join([environment.get("SHELL", "/bin/sh"), "-c", command])
    assignments = shlex.join(f"{name}={value}" for name, value in variables.items())
    return f"/usr/bin/env {assignments} {command}" if variables else command


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        raise NotTranslatable("a quote is not closed") from None


def program_name(command: str) -> str:
    """A name for its schedule: of the first program that is not `cd`, a shell word or a program that runs another."""
    for part in re.split(r"&&|\|\||[;|]", command):
        words = [word for word in part.replace("'", " ").replace('"', " ").split() if not ASSIGNMENT.fullmatch(word)]
        names = [Path(word).name for word in words if not word.startswith(("-", "$", "(", "[", ">", "<"))]
        if names and names[0] not in SHELL_WORDS:
            own = [name for name in names if not WRAPPER.fullmatch(name)] or names
            return re.sub(r"[^A-Za-z0-9_.:-]", "-", own[0]).strip("-.:")[:60]
    return ""


def _unused(name: str, taken: set[str]) -> str:
    candidates = (name if number == 1 else f"{name}-{number}" for number in range(1, len(taken) + 2))
    return next(each for each in candidates if each not in taken)


def host_zone() -> str:
    """The time zone of this host, in which its cron works; UTC if it has no name."""
    link, file = Path("/etc/localtime"), Path("/etc/timezone")
    name = str(link.readlink()).partition("zoneinfo/")[2] if link.is_symlink() else ""
    name = name or (file.read_text().strip() if file.is_file() else "")
    try:
        OPTIONS["tz"].read(name)
    except ValueError:
        return "UTC"
    return "UTC" if name in UTC_NAMES else name
