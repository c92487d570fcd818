"""The settings: the only package that reads the environment, .env and mayfly.toml.

model.py declares every setting. The rest of the product gets plain, read-only values (values.py), from the snapshot
that an earlier process left (snapshot.py) or through the model (loading.py).
"""

from importlib import import_module
from typing import TYPE_CHECKING

from mayfly.settings.values import LaneSettings, ResolvedLane, Settings

if TYPE_CHECKING:
    from mayfly.settings.loading import Loaded, Origin, load
    from mayfly.settings.snapshot import load_settings, load_without_warnings

__all__ = [
    "LaneSettings", "Loaded", "Origin", "ResolvedLane", "Settings", "load", "load_settings", "load_without_warnings",
]  # fmt: skip

_MODULES = {
    **dict.fromkeys(("Loaded", "Origin", "load"), "mayfly.settings.loading"),
    **dict.fromkeys(("load_settings", "load_without_warnings"), "mayfly.settings.snapshot"),
}


def __getattr__(name: str) -> object:
    """Imported on first use: loading.py imports pydantic, which costs more than an idle cycle."""
    if name not in _MODULES:
        raise AttributeError(f"module 'mayfly.settings' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
