"""Where settings are written: the environment, .env and mayfly.toml in Mayfly's home, and files of secrets.

Does not import pydantic. Handlers' own settings (`setting("OPENAI_API_KEY")`) are looked up here too: Mayfly does not
know their names, so they are not part of the model.
"""

import os
import re
import sys
from collections.abc import Iterator, Mapping
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from mayfly.errors import NoSuchSetting, SettingsError
from mayfly.settings.values import mask_password, under_home

HOME = "MAYFLY_HOME"
ENVIRONMENT = "environment"
DEFAULT = "default"

_PACKAGE = Path(__file__).resolve().parent.parent  # mayfly
_VIRTUALENV = Path(sys.prefix) if sys.prefix != sys.base_prefix else None


class Home(NamedTuple):
    path: Path
    source: str


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


def find_home(
    environ: Mapping[str, str],
    package: Path = _PACKAGE,
    virtualenv: Path | None = _VIRTUALENV,
) -> Home:
    """MAYFLY_HOME, else the checkout, else the directory of the virtualenv. Never the current directory."""
    if HOME in environ:
        return Home(_stated_home(environ[HOME]), ENVIRONMENT)
    if package.parent.name not in ("site-packages", "dist-packages"):
        return Home(package.parent, DEFAULT)
    if virtualenv is None:
        raise SettingsError(
            f"{HOME} is not set, and Mayfly is installed outside of a virtual environment: "
            f"set {HOME} to the directory of mayfly.toml, .env and mayfly.db"
        )
    return Home(virtualenv.resolve().parent, DEFAULT)


def _stated_home(text: str) -> Path:
    if not text.strip():
        raise SettingsError(f"{HOME}= ({ENVIRONMENT}): is empty; give an existing directory, or unset it")
    try:
        path = Path(text)
        if path.is_absolute() and path.is_dir():
            return path.resolve()
    except OSError as error:
        raise SettingsError(f"{HOME}={text} ({ENVIRONMENT}): {reason(error)}") from error
    raise SettingsError(f"{HOME}={text} ({ENVIRONMENT}): must be the absolute path of an existing directory")


# --- files ------------------------------------------------------------------------------------------------


def dotenv_file(home: Path) -> Path:
    return home / ".env"


def toml_file(home: Path) -> Path:
    return home / "mayfly.toml"


def content_of(file: Path) -> bytes | None:
    """None for a file that does not exist."""
    try:
        return file.read_bytes()
    except (FileNotFoundError, IsADirectoryError):  # a directory: some virtual environments are called .env
        return None


def text_in(content: bytes | None) -> str:
    """As a file opened in text mode is read: every kind of line end becomes a newline."""
    return StringIO((content or b"").decode(), newline=None).read()


def secret_in(content: bytes) -> str:
    secret = content.decode().strip()
    if not secret:
        raise ValueError("is an empty file")
    return secret


def dotenv_variables(text: str) -> tuple[dict[str, str], list[int]]:
    """The variables that a .env file sets, and the numbers of the lines that cannot be read."""
    plain = plain_variables(text)
    if plain is not None:
        return plain, []
    # Imported here because it takes 25 ms, and most files are plain. The parser alone: dotenv_values() silently
    # skips a broken line and expands a $ in a password.
    from dotenv.parser import parse_stream

    variables: dict[str, str] = {}
    broken = []
    for binding in parse_stream(StringIO(text)):
        if binding.error:
            broken.append(binding.original.line)
        elif binding.key is not None:
            variables[binding.key] = binding.value or ""
    return variables, broken


def plain_variables(text: str) -> dict[str, str] | None:
    """The variables of a .env file that has only comments and NAME=value on one line; None for any other file."""
    variables = {}
    for line in map(str.strip, text.split("\n")):
        if line and not line.startswith("#"):
            match = re.fullmatch(_PLAIN_LINE, line)
            if match is None:
                return None
            variables[match[1]] = match[2] or match[3] or match[4] or ""
    return variables


# A value in quotes without escapes, or without quotes and white space.
_PLAIN_LINE = r"""(?:export )?([A-Za-z_][A-Za-z0-9_]*)=(?:'([^'\\]*)'|"([^"\\]*)"|([^\s'"]\S*)?)"""


def toml_document(text: str) -> dict[str, Any]:
    """Raises ValueError for text that is not TOML."""
    if not text:
        return {}
    import tomllib  # here because many installations have no such file

    return tomllib.loads(text)


def reason(error: OSError | ValueError) -> str:
    if isinstance(error, OSError):
        return f"cannot be read: {error.strerror}"
    if isinstance(error, UnicodeDecodeError):  # its own text quotes a byte of the secret
        return "cannot be read: it is not UTF-8 text"
    return str(error)


# --- settings of handlers ---------------------------------------------------------------------------------


def setting(name: str, default: str | None = None) -> str:
    """The value of a setting of an integration: setting("OPENAI_API_KEY").

    Raises where it is not set and no default is given: a handler that `requires` it is never called then.
    """
    given = find_integration(name)
    if given is None:
        if default is None:
            raise NoSuchSetting(name)
        return default
    if not given.from_file:
        return str(given.value)
    try:
        return secret_in(under_home(Path(given.value), find_home(os.environ).path).read_bytes())
    except (OSError, ValueError) as error:
        path = mask_password(str(given.value))  # an easy mistake is to write the secret itself there
        raise SettingsError(f"{given.spelled}={path} ({given.source}): {reason(error)}") from None


def find_integration(name: str, environ: Mapping[str, str] | None = None) -> Given | None:
    """From the strongest source: the environment, .env, [integrations] in mayfly.toml. None if it is empty."""
    variables = os.environ if environ is None else environ
    home = find_home(variables).path
    return next((each for each in _integrations(name, variables, home) if not each.is_empty), None)


def _integrations(name: str, environ: Mapping[str, str], home: Path) -> Iterator[Given]:
    dotenv = dotenv_file(home)
    written = [
        *_written_in(environ, name, ENVIRONMENT),
        *_written_in(dotenv_variables(_text_of(dotenv))[0], name, str(dotenv)),
    ]
    yield from written or _written_in_toml(name, toml_file(home))


def _written_in(variables: Mapping[str, str], name: str, source: str) -> Iterator[Given]:
    for spelled in (name, f"{name}_FILE"):  # in one source, NAME beats NAME_FILE
        if spelled in variables:
            yield Given(spelled, variables[spelled], source, from_file=spelled != name)


def _written_in_toml(name: str, file: Path) -> Iterator[Given]:
    try:
        table = toml_document(_text_of(file)).get("integrations")
    except ValueError:  # reported by whatever loads Mayfly's own settings
        return
    value = table.get(name.lower()) if isinstance(table, dict) else None
    if isinstance(value, str | int | float):
        yield Given(f"integrations.{name.lower()}", value, str(file))


def _text_of(file: Path) -> str:
    try:
        return text_in(content_of(file))
    except (OSError, ValueError):  # reported by whatever loads Mayfly's own settings
        return ""
