"""The validated settings of an earlier process, so that most processes need not import pydantic (150 ms).

A process that has loaded the settings through the model writes them to a file in the user's private directory. The
next process reads that file if all sources are unchanged: the environment, .env, mayfly.toml, files with secrets, the
host name, and the versions of Mayfly and Python. Otherwise, and after any error, it loads them through the model.

The file contains no secret, only where each secret is: the name of the variable, or the file and the position in it.
Settings with warnings are not written, so that each process logs the warnings.
"""

import json
import os
import stat
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mayfly
from mayfly.errors import SettingsError
from mayfly.settings.sources import content_of, find_home
from mayfly.settings.values import (
    AccountSettings,
    LaneSettings,
    LauncherSettings,
    Secret,
    Settings,
    SourceSettings,
    database_url,
)

if TYPE_CHECKING:
    from mayfly.settings.loading import Loaded, Reading

try:  # hashlib takes 2 ms to import; the standard library's random avoids it in the same way
    if sys.version_info >= (3, 12):
        from _sha2 import sha256
    else:
        from _sha256 import sha256  # type: ignore[import-not-found]
except ImportError:
    from hashlib import sha256

SHARED_MEMORY, DISK = Path("/dev/shm"), Path("/tmp")  # noqa: S108 - only our own 0700 directory is used, and checked
MAX_SNAPSHOTS = 512  # one for each home and set of variables; the oldest are deleted
SNAPSHOT_ERRORS = (OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError, SettingsError)


def private_dir() -> Path:
    """The directory of this user's runtime files. In memory if possible: no disk writes, and a reboot clears it."""
    return (SHARED_MEMORY if SHARED_MEMORY.is_dir() else DISK) / f"mayfly-{os.getuid()}"


# --- read -------------------------------------------------------------------------------------------------


def read_snapshot(environ: Mapping[str, str]) -> Settings | None:
    """The settings of an earlier process with the same sources; None if anything differs or fails."""
    try:
        home = find_home(environ)
        identity = _identity(environ, home)
        head, body = _private_lines(_file(identity))
        sources = json.loads(head)
        files = {file: _content(file) for file in map(Path, sources["files"])}
        if sources["key"] != _key(identity, environ, sources["variables"], files, body):
            return None
        values = json.loads(body, object_hook=_decoder(environ, files))
        values = _with_tuples(values)
        values["database_url"] = Secret(database_url(values["database_url"].get_secret_value(), home))
        return Settings(**values)
    except SNAPSHOT_ERRORS:
        return None


