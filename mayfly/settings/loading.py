"""Load the settings, and say of each who set it."""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from mayfly.errors import SettingsError
from mayfly.settings.files import Given
from mayfly.settings.integrations import find_integration
from mayfly.settings.kinds import SIZE
from mayfly.settings.model import NAMES, SettingsModel, allowed
from mayfly.settings.names import ACCOUNTS, Key, is_secret, variable_of
from mayfly.settings.problems import empty_value, sentences, shown
from mayfly.settings.shape import Secret, Settings
from mayfly.settings.sources import DEFAULT, Home, find_home, nested, read_sources
from mayfly.settings.values import mask_password, size_text

ADDRESSES = ("database_url", "alert_smtp_url")  # secrets of which only the password is one


@dataclass(frozen=True)
class Origin:
    """One line of `mayfly config`."""

    name: str
    value: str  # to be shown: secrets are masked
    source: str  # "default", "environment", "environment (DATABASE_URL_FILE)", or the path of the file


@dataclass(frozen=True)
class Loaded:
    settings: Settings
    origins: tuple[Origin, ...]
    warnings: tuple[str, ...]


def load(environ: Mapping[str, str] | None = None) -> Loaded:
    """Read all places; whatever is wrong in any of them is one SettingsError with a line for each problem."""
    variables = os.environ if environ is None else environ
    home = find_home(variables)
    reading = read_sources(variables, home.path, NAMES)
    settings = _validated(home, reading.given, reading.problems)
    return Loaded(settings, tuple(_origins(settings, home, reading.given)), tuple(reading.warnings))


def _validated(home: Home, given: Mapping[Key, Given], found: list[str]) -> Settings:
    empty = {key: told for key, told in given.items() if told.is_empty}
    problems = found + [empty_value(key, told, allowed) for key, told in empty.items()]
    filled = {key: told for key, told in given.items() if key not in empty}
    try:
        settings = SettingsModel(home=home.path, **nested(filled)).as_plain()
    except ValidationError as error:
        # Not chained: pydantic's own text is of no use to the reader.
        raise SettingsError("\n".join([*problems, *sentences(error, given, allowed)])) from None
    if problems:
        raise SettingsError("\n".join(problems))
    return settings


def _origins(settings: Settings, home: Home, given: Mapping[Key, Given]) -> Iterator[Origin]:
    yield Origin(variable_of(("home",)), str(settings.home), home.source)
    for name in Settings._fields:
        if name in NAMES.plain:
            told = given.get((name,))
            yield Origin(variable_of((name,)), _display(settings, name), _source(told) if told else DEFAULT)
    for key, told in sorted(given.items()):
        if key[0] == "pools":
            yield Origin(told.spelled, str(settings.pools[key[1]]), told.source)
        elif key[0] == ACCOUNTS and len(key) == 3:
            value = "***" if is_secret(key) else settings.console_accounts[key[1]].role
            yield Origin(told.spelled, value, told.source)
        elif key[0] == "lanes" and len(key) == 3:
            yield Origin(told.spelled, shown(getattr(settings.lanes[key[1]], key[2])), told.source)


def integration_origins(names: Iterable[str]) -> Iterator[Origin]:
    """Of settings that handlers require. What each value is nobody knows but its handler, so none is shown."""
    for name in names:
        told = find_integration(name)
        yield Origin(name, "***", _source(told)) if told else Origin(name, "none", DEFAULT)


def _source(told: Given) -> str:
    return f"{told.source} ({told.spelled})" if told.from_file else told.source


def _display(settings: Settings, name: str) -> str:
    value = getattr(settings, name)
    if isinstance(value, Secret):
        return mask_password(value.get_secret_value()) if name in ADDRESSES else "***"
    if value is None or value == ():
        return "none"
    if SIZE in SettingsModel.model_fields[name].metadata:
        return size_text(value)
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value) if isinstance(value, Path) else shown(value)  # a path is not cut short
