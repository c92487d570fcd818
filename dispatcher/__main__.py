"""`python -m dispatcher`: what cron starts every minute. Without options it runs one cycle, without click."""

import os
import sys
from typing import NoReturn

from mayfly.clock import monotonic
from mayfly.errors import MayflyError
from mayfly.process import exits
from mayfly.settings import load_with_warnings


def main() -> NoReturn:
    started = monotonic()
    from dispatcher.cycle import run_cycle  # here: the time that its imports take belongs to the cycle

    try:
        code = run_with_options(started) if len(sys.argv) > 1 else run_cycle(*load_with_warnings(), started)
    except MayflyError as error:
        code = exits.report_error(error)
    end(code)


def run_with_options(started: float) -> int:
    from dispatcher.cli import command  # here: it imports click and all of the dispatcher

    try:
        exits.run_command(command, "python -m dispatcher", started)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else exits.ERROR
    return exits.SUCCESS


def end(code: int) -> NoReturn:
    """Everything is written and closed; tearing down the interpreter would cost as much as an idle cycle."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # None if the parent process had closed it
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