def _with_tuples(values: dict[str, Any]) -> dict[str, Any]:
    """JSON has only lists."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def _private_lines(file: Path) -> tuple[bytes, bytes]:
    """Raises one of SNAPSHOT_ERRORS if another user could have written the file."""
    _require_private(file.parent.lstat(), stat.S_IFDIR)
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as opened:
        _require_private(os.fstat(descriptor), stat.S_IFREG)
        head, body = opened.read().splitlines()
    return head, body


def _require_private(facts: os.stat_result, kind: int) -> None:
    if stat.S_IFMT(facts.st_mode) != kind or facts.st_uid != os.getuid() or facts.st_mode & 0o077:
        raise PermissionError("not private")


def _content(file: Path) -> bytes | None:
    """Refuses pipes (DATABASE_URL_FILE=/dev/fd/63), which can be read only once."""
    with suppress(FileNotFoundError):
        if stat.S_IFMT(file.stat().st_mode) not in (stat.S_IFREG, stat.S_IFDIR):
            raise ValueError("not a regular file")
    return content_of(file)


def _decoder(environ: Mapping[str, str], files: Mapping[Path, bytes | None]) -> Callable[[dict[str, Any]], Any]:
    """Types that JSON lacks are objects with a key that can be neither a setting nor the name of a lane."""

    def decoded(given: dict[str, Any]) -> Any:
        match given:
            case {"!path": path}:
                return Path(path)
            case {"!lane": lane}:
                return LaneSettings(**lane)
            case {"!account": account}:
                return AccountSettings(**account)
            case {"!source": source}:
                return SourceSettings(**_with_tuples(source))
            case {"!launcher": launcher}:
                return LauncherSettings(**_with_tuples(launcher))
            case {"!secret": ["default", text]}:
                return Secret(text)
            case {"!secret": ["variable", name]}:
                return Secret(environ[name])
            case {"!secret": [file, start, end]}:
                return Secret((files[Path(file)] or b"")[start:end].decode())
        return given

    return decoded


# --- write ------------------------------------------------------------------------------------------------


def write_snapshot(loaded: "Loaded", environ: Mapping[str, str]) -> None:
    """Best effort: without a snapshot, the next process loads the settings through the model."""
    if loaded.warnings:
        return
    with suppress(*SNAPSHOT_ERRORS):
        reading = loaded.reading
        identity = _identity(environ, reading.home)
        file = _file(identity)
        file.parent.mkdir(mode=0o700, exist_ok=True)
        _require_private(file.parent.lstat(), stat.S_IFDIR)
        for each in reading.files:
            _content(each)  # raises for a pipe
        body = _encoded(loaded.settings, reading)
        key = _key(identity, environ, reading.variables, reading.files, body)
        head = json.dumps({"key": key, "variables": reading.variables, "files": [*map(str, reading.files)]})
        _replace(file, head.encode() + b"\n" + body)
        _delete_oldest(file.parent)


def _replace(file: Path, content: bytes) -> None:
    """Atomically: a reader sees the old content or the new one."""
    new = file.with_name(f"{file.name}.{os.getpid()}.new")
    new.unlink(missing_ok=True)  # left by a killed process with the same pid
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(content)
    new.replace(file)


def _delete_oldest(directory: Path) -> None:
    snapshots = sorted(directory.glob("settings-*"), key=lambda file: file.stat().st_mtime, reverse=True)
    for file in snapshots[MAX_SNAPSHOTS:]:
        file.unlink(missing_ok=True)


def _encoded(settings: Settings, reading: "Reading") -> bytes:
    def place(secret: Secret, *key: str) -> dict[str, Any]:
        return {"!secret": _place(reading, key, secret)}

    secrets = {name: place(value, name) for name, value in vars(settings).items() if isinstance(value, Secret)}
    accounts = {
        name: {
            "!account": {
                **vars(each),
                "password_hash": place(each.password_hash, "console_accounts", name, "password_hash"),
            }
        }
        for name, each in settings.console_accounts.items()
    }
    return json.dumps({**vars(settings), **secrets, "console_accounts": accounts}, default=_tagged).encode()


_TAGS = {LaneSettings: "!lane", SourceSettings: "!source", LauncherSettings: "!launcher"}


def _tagged(value: Path | LaneSettings | SourceSettings | LauncherSettings) -> dict[str, Any]:
    return {"!path": str(value)} if isinstance(value, Path) else {_TAGS[type(value)]: vars(value)}


def _place(reading: "Reading", key: tuple[str, ...], secret: Secret) -> list[Any]:
    """Where a secret is stored. Raises ValueError if it is escaped there, so that no snapshot is written."""
    given = reading.given.get(key)
    if given is None:
        return ["default", secret.get_secret_value()]
    if given.file is None:
        return ["variable", given.spelled]
    raw = given.value.encode()
    start = (reading.files[given.file] or b"").index(raw)
    return [str(given.file), start, start + len(raw)]


# --- what a snapshot depends on ---------------------------------------------------------------------------


def _identity(environ: Mapping[str, str], home: Path) -> list[str]:
    """What selects the file. Includes all names of variables: only the model warns of misspelled ones."""
    # A checkout changes without its version.
    modules = ("model", "source_model", "launcher_model", "types", "values", "sources", "loading", "snapshot")
    code = [(Path(__file__).parent / f"{name}.py").stat() for name in modules]
    return [
        mayfly.__version__,
        sys.version,
        *(f"{each.st_mtime_ns} {each.st_size}" for each in code),
        os.uname().nodename,
        str(home),
        *sorted(environ),
    ]


def _file(identity: list[str]) -> Path:
    return private_dir() / f"settings-{digest(map(_bytes, identity))[:32]}.json"


def _key(
    identity: Iterable[str],
    environ: Mapping[str, str],
    variables: Iterable[str],
    files: Mapping[Path, bytes | None],
    body: bytes,
) -> str:
    parts = [body, *map(_bytes, identity)]
    for name in variables:
        parts += [_bytes(name), _bytes(environ[name])]
    for file, content in files.items():
        parts += [_bytes(str(file)), b"missing" if content is None else b"content", content or b""]
    return digest(parts)


def digest(parts: Iterable[bytes]) -> str:
    """SHA-256 of the parts, each with its length, so that boundaries matter."""
    total = sha256()
    for part in parts:
        total.update(b"%d:" % len(part))
        total.update(part)
    return str(total.hexdigest())


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
