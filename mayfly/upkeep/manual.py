"""The man page, in the language of troff, from what --help says."""

from collections.abc import Iterator

import click

from mayfly import __version__
from mayfly.schema import VERSION

EXIT_CODES = (
    ("0", "done; for status: all is well"),
    ("1", "an error, told on standard error; for status: something is degraded or paused; for doctor: a problem"),
    ("2", "for status: no cycle ran lately"),
    ("64", "wrong usage or settings"),
)
SEE_ALSO = "docs/operating.md, docs/settings.md and docs/cron.md of the distribution; crontab(5)"


def page(root: click.Context) -> str:
    program = root.command
    assert isinstance(program, click.Group)
    return "\n".join([*_head(program), *_commands(root, program), *_tail(), ""])


def _head(program: click.Group) -> Iterator[str]:
    summary, _, rest = _text(program.help).partition("\n\n")
    yield f'.TH MAYFLY 1 "" "mayfly {__version__}, schema {VERSION}" "User Commands"'
    yield from (".SH NAME", f"mayfly \\- {_roff(summary)}")
    yield from (".SH SYNOPSIS", ".B mayfly", "COMMAND [OPTION]... [ARGUMENT]...")
    yield from (".SH DESCRIPTION", _roff(rest), ".SH COMMANDS")


def _commands(context: click.Context, group: click.Group) -> Iterator[str]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        own = click.Context(command, parent=context, info_name=name)
        pieces = " ".join(command.collect_usage_pieces(own))
        yield from (".SS", _roff(f"{own.command_path} {pieces}"))
        yield from _paragraphs(_text(command.help))
        for record in _options(own, command):
            yield from (".TP", f".B {_roff(record[0])}", _roff(record[1]))
        if isinstance(command, click.Group):
            yield from _commands(own, command)


def _options(context: click.Context, command: click.Command) -> Iterator[tuple[str, str]]:
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and record[1] and "--help" not in record[0]:
            yield record[0], " ".join(record[1].split())


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in text.split("\n\n"):
        yield from (".PP", _roff(paragraph))


def _tail() -> Iterator[str]:
    yield ".SH EXIT STATUS"
    for code, meaning in EXIT_CODES:
        yield from (".TP", f".B {code}", _roff(meaning))
    yield from (".SH ENVIRONMENT", ".TP", ".B NO_COLOR", "Print no colours, whatever the terminal can do.")
    yield from (".PP", _roff("Every setting of `mayfly config` can be given as a variable of its name."))
    yield from (".SH SEE ALSO", _roff(SEE_ALSO))


def _text(given: str | None) -> str:
    """Paragraphs of one line each."""
    paragraphs = (given or "").strip().split("\n\n")
    return "\n\n".join(" ".join(each.split()) for each in paragraphs)


def _roff(text: str) -> str:
    """What troff would take for a command is text, and a minus is one that can be copied."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped[:1] in (".", "'") else escaped
