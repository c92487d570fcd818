"""Start a cycle at once and then every minute, as cron would."""

import json
import subprocess
import time
from collections.abc import Callable
from typing import Any

import click

from scripts.demonstration.home import Home

MINUTE = 60
POLL_SECONDS = 1.0
POLLS_PER_LINE = 5
COUNTS = "SELECT status, COUNT(*) FROM mayfly_jobs GROUP BY status"
LONG = ("import_prospects", "dedup_prospects")
PROGRESS = f"SELECT type, progress FROM mayfly_jobs WHERE progress IS NOT NULL AND type IN {LONG}"


class _Cron:
    """One dispatcher per minute; each lives as long as its runners."""

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
    """`second_wave` is called until it returns true."""
    cron, started = _Cron(home), time.monotonic()
    polls, shown, is_second_wave = 0, list[str](), False
    while (passed := time.monotonic() - started) < seconds:
        cron.tick()
        is_second_wave = is_second_wave or second_wave()
        counts, progress = _poll(home)
        if polls % POLLS_PER_LINE == 0 or progress != shown:
            click.echo(f"{passed:4.0f} s  {', '.join([*_counted(counts), *progress])}")
        if until_done and is_second_wave and not counts.keys() & {"pending", "processing"}:
            break
        polls, shown = polls + 1, progress
        time.sleep(POLL_SECONDS)
    cron.end()


def _poll(home: Home) -> tuple[dict[str, int], list[str]]:
    """The number of jobs per status, and the progress of the long ones."""
    database = home.open()
    counts = database.read(lambda connection: connection.execute(COUNTS).all())
    progress = database.read(lambda connection: connection.execute(PROGRESS).all())
    database.close()
    return dict(sorted(counts)), [f"{kind}: {_share(json.loads(text))}" for kind, text in progress]


def _counted(counts: dict[str, int]) -> list[str]:
    return [f"{count} {status}" for status, count in counts.items()]


def _share(progress: dict[str, Any]) -> str:
    return f"{100 * progress['done'] / progress['total']:.0f} %" if progress.get("total") else f"{progress['done']:,}"
