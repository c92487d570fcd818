"""The private directory for runtime files of this user: the host lock and the runners' status pages."""

import os
import stat
from pathlib import Path
from urllib.parse import quote

from mayfly.errors import StateDirUnsafe
from mayfly.settings import Settings
from mayfly.settings.snapshot import digest, private_dir
from mayfly.settings.values import mask_password, without_password

MAX_NAME_LENGTH = 200  # file systems allow 255


def state_dir(settings: Settings) -> Path:
    """The path only; nothing is created. Named after host and database: each installation has its own."""
    database = mask_password(without_password(settings.database_url.get_secret_value()))
    name = quote(f"{settings.host_name} {database}", safe="@:+=")
    return _base(settings) / (name if len(name) <= MAX_NAME_LENGTH else digest([name.encode()]))


def open_state_dir(settings: Settings) -> Path:
    """Create it if it does not exist; refuse one that another user could have prepared."""
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
        raise StateDirUnsafe(base, "is a link or not a directory")
    if facts.st_uid != os.getuid():
        raise StateDirUnsafe(base, f"belongs to another user (uid {facts.st_uid})")
    if facts.st_mode & 0o022:
        raise StateDirUnsafe(base, "is writable for other users")


def lock_path(directory: Path) -> Path:
    return directory / "dispatcher.lock"


def lane_hash(lane: str) -> int:
    """For the names of files: a lane may have any characters."""
    from hashlib import blake2b  # takes 2 ms to import: idle cycles use this module, too

    return int.from_bytes(blake2b(lane.encode(), digest_size=8).digest())


def claim_lock_path(directory: Path, lane_hash: int) -> Path:
    return directory / f"{lane_hash:08x}.claims"


def poll_lock_path(directory: Path, lane_hash: int) -> Path:
    return directory / f"{lane_hash:08x}.polls"


def lane_queue_path(directory: Path, cycle_id: int) -> Path:
    return directory / f"{cycle_id}.lanes"


def lane_queue_paths(directory: Path) -> list[Path]:
    return list(directory.glob("*.lanes"))


def page_path(directory: Path, worker_id: str) -> Path:
    return directory / f"{worker_id}.page"


def pages_in(directory: Path) -> list[Path]:
    return list(directory.glob("*.page"))


def leaving_path(directory: Path, cycle_id: int) -> Path:
    return directory / f"{cycle_id}.leaving"


def leaving_paths(directory: Path) -> list[Path]:
    return list(directory.glob("*.leaving"))


def _base(settings: Settings) -> Path:
    # Links are followed here and not in the settings: their snapshot would keep the old target.
    return private_dir() if settings.state_dir is None else settings.state_dir.resolve()
