"""Find Mayfly's home, and gather what is set in the environment, in files of secrets, .env, mayfly.toml."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mayfly.errors import SettingsError
from mayfly.settings.files import DotenvFile, Given, TomlFile
from mayfly.settings.names import HOME, SECRET_FILES, Key, Names
from mayfly.settings.values import mask_password, under_home

ENVIRONMENT = "environment"
DEFAULT = "default"

_PACKAGE = Path(__file__).resolve().parent.parent  # mayfly
_VIRTUALENV = Path(sys.prefix) if sys.prefix != sys.base_prefix else None


class Home(NamedTuple):
    path: Path
    source: str


class Reading(NamedTuple):
    """The strongest place's word on each setting, and what is wrong or doubtful in any place."""

    given: dict[Key, Given]
    problems: list[str]
    warnings: list[str]


def find_home(
    environ: Mapping[str, str],
    package: Path = _PACKAGE,
    virtualenv: Path | None = _VIRTUALENV,
) -> Home:
    """MAYFLY_HOME, else the checkout, else where the virtualenv lies. Never the current directory."""
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


def read_sources(environ: Mapping[str, str], home: Path, names: Names) -> Reading:
    dotenv = DotenvFile(home / ".env").read()
    toml = TomlFile(home / "mayfly.toml", names).read()
    places = [(environ, ENVIRONMENT), (dotenv.variables, str(dotenv.file))]  # the strongest first

    given = dict(toml.given)
    for variables, source in reversed(places):
        given |= _secret_files(variables, source)
        given |= _plain_variables(variables, source, names)  # within a place, NAME beats NAME_FILE
    problems = [
        *dotenv.problems,
        *_other_home(dotenv, environ),
        *toml.problems,
        *_open_secret_files(given, home),
    ]
    warnings = [doubt for variables, source in places for doubt in _doubts(variables, source, names)]
    return Reading(given, problems, warnings)


def nested(given: Mapping[Key, Given]) -> dict[str, Any]:
    """{("lanes", "mail", "rank"): …} as {"lanes": {"mail": {"rank": …}}}, which is what pydantic takes."""
    tree: dict[str, Any] = {}
    for key in sorted(given, key=len):
        node = tree
        for part in key[:-1]:
            node = node.setdefault(part, {})
        value = given[key].value
        node[key[-1]] = dict(value) if isinstance(value, dict) else value
    return tree


def _plain_variables(variables: Mapping[str, str], source: str, names: Names) -> dict[Key, Given]:
    keys = ((names.key_of(variable), variable) for variable in variables)
    return {key: Given(variable, variables[variable], source) for key, variable in keys if key}


def _secret_files(variables: Mapping[str, str], source: str) -> dict[Key, Given]:
    return {
        key: Given(variable, variables[variable], source, from_file=True)
        for key, variable in SECRET_FILES.items()
        if variable in variables
    }


def _open_secret_files(given: dict[Key, Given], home: Path) -> list[str]:
    """Put what each file says in the place of its name. What a plain NAME overruled is not opened."""
    problems = []
    for key, named in list(given.items()):
        if named.from_file and not named.is_empty:
            try:
                given[key] = named._replace(value=secret_in(under_home(Path(named.value), home)))
            except (OSError, ValueError) as error:
                del given[key]
                path = mask_password(named.value)  # some will write the URL itself there
                problems.append(f"{named.spelled}={path} ({named.source}): {_reason(error)}")
    return problems


def secret_in(file: Path) -> str:
    secret = file.read_text("utf-8").strip()
    if not secret:
        raise ValueError("is an empty file")
    return secret


def _other_home(dotenv: DotenvFile, environ: Mapping[str, str]) -> Iterator[str]:
    # Whoever writes it there believes the database to be elsewhere, and would go on with a second, empty one.
    stated = dotenv.variables.get(HOME)
    if stated is not None and stated != environ.get(HOME) and Path(stated) != dotenv.file.parent:
        yield f"{HOME} ({dotenv.file}): can only be set in the environment, for .env is looked for there"


def _doubts(variables: Mapping[str, str], source: str, names: Names) -> Iterator[str]:
    known = {HOME, *SECRET_FILES.values()}
    for variable in sorted(variables):
        if variable not in known and not names.key_of(variable) and (doubt := names.doubt_about(variable)):
            yield f"{variable} ({source}): is not a setting and has no effect; {doubt}"


def _stated_home(text: str) -> Path:
    if not text.strip():
        raise SettingsError(f"{HOME}= ({ENVIRONMENT}): is empty; give an existing directory, or unset it")
    try:
        path = Path(text)
        if path.is_absolute() and path.is_dir():
            return path.resolve()
    except OSError as error:
        raise SettingsError(f"{HOME}={text} ({ENVIRONMENT}): {_reason(error)}") from error
    raise SettingsError(f"{HOME}={text} ({ENVIRONMENT}): must be the absolute path of an existing directory")


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, OSError):
        return f"cannot be read: {error.strerror}"
    if isinstance(error, UnicodeDecodeError):  # its own text quotes a byte of the secret
        return "cannot be read: it is not UTF-8 text"
    return str(error)
