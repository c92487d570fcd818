"""The commands around the installation: prune, interrupt, completion for shells, the man page."""

import json

import click

from mayfly import exits
from mayfly.actor import TERMINAL, this_user
from mayfly.settings import load_settings

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Count what would go, delete nothing.")
@click.option("--json", "as_json", is_flag=True, help="With --dry-run: print JSON.")
def prune(yes: bool, dry_run: bool, as_json: bool) -> int:
    """Delete now what is older than the KEEP_… settings say. Every cycle does a part of it by itself."""
    from mayfly.control.parameters import ask  # the database, only where it is needed
    from mayfly.jobs import operate
    from mayfly.jobs.prune import keep_from
    from mayfly.opening import open_database
    from mayfly.schema import JOBS

    if as_json and not dry_run:
        raise click.UsageError("--json goes with --dry-run.")
    settings = load_settings()
    database, keep = open_database(settings), keep_from(settings)
    old = database.read(lambda connection: operate.count_old(connection, JOBS, keep, database.clock.now()))
    if as_json:
        click.echo(json.dumps({table: min(rows, operate.MOST_COUNTED) for table, rows in old.items()}, indent=2))
        return exits.SUCCESS
    told = ", ".join(f"{_rows(rows)} of {table}" for table, rows in old.items())
    if not old or dry_run:
        click.echo(f"Old enough to go: {told or 'nothing'}.")
        return exits.SUCCESS
    if not yes:
        ask(f"Delete {told}?")
    gone = operate.prune_all(database, JOBS, keep, this_user(TERMINAL))
    click.echo(f"{gone:,} rows deleted.")
    return exits.SUCCESS


def _rows(number: int) -> str:
    from mayfly.jobs.operate import MOST_COUNTED

    return f"{MOST_COUNTED:,}+" if number > MOST_COUNTED else f"{number:,}"


@click.command()
@click.option(
    "--timeout", type=click.FloatRange(0), default=60.0, show_default=True, help="Seconds to wait for their end."
)
@click.option("--dry-run", is_flag=True, help="Only say who would be ended.")
def interrupt(timeout: float, dry_run: bool) -> int:
    """End the dispatchers of this host early, as before a deploy; exit 1 if one is still there after the timeout.

    They start nothing more. A job that runs may finish for up to 30 seconds; then it is given back unspent.
    """
    from mayfly.interrupting import end_dispatchers

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
    from mayfly.upkeep.manual import page

    click.echo(page(context.find_root()), nl=False)
    return exits.SUCCESS


COMMANDS = (prune, interrupt, completion, man)
