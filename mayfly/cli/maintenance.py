"""`mayfly interrupt`: end the dispatchers of this host early, as before a deploy. Running jobs may finish."""

import json
import signal
from collections.abc import Iterator, Sequence

import click

from mayfly import __version__
from mayfly.admin.audit import TERMINAL, Actor, AuditEntry, this_user
from mayfly.bootstrap import open_database
from mayfly.clock import monotonic
from mayfly.errors import MayflyError
from mayfly.fleet.dispatchers import Dispatcher, all_here
from mayfly.process import exits
from mayfly.process.state_dir import state_dir
from mayfly.schema.tables import VERSION
from mayfly.settings import Settings, load_settings


def end_dispatchers(settings: Settings, timeout: float, dry_run: bool, actor: Actor) -> Iterator[tuple[str, bool]]:
    """What is found and what becomes of it, in sentences; and whether each is as it should be."""
    found = all_here(state_dir(settings))
    if not found:
        yield "No dispatcher of this host runs.", True
    deadline = monotonic() + timeout
    for each in found:
        yield f"Dispatcher {each.process.pid} {_manner(each)}.", True
    if found and not dry_run:
        yield from _end(found, deadline, timeout)
        yield from _note(settings, actor)


def _note(settings: Settings, actor: Actor) -> Iterator[tuple[str, bool]]:
    """In the audit, if it can be: dispatchers are ended while the database is away, too."""
    try:
        database = open_database(settings)
        deed = AuditEntry(actor, "interrupt", f"host {settings.host_name}", database.clock.now())
        database.run(deed.note)
    except MayflyError as error:
        yield f"Who ended them is not in the audit: {error}", True


def _end(found: Sequence[Dispatcher], deadline: float, timeout: float) -> Iterator[tuple[str, bool]]:
    """All are told before the first is waited for."""
    for each in found:
        each.process.tell(signal.SIGTERM)
    for each in found:
        if each.process.has_ended_within(max(0.0, deadline - monotonic())):
            yield f"Dispatcher {each.process.pid} has ended.", True
        else:
            yield f"Dispatcher {each.process.pid} is still there after {timeout:g} s: its jobs take longer.", False


def _manner(dispatcher: Dispatcher) -> str:
    if dispatcher.is_leaving:
        return "has handed over and waits for its last runners"
    return "lingers" if dispatcher.lingers else "is at work"


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


SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Count what would go, delete nothing.")
@click.option("--json", "as_json", is_flag=True, help="With --dry-run: print JSON.")
def prune(yes: bool, dry_run: bool, as_json: bool) -> int:
    """Delete now what is older than the KEEP_… settings say. Every cycle does a part of it by itself."""
    from mayfly import admin
    from mayfly.bootstrap import open_database
    from mayfly.cli.options import ask  # the database, only where it is needed
    from mayfly.queue.prune import keep_from

    if as_json and not dry_run:
        raise click.UsageError("--json goes with --dry-run.")
    settings = load_settings()
    database, keep = open_database(settings), keep_from(settings)
    old = database.read(lambda connection: admin.count_old(connection, keep, database.clock.now()))
    if as_json:
        click.echo(
            json.dumps({table: min(rows, admin.MAX_MATCHING_COUNTED) for table, rows in old.items()}, indent=2)
        )
        return exits.SUCCESS
    told = ", ".join(f"{_rows(rows)} of {table}" for table, rows in old.items())
    if not old or dry_run:
        click.echo(f"Old enough to go: {told or 'nothing'}.")
        return exits.SUCCESS
    if not yes:
        ask(f"Delete {told}?")
    gone = admin.prune_all(database, keep, this_user(TERMINAL))
    click.echo(f"{gone:,} rows deleted.")
    return exits.SUCCESS


def _rows(number: int) -> str:
    from mayfly.admin import MAX_MATCHING_COUNTED

    return f"{MAX_MATCHING_COUNTED:,}+" if number > MAX_MATCHING_COUNTED else f"{number:,}"


@click.command()
@click.option(
    "--timeout", type=click.FloatRange(0), default=60.0, show_default=True, help="Seconds to wait for their end."
)
@click.option("--dry-run", is_flag=True, help="Only say who would be ended.")
def interrupt(timeout: float, dry_run: bool) -> int:
    """End the dispatchers of this host early, as before a deploy; exit 1 if one is still there after the timeout.

    They start nothing more. A job that runs may finish for up to 30 seconds; then it is given back unspent.
    """

    code = exits.SUCCESS
    for sentence, is_well in end_dispatchers(load_settings(), timeout, dry_run, this_user(TERMINAL)):
        click.echo(sentence)
        code = code if is_well else exits.ERROR
    return code


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> int:
    """Print what lets SHELL complete this command: `eval "$(mayfly completion bash)"` in ~/.bashrc."""
    from click.shell_completion import get_completion_class

    completer = get_completion_class(shell)
    assert completer is not None
    program = context.find_root().command
    click.echo(completer(program, {}, "mayfly", "_MAYFLY_COMPLETE").source())
    return exits.SUCCESS


@click.command()
@click.pass_context
def man(context: click.Context) -> int:
    """Print the man page, made of the help of all commands: `mayfly man > mayfly.1`."""

    click.echo(page(context.find_root()), nl=False)
    return exits.SUCCESS


COMMANDS = (prune, interrupt, completion, man)
