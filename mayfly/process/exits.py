"""The exit codes of every Mayfly process, and how a command turns an error into one of them."""

import sys
from typing import TYPE_CHECKING

from mayfly.errors import MayflyError, UsageError

if TYPE_CHECKING:
    import click

SUCCESS = 0  # nothing to do, or everything done; a failed job does not change the exit code
ERROR = 1  # the database, a handler module, or a process that crashed
TIMEOUT = 2  # a guard interrupted a job
USAGE = 64  # wrong options or settings (EX_USAGE; click's own 2 is TIMEOUT here)


def report_error(error: MayflyError) -> int:
    """Print the text of an error without a traceback; returns the exit code."""
    print_error(str(error))
    return USAGE if isinstance(error, UsageError) else ERROR


def print_error(text: str) -> None:
    if sys.stderr is not None:  # None if the parent process had closed it
        sys.stderr.write(f"{text}\n")


def run_command(command: "click.Command", program: str, context: object = None) -> None:
    """Run a click command with `context` as click's obj; its return value is the exit code."""
    import click  # here: a dispatcher without options, the most frequent process, does not need it

    try:
        code = command.main(prog_name=program, standalone_mode=False, obj=context)
    except click.ClickException as error:
        error.show()
        sys.exit(USAGE)
    except click.Abort:
        click.echo("Aborted.", err=True)
        sys.exit(ERROR)
    except MayflyError as error:
        sys.exit(report_error(error))
    sys.exit(code if isinstance(code, int) else SUCCESS)
