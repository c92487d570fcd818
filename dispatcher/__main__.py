"""`python -m dispatcher`: what cron starts every minute. Without options it runs one cycle, without click."""

import os
import sys
from typing import NoReturn

from mayfly.clock import monotonic

STARTED = monotonic()  # before the other imports: their time counts as part of the cycle

from dispatcher.cycle import run_cycle  # noqa: E402
from mayfly.errors import MayflyError  # noqa: E402
from mayfly.process import exits  # noqa: E402
from mayfly.settings import load_with_warnings  # noqa: E402


def main() -> NoReturn:
    """Exits without tearing down the interpreter, which would take as long as a cycle: everything is closed."""
    try:
        code = run_with_options() if len(sys.argv) > 1 else run_cycle(*load_with_warnings(), STARTED)
    except MayflyError as error:
        code = exits.report_error(error)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # None if the parent process had closed it
            stream.flush()
    os._exit(code)


def run_with_options() -> int:
    from dispatcher.cli import command  # here: it imports click and the whole dispatcher

    try:
        exits.run_command(command, "mayfly dispatch", STARTED)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else exits.ERROR
    return exits.SUCCESS


if __name__ == "__main__":
    main()
