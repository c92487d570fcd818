"""The settings that handlers ask for by name: keys and addresses of what they talk to outside.

Mayfly does not know their names, so they are looked up when somebody asks, in the places of all settings: the
environment, .env, the table [integrations] of mayfly.toml, each also as NAME_FILE but for the last.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from mayfly.errors import NoSuchSetting, SettingsError
from mayfly.settings.files import DotenvFile, Given, TomlFile
from mayfly.settings.rules import NAMES
from mayfly.settings.sources import ENVIRONMENT, find_home, secret_in
from mayfly.settings.values import mask_password, under_home


def find_integration(name: str, environ: Mapping[str, str] | None = None) -> Given | None:
    """Whose word it is, the strongest place's; None where nobody has set it, or left it empty."""
    variables = os.environ if environ is None else environ
    home = find_home(variables).path
    dotenv = DotenvFile(home / ".env").read()
    places = [(variables, ENVIRONMENT), (dotenv.variables, str(dotenv.file))]
    written = [
        Given(spelled, place[spelled], source, from_file=spelled != name)
        for place, source in places
        for spelled in (name, f"{name}_FILE")  # within a place, NAME beats NAME_FILE
        if spelled in place
    ]
    told = written or _in_toml(name, home)
    return next((each for each in told if not each.is_empty), None)


def _in_toml(name: str, home: Path) -> list[Given]:
    given = TomlFile(home / "mayfly.toml", NAMES).read().integrations
    return [given[name.lower()]] if name.lower() in given else []


def setting(name: str, default: str | None = None) -> str:
    """What the installation says of an integration: setting("OPENAI_API_KEY").

    Raises where it is not set and no default is given: a handler that `requires` it is never called then.
    """
    told = find_integration(name)
    if told is None:
        if default is None:
            raise NoSuchSetting(name)
        return default
    if not told.from_file:
        return str(told.value)
    try:
        return secret_in(under_home(Path(told.value), find_home(os.environ).path))
    except (OSError, ValueError) as error:
        path = mask_password(str(told.value))  # some will write the secret itself there
        raise SettingsError(f"{told.spelled}={path} ({told.source}): cannot be read: {error}") from None
