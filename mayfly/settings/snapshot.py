"""The validated settings of an earlier process, so that most processes need not import pydantic (150 ms).

A process that has loaded the settings through the model leaves them as a file in the user's private directory. The
next one takes them from there if everything that they were read from is unchanged: the environment, .env,
mayfly.toml, files of secrets, the host's name, and the versions of Mayfly and Python. In any doubt it loads them
through the model.

The file contains no secret, only where each one is written: the name of the variable, or the file and the position in
it. Settings with warnings leave no snapshot, so that each process logs the warnings.
"""

import json
import os
import stat
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import mayfly
from mayfly.errors import SettingsError, StateDirUnsafe
from mayfly.process.state_dir import default_base
from mayfly.settings.sources import content_of, find_home
from mayfly.settings.values import AccountSettings, LaneSettings, Secret, Settings, database_url

if TYPE_CHECKING:
    from mayfly.settings.loading import Loaded, Reading
    from mayfly.settings.sources import Given

try:  # hashlib takes 2 ms to import; the standard library's random avoids it in the same way
    if sys.version_info >= (3, 12):
        from _sha2 import sha256
    else:
        from _sha256 import sha256  # type: ignore[import-not-found]
except ImportError:
    from hashlib import sha256

MAX_SNAPSHOTS = 64  # one for each home and set of variables; the oldest are deleted
MAX_BYTES = 1_000_000
DOUBTS = (OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError, SettingsError, StateDirUnsafe)


def load_settings() -> Settings:
    """From a snapshot if there is a valid one, else through the model. Raises SettingsError."""
    return read_snapshot(os.environ) or _load().settings


def load_with_warnings() -> tuple[Settings, Sequence[str]]:
    """Like load_settings, with the warnings of load(); settings with warnings have no snapshot."""
    settings = read_snapshot(os.environ)
    if settings is not None:
        return settings, ()
    loaded = _load()
    return loaded.settings, loaded.warnings


def _load() -> "Loaded":
    from mayfly.settings.loading import load  # here: it imports pydantic

    loaded = load()
    write_snapshot(loaded, os.environ)
    return loaded


# --- read -------------------------------------------------------------------------------------------------


def read_snapshot(environ: Mapping[str, str]) -> Settings | None:
    """The settings of an earlier process with the same sources; None in any doubt."""
    try:
        home = find_home(environ).path
        circumstances = _circumstances(environ, home)
        document = _document(_file(circumstances))
        files = {file: _content(file) for file in map(Path, document["files"])}
        if document["key"] != _key(circumstances, environ, document["variables"], files):
            return None
        return _decoded(document, _Sources(environ, files, home))
    except DOUBTS:
        return None


def _document(file: Path) -> Any:
    """Raises one of DOUBTS if anybody else could have written the file, or if it is damaged."""
    _require_private(file.parent.lstat(), stat.S_IFDIR)
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as opened:
        _require_private(os.fstat(descriptor), stat.S_IFREG)
        checksum, _, text = opened.read(MAX_BYTES).partition(b"\n")
    if checksum != sha256(text).hexdigest().encode():
        raise ValueError("damaged")
    return json.loads(text)


def _content(file: Path) -> bytes | None:
    with suppress(FileNotFoundError):
        _refuse_stream(file.stat())
    return content_of(file)


def _refuse_stream(facts: os.stat_result) -> None:
    """A secret may come through a pipe, DATABASE_URL_FILE=/dev/fd/63: then it can be read only once."""
    if stat.S_IFMT(facts.st_mode) not in (stat.S_IFREG, stat.S_IFDIR):
        raise ValueError("not a regular file")


def _require_private(facts: os.stat_result, kind: int) -> None:
    if stat.S_IFMT(facts.st_mode) != kind or facts.st_uid != os.getuid() or facts.st_mode & 0o077:
        raise PermissionError("not private")


class _Sources(NamedTuple):
    environ: Mapping[str, str]
    files: Mapping[Path, bytes | None]
    home: Path


def _decoded(document: Any, sources: _Sources) -> Settings:
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in document["values"].items()
    }
    for name, paths in document["paths"].items():
        values[name] = Path(paths) if isinstance(paths, str) else tuple(map(Path, paths))
    for name, place in document["secrets"].items():
        values[name] = Secret(_secret_at(place, sources))
    values["database_url"] = Secret(database_url(values["database_url"].get_secret_value(), sources.home))
    values["lanes"] = {name: LaneSettings(**lane) for name, lane in document["lanes"].items()}
    values["unset_lane"] = LaneSettings(**document["unset_lane"])
    values["console_accounts"] = {
        name: AccountSettings(role=role, password_hash=Secret(_secret_at(place, sources)))
        for name, (role, place) in document["accounts"].items()
    }
    return Settings(**values)


