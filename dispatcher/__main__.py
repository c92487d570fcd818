"""What cron starts every minute: the idle cycle if this is one, else the whole of it."""

import os
import sys

from mayfly import exits
from mayfly.clock import monotonic


def main() -> None:
    started = monotonic()
    if was_idle(started):
        # Everything is written and closed; to take the interpreter down would cost as much as the cycle did.
        os._exit(exits.SUCCESS)
    from dispatcher import cli  # here: it imports what most minutes can do without

    cli.main(started)


def was_idle(started: float) -> bool:
    """Whether the probe has run this minute. Who watches, or asks for something special, gets the full path."""
    try:
        if len(sys.argv) > 1 or sys.stderr.isatty():
            return False
        from dispatcher.probe import run_idle_cycle
        from mayfly.settings.quick import quick_settings

        settings = quick_settings()
        return settings is not None and run_idle_cycle(settings, started)
    except Exception:  # noqa: BLE001 - whatever it is: the full path meets it too, and has the words for it
        return False


main()
