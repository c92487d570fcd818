"""What cron starts every minute: the idle cycle if this is one, else the whole of it."""

import os
import sys
from typing import NoReturn

from mayfly.clock import monotonic
from mayfly.process import exits
from mayfly.settings import Settings, load_without_warnings


def main() -> None:
    started = monotonic()
    settings = load_without_warnings()
    if settings is not None and was_idle(settings, started):
        end(exits.SUCCESS)
    from dispatcher import cli  # here: it imports what most minutes can do without

    try:
        cli.main(cli.Minute(started, settings))
    except SystemExit as ended:
        end(ended.code if isinstance(ended.code, int) else exits.ERROR)


def was_idle(settings: Settings, started: float) -> bool:
    """Whether the probe has run this minute. Who watches, or asks for something special, gets the full path."""
    try:
        if len(sys.argv) > 1 or sys.stderr.isatty():
            return False
        from dispatcher.idle import run_idle_cycle

        return run_idle_cycle(settings, started)
    except Exception:  # noqa: BLE001 - whatever it is: the full path meets it too, and has the words for it
        return False


def end(code: int) -> NoReturn:
    """Everything is written and closed; to take the interpreter down would cost as much as an idle cycle does."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # it is, where whoever started us had closed it
            stream.flush()
    os._exit(code)


main()
