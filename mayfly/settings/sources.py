"""The sources of settings: the environment, .env and mayfly.toml in Mayfly's home, and files with secrets.

Does not import pydantic. Settings of handlers (`setting("OPENAI_API_KEY")`) are read here too: their names are not
known in advance, so they are not part of the model.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from mayfly.errors import NoSuchSetting, SettingsError
from mayfly.settings.values import mask_password, under_home

HOME = "MAYFLY_HOME"
ENVIRONMENT = "environment"
DEFAULT = "default"
DOTENV = ".env"
TOML = "mayfly.toml"

_PACKAGE = Path(__file__).resolve().parent.parent  # mayfly
_VIRTUALENV = Path(sys.prefix) if sys.prefix != sys.base_prefix else None


class Given(NamedTuple):
    """A value as it was written, and where."""

    spelled: str  # BATCH_SIZE, LANES__MAIL__RANK, lanes.mail.rank, DATABASE_URL_FILE
    value: Any
    source: str  # "environment", or the path of .env or mayfly.toml
    from_file: bool = False  # NAME_FILE: the value is the content of a file
    file: Path | None = None  # the file that contains the value; None for the environment

    @property
    def is_empty(self) -> bool:
        return isinstance(self.value, str) and not self.value.strip()


# --- home -------------------------------------------------------------------------------------------------


def find_home(environ: Mapping[str, str]) -> Path:
    """MAYFLY_HOME, else the checkout, else the directory of the virtualenv. Never the current directory."""
    if HOME in environ:
        return _stated_home(environ[HOME])
    if _PACKAGE.parent.name not in ("site-packages", "dist-packages"):
        return _PACKAGE.parent
    if _VIRTUALENV is None:
        raise SettingsError(
            f"{HOME} is not set, and Mayfly is installed outside of a virtual environment: "
            f"set {HOME} to the directory of mayfly.toml, .env and mayfly.db"
        )
    return _VIRTUALENV.resolve().parent


def _stated_home(text: str) -> Path:
    if not text.strip():
        raise SettingsError(f"{HOME}= ({ENVIRONMENT}): is empty; set it to an existing directory, or unset it")
    try:
        path = Path(text)
        if path.is_absolute() and path.is_dir():
            return path.resolve()
    except OSError as error:
        raise SettingsError(f"{HOME}={text} ({ENVIRONMENT}): {reason(error)}") from error
    raise SettingsError(f"{HOME}={text} ({ENVIRONMENT}): must be the absolute path of an existing directory")


# --- files ------------------------------------------------------------------------------------------------


def content_of(file: Path) -> bytes | None:
    """None for a file that does not exist."""
    try:
        return file.read_bytes()
    except (FileNotFoundError, IsADirectoryError):  # a directory: some virtual environments are called .env
        return None


def text_in(content: bytes | None) -> str:
    """With universal newlines, as in a file opened in text mode."""
    return StringIO((content or b"").decode(), newline=None).read()


@lru_cache(4)  # a handler may read a setting in each job
def dotenv_variables(text: str) -> tuple[Mapping[str, str], list[int]]:
    """The variables that a .env file sets, and the numbers of its invalid lines."""
    if not text:
        return {}, []
    # Imported here because it takes 25 ms, and a process with a snapshot of the settings does not parse the file. The
    # parser alone: dotenv_values() silently skips a broken line and expands a $ in a password.
    from dotenv.parser import parse_stream

    bindings = list(parse_stream(StringIO(text)))
    variables = {each.key: each.value or "" for each in bindings if each.key is not None and not each.error}
    return variables, [each.original.line for each in bindings if each.error]


@lru_cache(4)
def toml_document(text: str) -> dict[str, Any]:
    """Raises ValueError for text that is not TOML."""
    if not text:
        return {}
    import tomllib  # not imported without the file

    return tomllib.loads(text)


def secret_file(named: Given, home: Path) -> tuple[Path, bytes]:
    """The file that NAME_FILE names, and its content. Raises SettingsError if it cannot be read or is empty."""
    try:
        file = under_home(Path(named.value), home)
        content = file.read_bytes()
        problem = "" if content.decode().strip() else "is an empty file"
    except (OSError, ValueError) as error:
        problem = reason(error)
    if problem:
        path = mask_password(named.value)  # the secret itself may have been written there by mistake
        raise SettingsError(f"{named.spelled}={path} ({named.source}): {problem}")
    return file, content


def reason(error: OSError | ValueError) -> str:
    if isinstance(error, OSError):
        return f"cannot be read: {error.strerror}"
    if isinstance(error, UnicodeDecodeError):  # its own text quotes a byte of the secret
        return "cannot be read: it is not UTF-8 text"
    return str(error)


# --- settings of handlers ---------------------------------------------------------------------------------


def setting(name: str, default: str | None = None) -> str:
    """The value of a setting of an integration: setting("OPENAI_API_KEY").

    Raises NoSuchSetting if it is not set and has no default. A handler that `requires` it is not called in that case.
    """
    given = find_integration(name)
    if given is None:
        if default is None:
            raise NoSuchSetting(name)
        return default
    if given.from_file:
        return secret_file(given, find_home(os.environ))[1].decode().strip()
    return str(given.value)


def find_integration(name: str) -> Given | None:
    """From the strongest source: the environment, .env, [integrations] in mayfly.toml. None if it is empty."""
    return next((each for each in _integrations(name, find_home(os.environ)) if not each.is_empty), None)


def _integrations(name: str, home: Path) -> Iterator[Given]:
    dotenv, toml = home / DOTENV, home / TOML
    yield from _written_in(os.environ, name, ENVIRONMENT)
    try:
        yield from _written_in(dotenv_variables(text_in(content_of(dotenv)))[0], name, str(dotenv))
        value = toml_document(text_in(content_of(toml))).get("integrations", {}).get(name.lower())
    except (OSError, ValueError, AttributeError):  # reported when Mayfly's own settings are loaded
        return
    if isinstance(value, str | int | float):
        yield Given(f"integrations.{name.lower()}", value, str(toml))


def _written_in(variables: Mapping[str, str], name: str, source: str) -> Iterator[Given]:
    for spelled in (name, f"{name}_FILE"):  # in one source, NAME beats NAME_FILE
        if spelled in variables:
            yield Given(spelled, variables[spelled], source, from_file=spelled != name)