def _secret_at(place: list[Any], sources: _Sources) -> str:
    match place:
        case ["default", text]:
            return str(text)
        case ["variable", name]:
            return sources.environ[name]
        case ["file", file, start, end]:
            content = sources.files[Path(file)]
            if content is not None:
                return content[start:end].decode()
    raise ValueError("no such place")


# --- write ------------------------------------------------------------------------------------------------


def write_snapshot(loaded: "Loaded", environ: Mapping[str, str]) -> None:
    """Best effort: without a snapshot the next process loads the settings as this one did."""
    if loaded.warnings:
        return
    with suppress(*DOUBTS):
        circumstances = _circumstances(environ, loaded.settings.home)
        file = _file(circumstances)
        file.parent.mkdir(mode=0o700, exist_ok=True)
        _require_private(file.parent.lstat(), stat.S_IFDIR)
        reading = loaded.reading
        for path, content in reading.files.items():
            if content is not None:
                _refuse_stream(path.stat())
        key = _key(circumstances, environ, reading.variables, reading.files)
        text = json.dumps({"key": key, **_encoded(loaded.settings, reading)}).encode()
        _replace(file, sha256(text).hexdigest().encode() + b"\n" + text)
        _delete_oldest(file.parent)


def _replace(file: Path, content: bytes) -> None:
    """Atomically: a reader sees the old content or the new one."""
    new = file.with_name(f"{file.name}.{os.getpid()}.new")
    with suppress(FileNotFoundError):
        new.unlink()  # of a process with the same number that was killed
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(content)
        new.replace(file)
    except OSError:
        new.unlink(missing_ok=True)
        raise


def _delete_oldest(directory: Path) -> None:
    snapshots = sorted(directory.glob("settings-*"), key=lambda file: file.stat().st_mtime, reverse=True)
    for file in snapshots[MAX_SNAPSHOTS:]:
        file.unlink(missing_ok=True)


def _encoded(settings: Settings, reading: "Reading") -> dict[str, Any]:
    values = dict(vars(settings))
    lanes, accounts, unset_lane = values.pop("lanes"), values.pop("console_accounts"), values.pop("unset_lane")
    secrets = {name: value for name, value in values.items() if isinstance(value, Secret)}
    paths = {name: value for name, value in values.items() if _is_path(value)}
    return {
        "variables": list(reading.variables),
        "files": [str(file) for file in reading.files],
        "values": {name: value for name, value in values.items() if name not in secrets and name not in paths},
        "paths": {
            name: str(value) if isinstance(value, Path) else [*map(str, value)] for name, value in paths.items()
        },
        "secrets": {name: _place(reading, (name,), value) for name, value in secrets.items()},
        "lanes": {name: vars(lane) for name, lane in lanes.items()},
        "unset_lane": vars(unset_lane),
        "accounts": {
            name: [each.role, _place(reading, ("console_accounts", name, "password_hash"), each.password_hash)]
            for name, each in accounts.items()
        },
    }


def _is_path(value: object) -> bool:
    return isinstance(value, Path) or (isinstance(value, tuple) and any(isinstance(each, Path) for each in value))


def _place(reading: "Reading", key: tuple[str, ...], secret: Secret) -> list[Any]:
    """Where a secret is written. Raises ValueError where its text is escaped there: then there is no snapshot."""
    given: Given | None = reading.given.get(key)
    if given is None:
        return ["default", secret.get_secret_value()]
    if given.file is None:
        return ["variable", given.spelled]
    raw = given.value.encode()
    start = (reading.files[given.file] or b"").index(raw)
    return ["file", str(given.file), start, start + len(raw)]


# --- what a snapshot depends on ---------------------------------------------------------------------------


def _circumstances(environ: Mapping[str, str], home: Path) -> list[str]:
    """What selects the file. All names of variables: a misspelled one is a warning, which only the model gives."""
    package = Path(__file__).parent
    code = [(package / f"{name}.py").stat() for name in ("model", "values", "sources", "loading", "snapshot")]
    return [
        mayfly.__version__,
        sys.version,
        # A checkout changes without its version.
        *(f"{each.st_mtime_ns} {each.st_size}" for each in code),
        os.uname().nodename,
        str(home),
        *sorted(environ),
    ]


def _file(circumstances: list[str]) -> Path:
    return default_base() / f"settings-{_hash(map(_bytes, circumstances))[:32]}.json"


def _key(
    circumstances: Iterable[str],
    environ: Mapping[str, str],
    variables: Iterable[str],
    files: Mapping[Path, bytes | None],
) -> str:
    parts = [_bytes(each) for each in circumstances]
    for name in variables:
        parts += [_bytes(name), _bytes(environ[name])]
    for file, content in files.items():
        parts += [_bytes(str(file)), b"missing" if content is None else b"content", content or b""]
    return _hash(parts)


def _hash(parts: Iterable[bytes]) -> str:
    digest = sha256()
    for part in parts:
        digest.update(b"%d:" % len(part))
        digest.update(part)
    return str(digest.hexdigest())


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
