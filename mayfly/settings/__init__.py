"""The settings: the one door through which the environment is read."""

from typing import TYPE_CHECKING

from mayfly.settings.quick import load_settings
from mayfly.settings.shape import LaneSettings, ResolvedLane, Settings

if TYPE_CHECKING:
    from mayfly.settings.loading import Loaded, Origin, load

__all__ = ["LaneSettings", "Loaded", "Origin", "ResolvedLane", "Settings", "load", "load_settings"]


def __getattr__(name: str) -> object:
    """Imported on first use: most processes can do without pydantic (see quick.py)."""
    if name not in ("Loaded", "Origin", "load"):
        raise AttributeError(f"module 'mayfly.settings' has no attribute {name!r}")
    from mayfly.settings import loading

    return getattr(loading, name)
