"""Background jobs that live for less than a minute. What is shown here is what applications and handlers use."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mayfly.client import cancel, enqueue, enqueue_many
    from mayfly.db.dialects import utc_from_driver
    from mayfly.errors import MayflyError
    from mayfly.job import Job
    from mayfly.limits.limit import concurrency, rate
    from mayfly.queue.outcome import Cancel, Dead, Outcome, Retry, Snooze
    from mayfly.registry import handler
    from mayfly.schedules.declare import schedule
    from mayfly.settings.sources import setting
    from mayfly.workflows import batch, chain, step

__version__ = "0.1.0"

__all__ = [
    "Cancel", "Dead", "Job", "MayflyError", "Outcome", "Retry", "Snooze", "__version__", "batch", "cancel", "chain",
    "concurrency", "enqueue", "enqueue_many", "handler", "rate", "schedule", "setting",
    "step", "utc_from_driver",
]  # fmt: skip

_HOME = {
    **dict.fromkeys(("enqueue", "enqueue_many"), "mayfly.client"),
    **dict.fromkeys(("Cancel", "Dead", "Outcome", "Retry", "Snooze"), "mayfly.queue.outcome"),
    **dict.fromkeys(("concurrency", "rate"), "mayfly.limits.limit"),
    "Job": "mayfly.job",
    "cancel": "mayfly.client",
    "MayflyError": "mayfly.errors",
    "batch": "mayfly.workflows",
    "chain": "mayfly.workflows",
    "handler": "mayfly.registry",
    "schedule": "mayfly.schedules.declare",
    "setting": "mayfly.settings.sources",
    "step": "mayfly.workflows",
    "utc_from_driver": "mayfly.db.dialects",
}


def __getattr__(name: str) -> object:
    """Imported on first use: a process that only declares a handler need not load the database's drivers."""
    if name not in _HOME:
        raise AttributeError(f"module 'mayfly' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
