"""The settings, read without pydantic: from plain values only, or not at all.

Names, places and their order are those of load(), by the same code. Every value that was given must be of a plain
form that the model surely takes; anything else is None here, and load() finds out what it means and what to say.
Hypothesis holds what is read against what load() reads.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mayfly.errors import SettingsError
from mayfly.settings.conflicts import conflicts_in
from mayfly.settings.files import Given
from mayfly.settings.names import SECRETS, Key
from mayfly.settings.rules import ACCOUNT, LANE, NAMES, POOL, SETTINGS, plain_host_name, plain_name
from mayfly.settings.shape import AccountSettings, LaneSettings, Secret, Settings
from mayfly.settings.sources import find_home, read_sources
from mayfly.settings.values import database_url, under_home


def load_settings() -> Settings:
    """What load() reads; it is asked only where there is no quick way."""
    return quick_settings() or _load_settings()


def quick_settings(environ: Mapping[str, str] | None = None) -> Settings | None:
    """None where something is wrong, doubtful, or not plain."""
    variables = os.environ if environ is None else environ
    try:
        home = find_home(variables).path
        reading = read_sources(variables, home, NAMES)
        return None if reading.problems or reading.warnings else _settings(home, reading.given)
    except (ArithmeticError, OSError, RuntimeError, ValueError, SettingsError):  # load() meets the same
        return None


def _load_settings() -> Settings:
    from mayfly.settings.loading import load  # here: pydantic costs more than most cycles do otherwise

    return load().settings


def _settings(home: Path, given: Mapping[Key, Given]) -> Settings:
    """All settings, those that were not given included; raises ValueError for the first that is not plain."""
    values = {each: rule.default for each, rule in SETTINGS.items()}
    lanes: dict[str, LaneSettings] = {}
    pools: dict[str, int] = {}
    accounts: dict[str, dict[str, Any]] = {}
    for key, told in given.items():
        if told.is_empty:
            raise ValueError
        match key:
            case ("pools", pool):
                pools[plain_name(pool)] = POOL.accept(told.value)
            case ("lanes", lane, *own):
                known = lanes.get(plain_name(lane), LaneSettings())
                lanes[lane] = known._replace(**{each: LANE[each].accept(told.value) for each in own})
            case ("console_accounts", account, *own):
                known_of = accounts.setdefault(plain_name(account), {})
                known_of.update({each: ACCOUNT[each].accept(told.value) for each in own})
            case (plain,):
                values[plain] = SETTINGS[plain].accept(told.value)
    settings = Settings(
        home=home, **_under(home, values), console_accounts=_accounts(accounts), lanes=lanes, pools=pools
    )
    if any(conflicts_in(settings)):
        raise ValueError
    return settings


def _accounts(given: Mapping[str, Mapping[str, Any]]) -> dict[str, AccountSettings]:
    if any(each.keys() != ACCOUNT.keys() for each in given.values()):
        raise ValueError  # one that lacks something
    return {name: AccountSettings(each["role"], Secret(each["password_hash"])) for name, each in given.items()}


def _under(home: Path, values: Mapping[str, Any]) -> dict[str, Any]:
    """What belongs to home or to the system, found; the rest as it is."""
    paths = {name: values[name] for name in ("log_dir", "metrics_textfile", "state_dir")}
    return {
        **values,
        **{name: None if values[name] is None else Secret(values[name]) for name in SECRETS},
        "database_url": Secret(database_url(values["database_url"], home)),
        "schedule_files": tuple(under_home(Path(each), home) for each in values["schedule_files"]),
        **{name: None if path is None else under_home(Path(path), home) for name, path in paths.items()},
        "host_name": values["host_name"] or plain_host_name(os.uname().nodename),
    }
