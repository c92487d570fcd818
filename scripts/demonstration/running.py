"""Cycles as cron would start them, each minute; and one at once, for who does not like to wait."""

import subprocess
import time
from collections.abc import Callable

import click

from scripts.demonstration.home import Home

MINUTE = 60
LOOK_SECONDS = 1.0
TELL_EVERY = 5  # looks
COUNTS = "SELECT status, COUNT(*) FROM mayfly_jobs GROUP BY status"


def run_cycles(home: Home, seconds: float, second_wave: Callable[[], bool], until_done: bool) -> None:
    """Dispatchers live on after the last minute as long as their runners do."""
    started = time.monotonic()
    cycles: list[subprocess.Popen[bytes]] = []
    minute = -1
    waits_for_second = True
    looks = 0
    while (passed := time.monotonic() - started) < seconds:
        if int(time.time() // MINUTE) != minute:
            minute = int(time.time() // MINUTE)
            cycles.append(home.start_cycle())
        waits_for_second = waits_for_second and not second_wave()
        counts = _counts(home)
        if looks % TELL_EVERY == 0:
            click.echo(f"{passed:4.0f} s  {', '.join(f'{count} {status}' for status, count in counts.items())}")
        if until_done and not waits_for_second and not counts.keys() & {"pending", "processing"}:
            break
        looks += 1
        time.sleep(LOOK_SECONDS)
    home.run("mayfly", "interrupt")
    for cycle in cycles:
        cycle.wait()


def _counts(home: Home) -> dict[str, int]:
    database = home.open()
    found = database.read(lambda connection: connection.execute(COUNTS).all())
    database.close()
    return dict(sorted(found))
