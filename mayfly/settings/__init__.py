"""The settings: the only package that reads the environment, .env and mayfly.toml.

model.py declares every setting. The rest of the product gets plain, read-only values (values.py), from the snapshot
that an earlier process left (snapshot.py) or through the model (loading.py).
"""

from typing import TYPE_CHECKING

from mayfly.settings.values import LaneSettings, ResolvedLane, Settings

if TYPE_CHECKING:
    from mayfly.settings.loading import Loaded, Origin, load
    from mayfly.settings.snapshot import load_settings, load_with_warnings

__all__ = [
    "LaneSettings", "Loaded", "Origin", "ResolvedLane", "Settings", "load", "load_settings", "load_with_warnings",
]  # fmt: skip


def __getattr__(name: str) -> object:
    """Imported on first use: loading imports pydantic, and snapshot imports modules that import this package."""
    if name not in __all__:
        raise AttributeError(f"module 'mayfly.settings' has no attribute {name!r}")
    if name in ("load_settings", "load_with_warnings"):
        from mayfly.settings import snapshot

        return getattr(snapshot, name)
    from mayfly.settings import loading

    return getattr(loading, name)
