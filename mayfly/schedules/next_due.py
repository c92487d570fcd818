"""The next-due cache: whether a schedule may be due, without parsing any. Used by idle cycles, so it imports little.

A full cycle writes a file into the state directory: when the next schedule of this host is due, and the signatures of
the schedule files that it read. While these files are unchanged, nothing is due before that time.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from mayfly.settings.values import SCHEDULE_FILES, under_home

if TYPE_CHECKING:
    from mayfly.settings.values import Settings

NEXT_DUE_FILE = "schedules"
NEVER = "never"
SETTLED = timedelta(seconds=2)  # a file may change twice within one tick of its timestamp


def schedule_files(settings: "Settings") -> list[Path]:
    """Every file that should be read, including a configured file that does not exist."""
    usual = {under_home(Path(each), settings.home) for each in SCHEDULE_FILES}
    return [file for path in settings.schedule_files for file in _files_at(path, is_usual=path in usual)]


def _files_at(path: Path, is_usual: bool) -> Iterator[Path]:
    try:
        named = sorted(path.iterdir())
    except FileNotFoundError:
        if not is_usual:
            yield path
    except OSError:  # a file; or a directory without permission, which is reported when it is read
        yield path
    else:
        yield from (each for each in named if not each.name.startswith(".") and not each.name.endswith("~"))


def file_signatures(files: list[Path]) -> str:
    """A text that changes with every edit: inode, size and times."""
    return "\n".join(map(_signature, files))


def _signature(file: Path) -> str:
    try:
        facts = file.stat()
    except OSError:
        return f"{file} missing"
    return f"{file} {facts.st_dev} {facts.st_ino} {facts.st_size} {facts.st_mtime_ns} {facts.st_ctime_ns}"


def may_be_due(settings: "Settings", directory: Path, now: datetime) -> bool:
    """False only if nothing is due on this host: there are no schedules, or the cached time is later."""
    files = schedule_files(settings)
    if not files:
        return False
    try:
        at, _, signatures = (directory / NEXT_DUE_FILE).read_text("utf-8").partition("\n")
    except OSError:
        return True
    return signatures != file_signatures(files) or (at != NEVER and now >= datetime.fromisoformat(at))


def write_next_due(directory: Path, signatures: str, at: datetime | None) -> None:
    """Written atomically. `signatures` must have been computed before the files were read."""
    draft = directory / f"{NEXT_DUE_FILE}.new"
    draft.write_text(f"{NEVER if at is None else at.isoformat()}\n{signatures}", "utf-8")
    draft.replace(directory / NEXT_DUE_FILE)


def clear_next_due(directory: Path) -> None:
    """The next cycle reads the files."""
    (directory / NEXT_DUE_FILE).unlink(missing_ok=True)


def are_settled(files: list[Path], host_now: datetime) -> bool:
    """Whether the signatures can be trusted: no file was changed just now, according to this host's clock."""
    newest = max((file.stat().st_ctime for file in files if file.exists()), default=0.0)
    return newest < (host_now - SETTLED).timestamp()
