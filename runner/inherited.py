"""What a forked runner has from its parent, so that not each one has to make it for itself."""

from contextlib import suppress
from dataclasses import dataclass

from mayfly.engine import Database
from mayfly.logs import Log
from mayfly.opening import load_registry
from mayfly.registry import Registry
from mayfly.settings import Settings


@dataclass(frozen=True)
class Inherited:
    database: Database  # closed before the fork: what crosses it is the knowledge of the server, never a connection
    log: Log | None = None
    registry: Registry | None = None


def inherit(settings: Settings, database: Database, log: Log) -> Inherited:
    """Made once, for all runners of a lane, with what their hooks are in; each tells by itself what it misses."""
    registry = load_registry(settings)
    if settings.hooks_before or settings.hooks_after:
        from mayfly.hooks.find import AFTER, BEFORE, find_all

        list(find_all(settings, BEFORE, AFTER))
    if settings.otlp_endpoint is not None:
        with suppress(ModuleNotFoundError):
            import runner.tracing  # noqa: F401 - for all of them; what starts threads is made by each
    return Inherited(database, log, registry)
