"""The settings that an idle cycle needs, read without pydantic: from plain values only, or not at all.

Names, places and their order are those of load(), by the same code. Every value that was given must be of a plain
form that the model surely takes; anything else is None here, and load() finds out what it means and what to say.
A test holds the table below against model.py, and hypothesis holds what is read against what load() reads.
"""

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from mayfly.errors import SettingsError
from mayfly.settings.conflicts import conflicts_in
from mayfly.settings.files import Given
from mayfly.settings.names import Key, Names
from mayfly.settings.sources import find_home, read_sources
from mayfly.settings.values import (
    KIB,
    MIB,
    NAME_PATTERN,
    SCHEDULE_FILES,
    check_host_name,
    database_url,
    read_modules,
    read_paths,
    read_size,
    under_home,
)

INFINITE = float("inf")


class Secret(NamedTuple):
    """Like pydantic's: a traceback does not show it."""

    value: str

    def get_secret_value(self) -> str:
        return self.value

    def __repr__(self) -> str:
        return "Secret('***')"


class QuickSettings(NamedTuple):
    """The fields of Settings that matter where there is nothing to do."""

    home: Path
    database_url: Secret
    schedule_files: tuple[Path, ...]
    log_dir: Path
    log_format: str
    log_to: str
    state_dir: Path | None
    host_name: str
    keep_done_days: float
    keep_cancelled_days: float
    keep_dead_days: float | None
    keep_cycles_days: float
    keep_runners_days: float


def quick_settings(environ: Mapping[str, str] | None = None) -> QuickSettings | None:
    """None where something is wrong, doubtful, or not plain."""
    variables = os.environ if environ is None else environ
    try:
        home = find_home(variables).path
        reading = read_sources(variables, home, NAMES)
        clear = not (reading.problems or reading.warnings)
        return _settings(home, _values(reading.given)) if clear else None
    except (ValueError, SettingsError):
        return None


# --- what is plain ----------------------------------------------------------------------------------------


def _whole(value: object) -> int:
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,9}", value):
        return int(value)
    if type(value) is not int:  # True is one of those
        raise ValueError
    return value


def _number(value: object) -> float:
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", value):
        return float(value)
    if type(value) not in (int, float):
        raise ValueError
    return float(value)  # type: ignore[arg-type]


def _size(value: object) -> int:
    return _whole(read_size(value))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError  # noqa: TRY004 - a value that was written wrong, not a mistake of ours
    return value


def _name(value: object) -> str:
    if not re.fullmatch(NAME_PATTERN, _text(value)):
        raise ValueError
    return _text(value)


def _host_name(value: object) -> str:
    return check_host_name(_text(value))


def _truth(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if _text(value) not in ("true", "false"):
        raise ValueError
    return value == "true"


class Rule(NamedTuple):
    """How a setting is read, its bounds, and what holds where it is not set."""

    read: Callable[[object], Any]
    default: Any = None
    at_least: float = -INFINITE
    at_most: float = INFINITE
    above: float = -INFINITE
    below: float = INFINITE
    words: tuple[str, ...] = ()

    def accept(self, given: object) -> Any:
        value = self.read(given)
        if self.words and value not in self.words:
            raise ValueError
        if isinstance(value, int | float) and not self._in_bounds(value):
            raise ValueError
        return value

    def _in_bounds(self, value: float) -> bool:
        return self.at_least <= value <= self.at_most and self.above < value < self.below


def _count(default: int | None = None) -> Rule:
    return Rule(_whole, default, 1, 1000)


def _days(default: float | None) -> Rule:
    return Rule(_number, default, above=0)


def _one_of(*words: str) -> Rule:
    return Rule(_text, words[0], words=words)


SETTINGS: Mapping[str, Rule] = {
    "database_url": Rule(_text, "sqlite:///mayfly.db"),
    "batch_size": _count(5),
    "max_workers": _count(5),
    "min_workers": _count(1),
    "concurrency": _count(100),
    "host_max_workers": Rule(_whole, 32, 1, 10_000),
    "worker_timeout": Rule(_number, 50, at_least=1),
    "dispatch_timeout": Rule(_number, 55, above=1, below=60),
    "worker_memory": Rule(_size, None, at_least=32 * MIB),
    "min_free_memory": Rule(_size, 64 * MIB, at_least=0),
    "max_load": Rule(_number, 10, at_least=0),
    "handlers": Rule(read_modules, ("handlers",)),
    "schedule_files": Rule(read_paths, SCHEDULE_FILES),
    "log_dir": Rule(_text, "logs"),
    "log_format": _one_of("text", "json"),
    "log_to": _one_of("file", "stdout", "syslog"),
    "state_dir": Rule(_text),
    "host_name": Rule(_host_name),
    "spawn": _one_of("fork", "exec"),
    "payload_limit": Rule(_size, 64 * KIB, KIB, 16 * MIB),
    "max_attempts": _count(5),
    "backoff_base": Rule(_number, 1, above=0),
    "backoff_cap": Rule(_number, 3600, above=0),
    "keep_done_days": _days(7),
    "keep_cancelled_days": _days(7),
    "keep_dead_days": _days(None),
    "keep_cycles_days": _days(90),
    "keep_runners_days": _days(7),
    "keep_audit_days": _days(365),
}
LANE: Mapping[str, Rule] = {
    "batch_size": _count(),
    "max_workers": _count(),
    "min_workers": _count(),
    "concurrency": _count(),
    "rank": Rule(_whole, 0),
    "pool": Rule(_name),
    "external": Rule(_truth, False),
}
POOL = _count()
NAMES = Names(plain=frozenset(SETTINGS), lane=frozenset(LANE))


# --- putting them together --------------------------------------------------------------------------------


def _values(given: Mapping[Key, Given]) -> SimpleNamespace:
    """All settings, those that were not given included; raises ValueError for the first that is not plain."""
    values = {name: rule.default for name, rule in SETTINGS.items()}
    lanes: dict[str, dict[str, object]] = {}
    pools: dict[str, int] = {}
    for key, told in given.items():
        if told.is_empty:
            raise ValueError
        match key:
            case ("pools", pool):
                pools[_name(pool)] = POOL.accept(told.value)
            case ("lanes", lane, *names):
                own = lanes.setdefault(_name(lane), {name: rule.default for name, rule in LANE.items()})
                own |= {name: LANE[name].accept(told.value) for name in names}
            case (name,):
                values[name] = SETTINGS[name].accept(told.value)
    settings = SimpleNamespace(
        **values, lanes={lane: SimpleNamespace(**own) for lane, own in lanes.items()}, pools=pools
    )
    if any(conflicts_in(settings)):
        raise ValueError
    return settings


def _settings(home: Path, values: SimpleNamespace) -> QuickSettings:
    return QuickSettings(
        home=home,
        database_url=Secret(database_url(values.database_url, home)),
        schedule_files=tuple(under_home(Path(each), home) for each in values.schedule_files),
        log_dir=under_home(Path(values.log_dir), home),
        log_format=values.log_format,
        log_to=values.log_to,
        state_dir=under_home(Path(values.state_dir), home) if values.state_dir is not None else None,
        host_name=values.host_name or _host_name(os.uname().nodename),
        keep_done_days=values.keep_done_days,
        keep_cancelled_days=values.keep_cancelled_days,
        keep_dead_days=values.keep_dead_days,
        keep_cycles_days=values.keep_cycles_days,
        keep_runners_days=values.keep_runners_days,
    )
