"""Helpers for tests with schedules."""

from datetime import timedelta
from pathlib import Path

from mayfly.clock import host_now
from mayfly.schedules.next_due import are_settled
from tests.process.installation import Installation, wait_until


def write_schedule(installation: Installation, *lines: str, name: str = "schedule") -> Path:
    file = installation.home / "cron.d" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join([*lines, ""]))
    return file


def wait_until_trusted(*files: Path) -> None:
    """Until they are old enough for a full cycle to trust their modification times."""
    wait_until(lambda: are_settled(list(files), host_now()), "the files are old enough")


def wait_for_early_in_the_minute() -> None:
    """For steps that must happen before the next due time."""
    wait_until(lambda: host_now().second < 45, "enough of the minute is left")


def make_due(installation: Installation, minutes: int = 2) -> None:
    """Let time pass for all known schedules: they were last checked `minutes` ago."""
    since = installation.now() - timedelta(minutes=minutes)
    installation.execute(f"UPDATE mayfly_schedules SET dealt_until = '{since:%Y-%m-%d %H}\\:{since:%M}\\:00'")
    for note in installation.home.glob("state/*/schedules"):
        note.unlink()


def fired(installation: Installation) -> list[str]:
    """The types of their jobs, in order."""
    return sorted(row.type for row in installation.rows("SELECT type FROM mayfly_jobs"))
