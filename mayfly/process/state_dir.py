"""The private directory of this user's runtime files: the host lock and the runners' pages."""

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from mayfly.errors import StateDirUnsafe
from mayfly.settings.values import mask_password, without_password

if TYPE_CHECKING:
    from mayfly.settings.values import Settings

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - only our own 0700 directory below it is used, and checked
MAX_NAME_LENGTH = 200  # file systems take 255


def state_dir(settings: "Settings") -> Path:
    """Its path; nothing is created. Named after host and database: each installation has its own."""
    database = mask_password(without_password(settings.database_url.get_secret_value()))
    name = quote(f"{settings.host_name} {database}", safe="@:+=")
    return _base(settings) / (name if len(name) <= MAX_NAME_LENGTH else _digest(name))


def open_state_dir(settings: "Settings") -> Path:
    """Create it if need be; refuse one that another user could have prepared."""
    base = _base(settings)
    try:
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
        _refuse_unsafe(base, base.lstat())
        directory = state_dir(settings)
        directory.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise StateDirUnsafe(base, f"cannot be used: {error.strerror}") from error
    return directory


def _refuse_unsafe(base: Path, facts: os.stat_result) -> None:
    if not stat.S_ISDIR(facts.st_mode):
        raise StateDirUnsafe(base, "is a link or no directory")
    if facts.st_uid != os.getuid():
        raise StateDirUnsafe(base, f"belongs to another user (uid {facts.st_uid})")
    if facts.st_mode & 0o022:
        raise StateDirUnsafe(base, "can be written by others")


def lock_path(directory: Path) -> Path:
    return directory / "dispatcher.lock"


def turns_path(directory: Path, number: int) -> Path:
    return directory / f"{number:08x}.turns"


def page_path(directory: Path, worker_id: str) -> Path:
    return directory / f"{worker_id}.page"


def pages_in(directory: Path) -> list[Path]:
    return list(directory.glob("*.page"))


def leaving_path(directory: Path, cycle_id: int) -> Path:
    return directory / f"{cycle_id}.leaving"


def leaving_paths(directory: Path) -> list[Path]:
    return list(directory.glob("*.leaving"))


def _base(settings: "Settings") -> Path:
    # Links are followed here and not in the settings: their snapshot would keep the old target.
    return default_base() if settings.state_dir is None else settings.state_dir.resolve()


def default_base() -> Path:
    """The user's own directory, without STATE_DIR. In memory if possible: a reboot clears it, no disk is written."""
    return _volatile() / f"mayfly-{os.getuid()}"


def _digest(name: str) -> str:
    import hashlib  # here because it brings OpenSSL along, and few names are so long

    return hashlib.sha256(name.encode()).hexdigest()


def _volatile() -> Path:
    if SHARED_MEMORY.is_dir():
        return SHARED_MEMORY
    import tempfile  # here because hardly any Linux is without /dev/shm

    return Path(tempfile.gettempdir())
