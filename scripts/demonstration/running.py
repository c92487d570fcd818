"""Cycles as cron would start them, each minute; and one at once, for who does not like to wait."""

import json
import subprocess
import time
from collections.abc import Callable
from typing import Any

import click

from scripts.demonstration.home import Home

MINUTE = 60
LOOK_SECONDS = 1.0
TELL_EVERY = 5  # looks
COUNTS = "SELECT status, COUNT(*) FROM mayfly_jobs GROUP BY status"
LONG = ("import_prospects", "dedup_prospects")
PROGRESS = f"SELECT type, progress FROM mayfly_jobs WHERE progress IS NOT NULL AND type IN {LONG}"


class _Cron:
    """One dispatcher a minute of the clock; each lives on as long as its runners do."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._minute = -1
        self._cycles: list[subprocess.Popen[bytes]] = []

    def tick(self) -> None:
        minute = int(time.time() // MINUTE)
        if minute != self._minute:
            self._minute = minute
            self._cycles.append(self._home.start_cycle())

    def end(self) -> None:
        self._home.run("mayfly", "interrupt")
        for cycle in self._cycles:
            cycle.wait()


def run_cycles(home: Home, seconds: float, second_wave: Callable[[], bool], until_done: bool) -> None:
    """`second_wave` is called until it says that it has come."""
    cron, started = _Cron(home), time.monotonic()
    looks, told, has_come = 0, list[str](), False
    while (passed := time.monotonic() - started) < seconds:
        cron.tick()
        has_come = has_come or second_wave()
        counts, progress = _look(home)
        if looks % TELL_EVERY == 0 or progress != told:
            click.echo(f"{passed:4.0f} s  {', '.join([*_counted(counts), *progress])}")
        if until_done and has_come and not counts.keys() & {"pending", "processing"}:
            break
        looks, told = looks + 1, progress
        time.sleep(LOOK_SECONDS)
    cron.end()


def _look(home: Home) -> tuple[dict[str, int], list[str]]:
    """How many jobs there are of each status, and how far the long ones are."""
    database = home.open()
    counts = database.read(lambda connection: connection.execute(COUNTS).all())
    progress = database.read(lambda connection: connection.execute(PROGRESS).all())
    database.close()
    return dict(sorted(counts)), [f"{kind}: {_share(json.loads(text))}" for kind, text in progress]


def _counted(counts: dict[str, int]) -> list[str]:
    return [f"{count} {status}" for status, count in counts.items()]


def _share(progress: dict[str, Any]) -> str:
    return f"{100 * progress['done'] / progress['total']:.0f} %" if progress.get("total") else f"{progress['done']:,}"
