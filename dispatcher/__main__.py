"""`python -m dispatcher`: what cron starts every minute. Without options it runs one cycle, without click."""

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from dispatcher.cycle import run_cycle
from mayfly.clock import monotonic
from mayfly.errors import MayflyError
from mayfly.process import exits
from mayfly.settings import Settings
from mayfly.settings.quick import quick_settings


def main() -> NoReturn:
    started = monotonic()
    try:
        code = run_with_options(started) if len(sys.argv) > 1 else run_cycle(*read_settings(), started)
    except MayflyError as error:
        code = exits.report_error(error)
    end(code)


def run_with_options(started: float) -> int:
    from dispatcher.cli import command  # here: it imports click and all of the dispatcher

    try:
        exits.run_command(command, "python -m dispatcher", (started, read_settings))
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else exits.ERROR
    return exits.SUCCESS


def read_settings() -> tuple[Settings, Sequence[str]]:
    """The settings and warnings about them: none if they could be read without pydantic."""
    settings = quick_settings()
    if settings is not None:
        return settings, ()
    from mayfly.settings import load  # here: it imports pydantic

    loaded = load()
    return loaded.settings, loaded.warnings


def end(code: int) -> NoReturn:
    """Everything is written and closed; tearing down the interpreter would cost as much as an idle cycle."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # None if the parent process had closed it
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
