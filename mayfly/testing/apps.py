"""What `mayfly.enqueue` and its kind work with while a test holds the process."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from mayfly.app import App, current_app, use_app
from mayfly.clock import host_clock
from mayfly.engine import Database
from mayfly.errors import NeedsTestDatabase
from mayfly.jobs.enqueue import Door, NewJob
from mayfly.opening import load_registry
from mayfly.registry import Registry, declared
from mayfly.settings import Settings


class InlineApp(App):
    """On a database of the test's own, with every handler that was declared by now, those of the test included."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.door = _StampingDoor(settings.payload_limit, settings.max_attempts, self.now)
        self._loaded: Registry | None = None

    def close(self) -> None:
        if self._database is not None:
            self._database.close()

    @property
    def registry(self) -> Registry:
        self._loaded = self._loaded or load_registry(self.settings)
        return replace(self._loaded, handlers={**self._loaded.handlers, **declared()})


class AppWithoutDatabase(InlineApp):
    """For handlers that need none: what the settings name is for real jobs, and no test's."""

    @property
    def database(self) -> Database:
        raise NeedsTestDatabase

    def now(self) -> datetime:
        return host_clock().now()


@dataclass(frozen=True)
class _StampingDoor(Door):
    """Jobs are due by Python's clock: the database's own, which fills in what is left out, cannot be frozen."""

    now: Callable[[], datetime]

    def admit(self, *given: Any, run_at: datetime | None = None, **options: Any) -> NewJob:
        return super().admit(*given, run_at=self.now() if run_at is None else run_at, **options)


def inline_app() -> InlineApp:
    """Refused outside of a test's database: nobody's real jobs are run, or looked at, by accident."""
    app = current_app()
    if not isinstance(app, InlineApp):
        raise NeedsTestDatabase
    return app


@contextmanager
def any_inline_app() -> Iterator[InlineApp]:
    """The one of this test, or one that works as long as nobody asks for a database."""
    before = current_app()
    app = before if isinstance(before, InlineApp) else AppWithoutDatabase(before.settings)
    use_app(app)
    try:
        yield app
    finally:
        use_app(before)
