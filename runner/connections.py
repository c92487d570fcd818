"""Which connection a handler's `enqueue` uses: the runner's own one, or, beside the main thread, another."""

from threading import get_ident

from mayfly import opening
from mayfly.app import App
from mayfly.engine import Database
from mayfly.registry import Registry
from mayfly.settings import Settings


class RunnerApp(App):
    """What handlers share with their runner."""

    def __init__(self, settings: Settings, database: Database, registry: Registry, most: int) -> None:
        super().__init__(settings, database, registry)
        self._own = database
        self._main_thread = get_ident()
        self._most = most
        self._beside: Database | None = None

    @property
    def database(self) -> Database:
        return self._own if get_ident() == self._main_thread else self.beside()

    def beside(self) -> Database:
        """For threads and the event loop: the main thread's one connection is never waited for, nor lent."""
        with self._opening:
            if self._beside is None:
                self._beside = opening.open_database(self.settings, connections=self._most)
                self._beside.set_clock(self._own.clock)
            return self._beside

    def close(self) -> None:
        if self._beside is not None:
            self._beside.close()
