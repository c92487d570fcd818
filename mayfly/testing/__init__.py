"""For tests of applications and their handlers: run jobs in the test's own process, see what is enqueued."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mayfly.testing.assertions import assert_enqueued
    from mayfly.testing.database import EnqueuedJob, FreshDatabase, enqueued_jobs, pinned_offset, using_database
    from mayfly.testing.run import Drained, Run, drain, run_inline

__all__ = [
    "Drained", "EnqueuedJob", "FreshDatabase", "Run", "assert_enqueued", "drain", "enqueued_jobs", "pinned_offset",
    "run_inline", "using_database",
]  # fmt: skip

_HOME = {
    "assert_enqueued": "assertions",
    **dict.fromkeys(("EnqueuedJob", "FreshDatabase", "enqueued_jobs", "pinned_offset", "using_database"), "database"),
    **dict.fromkeys(("Drained", "Run", "drain", "run_inline"), "run"),
}


def __getattr__(name: str) -> object:
    """Imported on first use: pytest loads the plugin in here for projects that have never heard of it."""
    if name not in _HOME:
        raise AttributeError(f"module 'mayfly.testing' has no attribute {name!r}")
    return getattr(import_module(f"mayfly.testing.{_HOME[name]}"), name)
