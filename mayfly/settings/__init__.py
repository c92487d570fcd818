"""The settings: the one door through which the environment is read."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mayfly.settings.loading import Loaded, Origin, load, load_settings
    from mayfly.settings.model import LaneSettings, ResolvedLane, Settings

__all__ = ["LaneSettings", "Loaded", "Origin", "ResolvedLane", "Settings", "load", "load_settings"]


def __getattr__(name: str) -> object:
    """Imported on first use: an idle cycle (see quick.py) can do without pydantic."""
    if name not in __all__:
        raise AttributeError(f"module 'mayfly.settings' has no attribute {name!r}")
    from mayfly.settings import loading, model

    return getattr(model if hasattr(model, name) else loading, name)
