"""How every command ends: a sentence instead of a traceback, and an exit code that means one thing."""

import sys

import click

from mayfly.errors import MayflyError, UsageError
from mayfly.process import exits


def run_command(command: click.Command, program: str, context: object = None) -> None:
    """Run a click command, which may ask for `context` as click's obj; its return value is the exit code."""
    try:
        code = command.main(prog_name=program, standalone_mode=False, obj=context)
    except click.ClickException as error:
        error.show()
        sys.exit(exits.USAGE)
    except click.Abort:
        click.echo("Aborted.", err=True)
        sys.exit(exits.ERROR)
    except UsageError as error:
        click.echo(str(error), err=True)
        sys.exit(exits.USAGE)
    except MayflyError as error:
        click.echo(str(error), err=True)
        sys.exit(exits.ERROR)
    sys.exit(code if isinstance(code, int) else exits.SUCCESS)
