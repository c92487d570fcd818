"""tests.basic_handlers as the only declared handlers.

A process that runs tests also imports handlers/, which declares the same types, and declarations are global.
"""

from functools import cache
from importlib import import_module
from importlib.metadata import entry_points

import pytest

from mayfly import registry
from mayfly.registry import Handler


def declared_by(module: str) -> dict[str, Handler]:
    """The handlers that importing the module declares; other declarations are restored."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_declared", {})
        import_module(module)
        return dict(registry.declared())


BASIC = declared_by("tests.basic_handlers")
scan_once = cache(entry_points)


def use_basic_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANDLERS", "tests.basic_handlers")
    monkeypatch.setattr(registry, "_declared", dict(BASIC))
    scan_packages_once(monkeypatch)


def scan_packages_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test installs a package. Reading the entry points of all installed ones takes 10 ms at every load."""
    monkeypatch.setattr(registry, "entry_points", scan_once)
