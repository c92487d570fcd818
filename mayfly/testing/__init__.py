"""For tests of applications and their handlers: run jobs in the test's own process, check what is enqueued."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mayfly.testing.database import (
        EnqueuedJob,
        FreshDatabase,
        assert_enqueued,
        enqueued_jobs,
        pinned_offset,
        using_database,
    )
    from mayfly.testing.run import Drained, Run, drain, run_inline

__all__ = [
    "Drained", "EnqueuedJob", "FreshDatabase", "Run", "assert_enqueued", "drain", "enqueued_jobs", "pinned_offset",
    "run_inline", "using_database",
]  # fmt: skip

_IN_RUN = ("Drained", "Run", "drain", "run_inline")


def __getattr__(name: str) -> object:
    """Import on first use: pytest loads the plugin of this package even in projects that never use it."""
    if name not in __all__:
        raise AttributeError(f"module 'mayfly.testing' has no attribute {name!r}")
    if name not in _IN_RUN:
        return getattr(import_module("mayfly.testing.database"), name)
    from mayfly.process.programs import import_own  # here: see above

    import_own("runner")
    return getattr(import_module("mayfly.testing.run"), name)
