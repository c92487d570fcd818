"""Background jobs on a database and cron.

Applications and handlers use the names of this module, `mayfly.errors` and `mayfly.testing`. The other public
interfaces are the command `mayfly`, the HTTP API and the tables. All other modules are private.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mayfly.business_hours import BusinessHours
    from mayfly.client import batch, cancel, chain, database, enqueue, enqueue_many
    from mayfly.db.dialects import utc_from_driver
    from mayfly.errors import MayflyError
    from mayfly.job import Job, current_job
    from mayfly.limits.limit import Limit, concurrency, rate
    from mayfly.queue.followups import step
    from mayfly.queue.outcome import Cancel, Dead, Outcome, Retry, Snooze
    from mayfly.registry import handler
    from mayfly.schedules.files import schedule
    from mayfly.settings.sources import setting

__version__ = "0.2.0"

__all__ = [
    "BusinessHours", "Cancel", "Dead", "Job", "Limit", "MayflyError", "Outcome", "Retry", "Snooze", "__version__",
    "batch", "cancel", "chain", "concurrency", "current_job", "database", "enqueue", "enqueue_many", "handler",
    "rate", "schedule", "setting", "step", "utc_from_driver",
]  # fmt: skip

_MODULES = {
    "mayfly.business_hours": ("BusinessHours",),
    "mayfly.client": ("batch", "cancel", "chain", "database", "enqueue", "enqueue_many"),
    "mayfly.db.dialects": ("utc_from_driver",),
    "mayfly.errors": ("MayflyError",),
    "mayfly.job": ("Job", "current_job"),
    "mayfly.limits.limit": ("Limit", "concurrency", "rate"),
    "mayfly.queue.followups": ("step",),
    "mayfly.queue.outcome": ("Cancel", "Dead", "Outcome", "Retry", "Snooze"),
    "mayfly.registry": ("handler",),
    "mayfly.schedules.files": ("schedule",),
    "mayfly.settings.sources": ("setting",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import on first use: a process that only declares handlers does not load the database drivers."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'mayfly' has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)
