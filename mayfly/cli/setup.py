"""Commands to set Mayfly up: config, migrate, dev, shell completion and the man page."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from types import FrameType

import click
from click.shell_completion import get_completion_class

from mayfly import __version__
from mayfly.bootstrap import add_home_to_path, load_registry
from mayfly.cli.options import Choice, json_option, print_json
from mayfly.clock import monotonic, pause
from mayfly.process import exits
from mayfly.registry import packages_named, required_names
from mayfly.schema.tables import VERSION
from mayfly.settings import load, load_settings
from mayfly.settings.loading import integration_origins

SHELLS = ("bash", "zsh", "fish")
MINUTE = 60.0
MAX_VALUE_WIDTH = 48


@click.command()
@json_option
def config(as_json: bool) -> None:
    """Show every setting, its value and its source; secrets masked."""
    loaded = load()
    registry = load_registry(loaded.settings)
    origins = [*loaded.origins, *integration_origins(required_names(registry.handlers.values()))]
    if as_json:
        return print_json([{"name": each.name, "value": each.value, "source": each.source} for each in origins])
    width = max(len(each.name) for each in origins)
    value_width = min(MAX_VALUE_WIDTH, max(len(each.value) for each in origins))
    for each in origins:
        click.echo(f"{each.name.ljust(width)}  {each.value.ljust(value_width)}  {each.source}")
    for warning in loaded.warnings:
        click.echo(f"warning: {warning}", err=True)
    return None


@click.command()
@click.option("--sql", is_flag=True, help="Print the statements for an empty database instead of running them.")
@click.option("--app", is_flag=True, help="The tables of the handlers, instead of Mayfly's own.")
def migrate(sql: bool, app: bool) -> None:
    """Create or update Mayfly's tables.

    Safe to repeat, also from several hosts at once.
    """
    from mayfly.schema import migrations  # Alembic: slow to import, and the other commands here do without

    settings = load_settings()
    url = settings.database_url.get_secret_value()
    add_home_to_path(settings)
    found = list(migrations.app_tables(packages_named(settings.handlers))) if app else [migrations.OWN]
    if not found:
        click.echo(f"No package in HANDLERS ({', '.join(settings.handlers)}) has tables.", err=True)
    for tables in found:
        if sql:
            migrations.migration_sql(url, tables)
        else:
            subject = f"the tables of {tables.package}" if app else "the schema"
            click.echo(_migrated(subject, *migrations.migrate(url, tables)))


def _migrated(subject: str, before: str | None, after: str | None) -> str:
    if before == after:
        is_or_are = "is" if subject == "the schema" else "are"
        return f"{subject[0].upper()}{subject[1:]} {is_or_are} up to date (version {after})."
    return f"Migrated {subject} from {'nothing' if before is None else before} to version {after}."


# --- dev ----------------------------------------------------------------------------------------------------


@click.command()
@click.option("--lane", "lanes", multiple=True, metavar="NAME", help="Serve only this lane; may be repeated.")
def dev(lanes: tuple[str, ...]) -> int:
    """Run a cycle every minute, with the log on the terminal.

    For development: it does the work of cron until Ctrl-C.
    """
    load_settings()  # a wrong setting is reported once, not every minute
    return _run_cycles(lanes)


class _Stopped(Exception):
    """SIGINT or SIGTERM."""


def _run_cycles(lanes: tuple[str, ...]) -> int:
    """One dispatcher process per minute, the first one now."""
    command = [sys.executable, "-m", "dispatcher", *(word for lane in lanes for word in ("--lane", lane))]
    environment = {**os.environ, "LOG_TO": "stdout"}
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, _stop)
    cycle: subprocess.Popen[bytes] | None = None
    try:
        while True:
            started = monotonic()
            cycle = subprocess.Popen(command, env=environment)  # noqa: S603 - our own interpreter and module
            if cycle.wait() == exits.USAGE:
                return exits.USAGE
            pause(max(0.0, started + MINUTE - monotonic()))
    except _Stopped:
        return _end(cycle)


def _end(cycle: subprocess.Popen[bytes] | None) -> int:
    """The dispatcher releases its jobs before it ends; a second Ctrl-C does not wait for that."""
    if cycle is not None and cycle.poll() is None:
        cycle.send_signal(signal.SIGTERM)
        try:
            cycle.wait()
        except _Stopped:
            cycle.kill()
            cycle.wait()
    return exits.SUCCESS


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise _Stopped


# --- the shell ----------------------------------------------------------------------------------------------


@click.command()
@click.argument("shell", type=Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script for bash, zsh or fish.

    `eval "$(mayfly completion bash)"` in ~/.bashrc installs it.
    """
    completer = get_completion_class(shell)
    assert completer is not None
    program = context.find_root().command
    click.echo(completer(program, {}, "mayfly", "_MAYFLY_COMPLETE").source())


@click.command()
@click.pass_context
def man(context: click.Context) -> None:
    """Print the man page: `mayfly man > mayfly.1`."""
    click.echo(_man_page(context.find_root()), nl=False)


EXIT_CODES = (
    ("0", "success; for status: no problem"),
    (
        "1",
        "an error, see standard error; for status: something is degraded or paused; for doctor: a problem",
    ),
    ("2", "for status: no cycle has run recently"),
    ("64", "wrong usage or settings"),
)
SEE_ALSO = "docs/operating.md, docs/settings.md and docs/cron.md of the distribution; crontab(5)"


def _man_page(root: click.Context) -> str:
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
    yield from (".SH ENVIRONMENT", ".TP", ".B NO_COLOR", "Print no colours.")
    yield from (".PP", _roff("Every setting of `mayfly config` can be set as an environment variable."))
    yield from (".SH SEE ALSO", _roff(SEE_ALSO))


def _text(given: str | None) -> str:
    """Paragraphs of one line each."""
    paragraphs = (given or "").strip().split("\n\n")
    return "\n\n".join(" ".join(each.split()) for each in paragraphs)


def _roff(text: str) -> str:
    """Escaped: a leading dot is a command in troff, and a plain minus becomes a hyphen that cannot be copied."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped[:1] in (".", "'") else escaped
