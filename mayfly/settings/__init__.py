"""The settings: the only package that reads the environment, .env and mayfly.toml.

model.py declares every setting. The rest of the product gets plain, read-only values (values.py), from the snapshot
of an earlier process (snapshot.py) or through the model (loading.py).
"""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mayfly.settings.snapshot import read_snapshot, write_snapshot
from mayfly.settings.values import LaneSettings, ResolvedLane, Settings

if TYPE_CHECKING:
    from mayfly.settings.loading import Loaded

__all__ = ["LaneSettings", "ResolvedLane", "Settings", "load", "load_settings", "load_with_warnings"]


def load(environ: Mapping[str, str] | None = None) -> "Loaded":
    """Through the model, with the origin of each setting. Raises SettingsError with one line per problem."""
    from mayfly.settings import loading  # imports pydantic, 150 ms that a snapshot saves

    return loading.load(os.environ if environ is None else environ)


def load_settings() -> Settings:
    """From a valid snapshot, otherwise through the model. Raises SettingsError."""
    return load_with_warnings()[0]


def load_with_warnings() -> tuple[Settings, Sequence[str]]:
    """The same, with the warnings of load(); settings with warnings have no snapshot."""
    settings = read_snapshot(os.environ)
    if settings is not None:
        return settings, ()
    loaded = load()
    write_snapshot(loaded, os.environ)
    return loaded.settings, loaded.warnings
