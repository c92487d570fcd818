"""What cron starts every minute: the idle cycle if this is one, else the whole of it."""

import sys

from mayfly.clock import monotonic


def main() -> None:
    started = monotonic()
    if not _was_idle(started):
        from dispatcher import cli  # imports what most minutes can do without

        cli.main(started)


def _was_idle(started: float) -> bool:
    """Somebody who watches, or asks for something special, gets the full path at once."""
    if len(sys.argv) > 1 or sys.stderr.isatty():
        return False
    try:
        from dispatcher.probe import run_idle_cycle
        from mayfly.settings.quick import quick_settings

        settings = quick_settings()
        return settings is not None and run_idle_cycle(settings, started)
    except Exception:  # noqa: BLE001 - whatever it is: the full path meets it too, and has the words for it
        return False


main()
